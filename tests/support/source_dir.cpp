// The repository's folder, as CMake knew it.
#include "tests/support/source_dir.h"

namespace hearth::testing {

std::string source_dir() { return HEARTH_SOURCE_DIR; }

}  // namespace hearth::testing
