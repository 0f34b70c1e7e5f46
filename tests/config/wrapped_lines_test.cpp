// Wraps sentences into lines.
#include "config/wrapped_lines.h"

#include "tests/support/catch.h"

namespace hearth::testing {
namespace {

TEST_CASE("sentences become lines, broken at spaces") {
  using Lines = std::vector<std::string>;
  CHECK(wrapped_lines("", 5) == Lines{""});
  CHECK(wrapped_lines("a b c", 5) == Lines{"a b c"});
  CHECK(wrapped_lines("one two three", 7) == Lines{"one two", "three"});
  CHECK(wrapped_lines("one two three", 8) == Lines{"one two", "three"});
  CHECK(wrapped_lines("one two three", 4) == Lines{"one", "two", "three"});
  CHECK(wrapped_lines("a longest b", 4) == Lines{"a", "longest", "b"});
  CHECK(wrapped_lines("longest", 4) == Lines{"longest"});
  CHECK(wrapped_lines("one ", 3) == Lines{"one"});
}

}  // namespace
}  // namespace hearth::testing
