// The version of hearthd and hearth-profiler, as config/version.cmake found it.
//
// One generated file defines it, so that another version compiles one file again and spoils no compiler cache.
#pragma once

namespace hearth {

/// "0.1.0", or after a release "0.1.0-4-gabcdef0". Lives as long as the process.
const char* hearth_version();

}  // namespace hearth
