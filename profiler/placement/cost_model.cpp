// See the header.
#include "profiler/placement/cost_model.h"

#include <algorithm>

namespace hearth {

CostModel::CostModel(const MachineProfile& machine)
    : cpu_s_(1 / machine.ram_read_bytes_per_s()),
      rows_s_(cpu_s_ / machine.host.sparse_row_share),
      cpu_multiply_add_s_(1 / machine.host.multiply_adds_per_s) {
  if (!machine.gpu) return;
  has_gpu_ = true;
  const GpuProfile& gpu = *machine.gpu;
  gpu_s_ = 1 / gpu.vram_bytes_per_s;
  to_gpu_s_ = 1 / gpu.to_device_pinned_bytes_per_s;
  from_gpu_s_ = 1 / gpu.from_device_pinned_bytes_per_s;
  gpu_multiply_add_s_ = 1 / gpu.multiply_adds_per_s;
  launch_s_ = gpu.launch_s;
  round_trip_s_ = gpu.round_trip_s;
}

ColdRead CostModel::cold_rows_brought(double useful) const {
  if (!has_gpu_) return cold_rows();
  // Seconds per wanted byte, of which the share s is brought over PCIe:
  //   the CPU  rows_s (1 - s)    PCIe  to_gpu s / u    RAM  cpu_s (1 - s + s / u)
  // The first falls and the others rise, so the least of the largest is where the first meets one of them.
  const double over_link = to_gpu_s_ / useful;
  const double meets_link = rows_s_ / (rows_s_ + over_link);
  const double meets_ram = (rows_s_ - cpu_s_) / (rows_s_ - cpu_s_ + cpu_s_ / useful);
  const double share = std::clamp(std::min(meets_link, meets_ram), 0.0, 1.0);
  return {rows_s_ * (1 - share), share};
}

double CostModel::round_trip(double bytes_out, double bytes_back) const {
  return round_trip_s_ + bytes_out * from_gpu_s_ + bytes_back * to_gpu_s_;
}

}  // namespace hearth
