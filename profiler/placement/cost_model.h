// The seconds that each kind of work takes on a machine, by which placements are compared.
//
// Decoding one token takes its bytes over the bandwidth, plus the time to start kernels and to hand over
// between GPU and CPU. This is the byte bound (profiler/bench/byte_bound.h) with eta, the share of the
// sequential rate that scattered rows reach, and with the time of synchronising:
//
//   rows of cold neurons, the CPU alone       B_cold = eta B_ram
//   with neurons brought over PCIe as well    the CPU reads 1 - s of the bytes, PCIe brings s / u of them
//
// s is the share brought, and u the share of brought neurons that is wanted. PCIe brings while the whole layer is computed, and
// the CPU reads in a part of that time; s is such that PCIe is done when the CPU is. Both read from RAM, so the CPU gets what
// PCIe leaves of its rate.
//
// A plain value; any thread.
#pragma once

#include <array>

#include "kernels/cuda/ops/kernel_work.h"
#include "kernels/dtype.h"
#include "profiler/machine/machine_profile.h"

namespace hearth {

/// How rows of cold neurons are read.
struct ColdRead {
  double seconds_per_byte = 0;
  double brought_share = 0;  // s: of the bytes that are wanted, over PCIe
};

/// Kernels, by class.
using KernelCounts = std::array<double, cuda::kKernelClasses>;

/// What a GPU's work takes besides its profile's rates.
struct GpuCosts {
  cuda::KernelSpeeds kernels;
  double gather_share = 1;  // of the link's rate, for neurons that are brought
  double hand_over_s = 0;   // from a kernel that hands over to the first one that the host launches then
  double step_s = 0;        // of a decoding step, outside the layers
  double instructions_per_s = 1e18;  // that kernels reach
};
/// By the table that the simulation uses too (profiler/machine/kernel_costs.h).
GpuCosts gpu_costs(const GpuProfile& gpu);

class CostModel {
 public:
  explicit CostModel(const MachineProfile& machine);
  /// costs: of its GPU, if it has one.
  CostModel(const MachineProfile& machine, const GpuCosts& costs);

  bool has_gpu() const { return has_gpu_; }

  /// Seconds to decode, by bytes. The GPU's: as kernels of the class read them, without starting one.
  double gpu_read(double bytes, cuda::KernelClass by) const {
    return bytes * gpu_s_[static_cast<size_t>(by)];
  }
  double cpu_read(double bytes) const { return bytes * cpu_s_; }
  double cpu_rows(double bytes) const { return bytes * rows_s_; }
  ColdRead cold_rows() const { return {rows_s_, 0}; }
  /// Of `bytes` that a layer's CPU would read for a token, if the layer takes `besides` seconds without the CPU. useful: the
  /// share u, in (0, 1]. Brings nothing if that does not help.
  ColdRead cold_rows_brought(double useful, double bytes, double besides) const;
  /// The share of the time in which PCIe copies: proposals come some time after a layer began, each piece takes a while to
  /// start, and the last one must not come too late. Simulated (docs/predictions.md, "Simulated").
  static constexpr double kLinkBusy = 0.75;

  /// Seconds to start kernels of the GPU.
  double kernels(const KernelCounts& n) const;
  /// Seconds of a decoding step outside the layers: the logits' way to the host, the next token, the scheduler.
  double step() const { return step_s_; }
  /// Seconds of a hand-over from GPU to CPU and back, with this number of bytes each way.
  double round_trip(double bytes_out, double bytes_back) const;

  /// Seconds for prompts: multiply-adds, and weights that are streamed to the GPU.
  /// The GPU's with weights of a type; library: floats are multiplied on the tensor cores.
  double gpu_compute(double multiply_adds, DType type, bool library = false) const;
  double gpu_instructions(double n) const { return n * gpu_instruction_s_; }
  double cpu_compute(double multiply_adds) const { return multiply_adds * cpu_multiply_add_s_; }
  double stream(double bytes) const { return bytes * to_gpu_s_; }

 private:
  bool has_gpu_ = false;
  // Seconds per byte, multiply-add, kernel or hand-over; those of a GPU are 0 without one.
  double cpu_s_, rows_s_, cpu_multiply_add_s_;
  std::array<double, cuda::kKernelClasses> gpu_s_ = {}, gpu_multiply_add_s_ = {}, start_s_ = {};  // by class
  double to_gpu_s_ = 0, from_gpu_s_ = 0, gather_share_ = 1, gpu_instruction_s_ = 0;
  double hand_over_s_ = 0, step_s_ = 0;
};

}  // namespace hearth
