// Implements control.h for tests on a real device, where nothing is emulated.
#include <stdexcept>

#include "tests/support/cudaemu/control.h"

namespace hearth::cudaemu {

bool is_emulated() { return false; }

Config& config() {
  static Config unused;
  return unused;
}

Stats stats() { return {}; }
void reset_stats() {}
void forget_kernels() {}
std::vector<KernelTouch> take_touches() { return {}; }

void fail_next(const char* api, int /*n_good*/, cudaError_t /*error*/, int /*n_times*/) {
  throw std::logic_error(
      std::string(api) +
      " fails on the emulator only; tag this test case [emulated], so that it does not run here.");
}
void fail_as_told(const std::string& faults) { fail_next(faults.c_str(), 0, cudaSuccess, 0); }
std::map<std::string, uint64_t> call_counts() { return {}; }
void repair_device() {}

void record_intervals(bool /*on*/) {}
std::vector<Interval> intervals() { return {}; }

}  // namespace hearth::cudaemu
