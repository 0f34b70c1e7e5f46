// Tests how rates are shown to people.
#include "profiler/machine/rate_text.h"
#include "tests/support/catch.h"

namespace hearth::testing {
namespace {

TEST_CASE("rates are printed with three digits, or all before the point") {
  CHECK(rate_text(0) == "0");
  CHECK(rate_text(0.03141) == "0.0314");
  CHECK(rate_text(8.214) == "8.21");
  CHECK(rate_text(123.4) == "123");
  CHECK(rate_text(999.4) == "999");
  CHECK(rate_text(999.6) == "1,000");
  CHECK(rate_text(12345.4) == "12,345");
}

}  // namespace
}  // namespace hearth::testing
