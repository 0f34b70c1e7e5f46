// The version of hearthd and hearth-profiler, as config/version.cmake found it.
//
// One generated file holds it and the other facts of the build, so a new version recompiles only that file
// and keeps compiler caches valid. None of this depends on the time or the folder of the build.
#pragma once

namespace hearth {

/// "0.1.0", or after a release "0.1.0-4-gabcdef0". Lives as long as the process.
const char* hearth_version();

/// The source and the compilers that this program was built with. The strings live as long as the process.
struct BuildFacts {
  const char* commit;    // "54c2a81c0b7e", with "-dirty" if files differed from it; empty: unknown
  const char* compiler;  // "GNU 12.2.0"
  const char* cuda;      // version of the CUDA compiler; empty: built without CUDA
};
BuildFacts build_facts();

}  // namespace hearth
