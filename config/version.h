// The version of hearthd and hearth-profiler, as config/version.cmake found it.
//
// One generated file defines it and what else is known of the build, so that another version compiles one file again and
// spoils no compiler cache. Nothing of it depends on the time or the folder of the build.
#pragma once

namespace hearth {

/// "0.1.0", or after a release "0.1.0-4-gabcdef0". Lives as long as the process.
const char* hearth_version();

/// What this program was built from and with. All live as long as the process.
struct BuildFacts {
  const char* commit;    // "54c2a81c0b7e", with "-dirty" if files differed from it; empty: unknown
  const char* compiler;  // "GNU 12.2.0"
  const char* cuda;      // version of the CUDA compiler; empty: built without CUDA
};
BuildFacts build_facts();

}  // namespace hearth
