// Files of traces: refused at the start if they cannot be written, and complete at the end.
#include "kernels/base/trace.h"

#include <fstream>
#include <sstream>

#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

TEST_CASE("trace file: it is empty until it is written, then holds the trace") {
  const TempFolder folder;
  const std::filesystem::path path = folder.path() / "trace.json";
  TraceFile file(path);
  CHECK(std::filesystem::file_size(path) == 0);
  { TraceBlock block(&file.trace(), "CPU", "attention", 0); }
  file.write();
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  CHECK(text.str() == file.trace().json());
}

TEST_CASE("trace file: a path that cannot be written is refused in a sentence") {
  const TempFolder folder;
  CHECK_THROWS_WITH(TraceFile(folder.path()), ContainsSubstring(folder.path().string()));
  CHECK_THROWS_WITH(TraceFile(folder.path()), ContainsSubstring("cannot be written: Is a directory."));
  CHECK_THROWS_WITH(TraceFile(folder.path() / "absent" / "trace.json"), ContainsSubstring("No such file"));
  TraceFile full("/dev/full");
  CHECK_THROWS_WITH(full.write(), ContainsSubstring("No space left on device"));
}

}  // namespace
}  // namespace hearth::test
