// Tests the sentence about a machine that other programs use.
#include "profiler/machine/busy_machine.h"

#include "tests/support/catch.h"

using namespace hearth;

TEST_CASE("a busy machine is named with its rates, a quiet one is not") {
  CHECK(busy_sentence(1, 70e9).empty());
  CHECK(busy_sentence(0.8, 70e9).empty());
  CHECK(busy_sentence(0.44, 70e9) ==
        "other programs use this machine: its memory is read at 31 of 70 GB/s now");
  CHECK(busy_prediction(0.8, 70e9).empty());
  CHECK_THAT(busy_prediction(0.44, 70e9), ContainsSubstring(" now, so expect about 44 % of these speeds"));
  CHECK(busy_measurement(0.8, 70e9).empty());
  CHECK_THAT(busy_measurement(0.44, 70e9),
             ContainsSubstring(" now, so these speeds are lower than those of a quiet machine"));
}

TEST_CASE("the available share is that of the profile's rate") {
  MachineProfile machine;
  CHECK(available_share(machine) == 1);
  machine.host.ram_read = {{.n_threads = 1, .bytes_per_s = 1}};
  CHECK(available_share(machine) == 1);  // at most
  machine.host.ram_read = {{.n_threads = 1, .bytes_per_s = 1e18}};
  const double share = available_share(machine);
  CHECK(share > 0);
  CHECK(share < 1e-3);
}
