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

ColdRead CostModel::cold_rows_brought(double useful, double bytes, double besides) const {
  const double link_s = to_gpu_s_ / kLinkBusy;
  if (!has_gpu_ || bytes <= 0 || link_s <= cpu_s_) return cold_rows();
  // Seconds per wanted byte, of which the share s is brought over PCIe:
  //   the CPU  beside_link (1 - s)    PCIe  over_link s, which may take besides / bytes more
  const double over_link = link_s / useful;
  const double beside_link = std::max(rows_s_, 1 / (1 / cpu_s_ - 1 / link_s));
  const double share = std::min((beside_link + besides / bytes) / (beside_link + over_link), 1.0);
  if (beside_link * (1 - share) >= rows_s_) return cold_rows();
  return {beside_link * (1 - share), share};
}

double CostModel::round_trip(double bytes_out, double bytes_back) const {
  return round_trip_s_ + bytes_out * from_gpu_s_ + bytes_back * to_gpu_s_;
}

}  // namespace hearth
