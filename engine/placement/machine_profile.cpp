// See the header.
#include "engine/placement/machine_profile.h"

#include <algorithm>

namespace hearth {

double MachineProfile::ram_read_bytes_per_s(int n_threads) const {
  ReadRate before;  // no threads read nothing
  for (const ReadRate& rate : host.ram_read) {
    if (n_threads <= rate.n_threads) {
      const double way =
          static_cast<double>(n_threads - before.n_threads) / (rate.n_threads - before.n_threads);
      return before.bytes_per_s + way * (rate.bytes_per_s - before.bytes_per_s);
    }
    before = rate;
  }
  return before.bytes_per_s;
}

double MachineProfile::ram_read_bytes_per_s() const {
  double best = 0;
  for (const ReadRate& rate : host.ram_read) best = std::max(best, rate.bytes_per_s);
  return best;
}

MachineProfile typical_machine() {
  // These are figures of two channels of DDR5, PCIe 4.0 and a mid-range GPU. They lie between the figures of
  // the desktops whose profiles are shipped (profiler/machine/machines); the GPUs of these desktops read 5 to
  // 16 times as fast as their CPUs.
  MachineProfile machine;
  machine.name = "typical machine";
  machine.host = {.cpu = "typical CPU",
                  .n_cores = 8,
                  .n_numa_nodes = 1,
                  .ram_bytes = int64_t{64} << 30,
                  .ram_read = {{.n_threads = 8, .bytes_per_s = 60e9}},
                  .numa_read_bytes_per_s = {},
                  .sparse_row_share = 0.7,
                  .multiply_adds_per_s = 0.3e12};
  machine.gpu = GpuProfile{.name = "typical GPU",
                           .compute_major = 8,
                           .compute_minor = 6,
                           .vram_bytes = int64_t{16} << 30,
                           .vram_bytes_per_s = 600e9,
                           .to_device_pinned_bytes_per_s = 25e9,
                           .to_device_pageable_bytes_per_s = 10e9,
                           .from_device_pinned_bytes_per_s = 25e9,
                           .from_device_pageable_bytes_per_s = 10e9,
                           .launch_s = 2.3e-6,
                           .round_trip_s = 15e-6,
                           .multiply_adds_per_s = 15e12,
                           .instructions_per_s = 20e12};
  return machine;
}

}  // namespace hearth
