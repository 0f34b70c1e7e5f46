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

TEST_CASE("a read rate is printed with its spread if that is known") {
  CHECK(rate_text(ReadRate{.n_threads = 2, .bytes_per_s = 27.06e9}) == "27.1 GB/s");
  MachineProfile machine;
  machine.host.ram_read = {{1, 14e9, 13e9, 15e9}, {2, 27.06e9, 25.9e9, 27.4e9}};
  CHECK(read_rate_text(machine) == "27.1 GB/s (25.9 to 27.4)");
}

}  // namespace
}  // namespace hearth::testing
