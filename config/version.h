// The version of hearthd and hearth-profiler, which config/version.cmake determines.
//
// One generated file contains the version and the other facts about the build. A new version therefore
// recompiles only that file, and compiler caches stay valid. These values do not depend on the time or the
// folder of the build.
#pragma once

namespace hearth {

/// Returns the version: "0.1.0" for a release, "0.1.0-4-gabcdef0" for the fourth commit after it. The text
/// lives as long as the process.
const char* hearth_version();

/// The source commit and the compilers of this program. The strings live as long as the process.
struct BuildFacts {
  const char* commit;    // "54c2a81c0b7e", with "-dirty" if there were uncommitted changes; empty if unknown
  const char* compiler;  // "GNU 12.2.0"
  const char* cuda;      // version of the CUDA compiler; empty if built without CUDA
};
BuildFacts build_facts();

}  // namespace hearth
