// mkdtemp, and removal in the destructor.
#include "tests/support/temp_folder.h"

#include <stdlib.h>

#include <stdexcept>
#include <string>
#include <system_error>

namespace hearth::test {

TempFolder::TempFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "hearth-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder " + name);
  path_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace hearth::test
