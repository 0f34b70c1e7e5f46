// Numbers and sentences as people at a terminal are shown them.
#include "profiler/rate_text.h"
#include "profiler/wrapped_lines.h"
#include "tests/support/catch.h"

namespace hearth::testing {
namespace {

TEST_CASE("rates for people have three digits, or all before the point") {
  CHECK(rate_text(0) == "0");
  CHECK(rate_text(0.03141) == "0.0314");
  CHECK(rate_text(8.214) == "8.21");
  CHECK(rate_text(123.4) == "123");
  CHECK(rate_text(999.4) == "999");
  CHECK(rate_text(999.6) == "1,000");
  CHECK(rate_text(12345.4) == "12,345");
}

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
