// The repository's folder: the environment variable HEARTH_SOURCE_DIR if it is set, for programs that run on
// another machine than the one that built them; otherwise the source folder of the build.
#include "tests/support/source_dir.h"

#include <cstdlib>

namespace hearth::testing {

std::string source_dir() {
  const char* elsewhere = std::getenv("HEARTH_SOURCE_DIR");
  return elsewhere != nullptr ? elsewhere : HEARTH_SOURCE_DIR;
}

}  // namespace hearth::testing
