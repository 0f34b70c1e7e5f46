// Locates the repository's folder, for tests that read project data. This is a function in one small unit
// instead of a macro in all units, so that builds of other clones can share a compiler cache.
#pragma once

#include <string>

namespace hearth::testing {

/// Absolute, without a slash at the end.
std::string source_dir();

}  // namespace hearth::testing
