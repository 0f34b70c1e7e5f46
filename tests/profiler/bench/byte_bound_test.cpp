// The bound by bytes: cases computed by hand, with the figures of a 70B model on a 24 GB card.
#include "profiler/bench/byte_bound.h"

#include "tests/support/catch.h"

using hearth::least_seconds;
using hearth::MachineBandwidth;
using hearth::TokenBytes;

namespace {

constexpr double kGb = 1e9;
constexpr MachineBandwidth kMachine{.ram = 67 * kGb, .vram = 900 * kGb, .pcie = 25 * kGb};

}  // namespace

TEST_CASE("byte bound: the CPU alone reads everything from RAM") {
  const TokenBytes bytes{.host_whole = 6.7 * kGb};
  CHECK(least_seconds(bytes, {.ram = 67 * kGb}, true) == Approx(0.1));
  CHECK(bytes.sum() == 6.7 * kGb);
}

TEST_CASE("byte bound: dense layers on both devices run one after the other") {
  // 70B in Q4_K_M: 20.6 GB on the card, 21.6 GB in RAM, 1.3 GB of keys and values: 2.9 tokens/s.
  const TokenBytes bytes{.device_whole = 21.9 * kGb, .host_whole = 21.6 * kGb};
  CHECK(1 / least_seconds(bytes, kMachine, true) == Approx(2.88).epsilon(0.005));
}

TEST_CASE("byte bound: for shared neurons the slower of the two sides counts") {
  const double whole = 9 * kGb / kMachine.vram;
  const TokenBytes cold{.device_whole = 9 * kGb, .device_neurons = 4.3 * kGb, .cold_neurons = 1.34 * kGb};
  CHECK(least_seconds(cold, kMachine, true) == Approx(whole + 0.02));
  const TokenBytes hot{.device_whole = 9 * kGb, .device_neurons = 18 * kGb, .cold_neurons = 0.67 * kGb};
  CHECK(least_seconds(hot, kMachine, true) == Approx(whole + 0.02));
}

TEST_CASE("byte bound: bytes the CPU does not compute go over PCIe, no faster than RAM") {
  const TokenBytes bytes{.cold_neurons = 2.5 * kGb};
  CHECK(least_seconds(bytes, kMachine, false) == Approx(0.1));
  CHECK(least_seconds(bytes, {.ram = 25 * kGb, .vram = 900 * kGb, .pcie = 50 * kGb}, false) == Approx(0.1));
}

TEST_CASE("byte bound: nothing to read takes no time") {
  CHECK(least_seconds({}, {}, true) == 0);
  CHECK(least_seconds({}, {}, false) == 0);
}
