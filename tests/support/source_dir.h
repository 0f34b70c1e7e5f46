// Where the repository lies, for tests that read project data. A function of one small unit, not a macro of
// all: builds of other clones can then share a compiler cache.
#pragma once

#include <string>

namespace hearth::testing {

/// Absolute, without a slash at the end.
std::string source_dir();

}  // namespace hearth::testing
