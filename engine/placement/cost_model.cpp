// See the header.
#include "engine/placement/cost_model.h"

#include <algorithm>
#include <numeric>

#include "engine/placement/kernel_costs.h"
#include "kernels/cuda/ops/kernel_class.h"

namespace hearth {

GpuCosts gpu_costs(const GpuProfile& gpu) {
  return {.kernels = kernel_speeds(gpu),
          .gather_share = gather_share(gpu),
          .hand_over_s = hand_over_s(gpu),
          .step_s = step_s(gpu)};
}

CostModel::CostModel(const MachineProfile& machine)
    : CostModel(machine, machine.gpu ? gpu_costs(*machine.gpu) : GpuCosts()) {}

CostModel::CostModel(const MachineProfile& machine, const GpuCosts& costs)
    : cpu_s_(1 / machine.ram_read_bytes_per_s()),
      rows_s_(cpu_s_ / machine.host.sparse_row_share),
      cpu_multiply_add_s_(1 / machine.host.multiply_adds_per_s) {
  if (!machine.gpu) return;
  has_gpu_ = true;
  to_gpu_s_ = 1 / machine.gpu->to_device_pinned_bytes_per_s;
  from_gpu_s_ = 1 / machine.gpu->from_device_pinned_bytes_per_s;
  for (size_t i = 0; i < gpu_s_.size(); ++i) {
    gpu_s_[i] = 1 / costs.kernels[i].bytes_per_s;
    gpu_multiply_add_s_[i] = 1 / costs.kernels[i].multiply_adds_per_s;
    gpu_instruction_s_[i] = 1 / costs.kernels[i].instructions_per_s;
    start_s_[i] = costs.kernels[i].start_s;
  }
  gather_share_ = costs.gather_share;
  hand_over_s_ = costs.hand_over_s;
  step_s_ = costs.step_s;
}

double CostModel::kernels(const KernelCounts& n) const {
  return std::inner_product(n.begin(), n.end(), start_s_.begin(), 0.0);
}

double CostModel::gpu_compute(double multiply_adds, DType type, bool library) const {
  const bool tiles = library || uses_quantized_activations(type);
  if (!tiles)
    return gpu_instructions(multiply_adds * cuda::kFloatInstructions, cuda::KernelClass::kSlowProduct);
  const cuda::KernelClass by = library ? cuda::KernelClass::kTiles : cuda::tile_class(type);
  return multiply_adds * gpu_multiply_add_s_[static_cast<size_t>(by)];
}

ColdRead CostModel::cold_rows_brought(double useful, double bytes, double besides) const {
  const double link_s = to_gpu_s_ / (kLinkBusy * gather_share_);
  if (!has_gpu_ || bytes <= 0 || link_s <= cpu_s_) return cold_rows();
  // PCIe brings the share s of the wanted bytes, and the CPU reads the rest. Seconds per wanted byte:
  //   CPU:  beside_link (1 - s)
  //   PCIe: over_link s. This may be longer than the CPU's time by besides / bytes, because PCIe also copies
  //         in the part of the layer's time in which the CPU does not work.
  const double over_link = link_s / useful;
  const double beside_link = std::max(rows_s_, 1 / (1 / cpu_s_ - 1 / link_s));
  const double share = std::min((beside_link + besides / bytes) / (beside_link + over_link), 1.0);
  if (beside_link * (1 - share) >= rows_s_) return cold_rows();
  return {beside_link * (1 - share), share};
}

double CostModel::round_trip(double bytes_out, double bytes_back) const {
  return hand_over_s_ + bytes_out * from_gpu_s_ + bytes_back * to_gpu_s_;
}

}  // namespace hearth
