// A machine with round figures, for tests of placement: roughly an RTX 4090 with two channels of DDR5.
#pragma once

#include "engine/placement/machine_profile.h"

namespace hearth::testing {

inline MachineProfile desktop(bool with_gpu = true) {
  MachineProfile machine;
  machine.name = "desktop";
  machine.host.n_cores = 8;
  machine.host.ram_bytes = int64_t{128} << 30;
  machine.host.ram_read = {{8, 67e9}};
  machine.host.sparse_row_share = 0.7;
  machine.host.multiply_adds_per_s = 1e12;
  if (!with_gpu) return machine;
  GpuProfile& gpu = machine.gpu.emplace();
  gpu.vram_bytes = int64_t{24} << 30;
  gpu.vram_bytes_per_s = 900e9;
  gpu.to_device_pinned_bytes_per_s = gpu.from_device_pinned_bytes_per_s = 25e9;
  gpu.launch_s = 1.5e-6;
  gpu.round_trip_s = 15e-6;
  gpu.multiply_adds_per_s = 80e12;
  return machine;
}

/// The desktop, a thousand times slower. Compared with hand-overs, reading a small model then takes as much
/// time as reading a large model on the desktop, so placements of small models resemble those of large
/// models.
inline MachineProfile slow_desktop() {
  MachineProfile machine = desktop();
  for (ReadRate& rate : machine.host.ram_read) rate.bytes_per_s /= 1000;
  machine.host.multiply_adds_per_s /= 1000;
  machine.gpu->vram_bytes_per_s /= 1000;
  machine.gpu->to_device_pinned_bytes_per_s /= 1000;
  machine.gpu->from_device_pinned_bytes_per_s /= 1000;
  machine.gpu->multiply_adds_per_s /= 1000;
  return machine;
}

}  // namespace hearth::testing
