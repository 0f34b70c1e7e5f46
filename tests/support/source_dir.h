// The repository's folder, for tests that read project data. A function in one small unit, rather than a
// macro in all units, lets builds of other clones share a compiler cache.
#pragma once

#include <string>

namespace hearth::testing {

/// Absolute, without a slash at the end.
std::string source_dir();

}  // namespace hearth::testing
