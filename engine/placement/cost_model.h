// The seconds that each kind of work takes on a machine. Placements are compared by these times.
//
// Decoding one token takes the bytes that it reads divided by the bandwidth, plus the time to start kernels
// and to hand over between GPU and CPU. This sum is the byte bound (profiler/bench/byte_bound.h) plus the
// time to synchronize. Cold neurons are read at these rates, where eta is the share of the sequential rate
// that scattered rows reach:
//
//   rows of cold neurons, the CPU alone       B_cold = eta B_ram
//   with neurons brought over PCIe as well    the CPU reads 1 - s of the bytes, PCIe brings s / u of them
//
// s is the share of the wanted bytes that PCIe brings. Tokens want only the share u of the neurons that PCIe
// brings. PCIe copies during the whole time of a layer, and the CPU reads during part of this time; s is
// chosen so that PCIe and the CPU finish at the same time. PCIe and the CPU both read from RAM, so the CPU
// gets the part of RAM's rate that PCIe leaves.
//
// A plain value; any thread.
#pragma once

#include <array>

#include "engine/placement/machine_profile.h"
#include "kernels/cuda/ops/kernel_work.h"
#include "kernels/dtype.h"

namespace hearth {

/// Cost of reading rows of cold neurons.
struct ColdRead {
  double seconds_per_byte = 0;
  double brought_share = 0;  // share s of the wanted bytes that PCIe brings
};

/// Number of kernels of each class.
using KernelCounts = std::array<double, cuda::kKernelClasses>;

/// The costs of a GPU that its profile does not contain.
struct GpuCosts {
  cuda::KernelSpeeds kernels;
  double gather_share = 1;  // share of the link's rate that copies of neurons reach
  // The time from the end of the kernel that hands data to the host, to the start of the first kernel that
  // the host launches afterward.
  double hand_over_s = 0;
  double step_s = 0;  // time of a decode step outside the layers
};
/// Takes the costs from the table that the simulation also uses (engine/placement/kernel_costs.h).
GpuCosts gpu_costs(const GpuProfile& gpu);

class CostModel {
 public:
  explicit CostModel(const MachineProfile& machine);
  /// costs: the costs of the machine's GPU; not used if the machine has none.
  CostModel(const MachineProfile& machine, const GpuCosts& costs);

  bool has_gpu() const { return has_gpu_; }

  /// Seconds to read this many bytes during decode. gpu_read() uses the rate of one class of kernels and does
  /// not include the time to start kernels.
  double gpu_read(double bytes, cuda::KernelClass by) const {
    return bytes * gpu_s_[static_cast<size_t>(by)];
  }
  double cpu_read(double bytes) const { return bytes * cpu_s_; }
  double cpu_rows(double bytes) const { return bytes * rows_s_; }
  ColdRead cold_rows() const { return {rows_s_, 0}; }
  /// Cost of reading cold rows if PCIe may bring some of them to the GPU. useful: the share u explained at
  /// the top of this file, in (0, 1]. bytes: cold bytes that the CPU reads in the layer for a token if PCIe
  /// brings none. besides: seconds that the layer takes without the CPU's work. If bringing neurons saves no
  /// time, brought_share is 0.
  ColdRead cold_rows_brought(double useful, double bytes, double besides) const;
  /// The share of a layer's time in which PCIe copies. It is below 1 because proposals arrive some time after
  /// the layer began, each piece takes a while to start, and the last piece must not arrive too late. The
  /// number comes from the simulation (docs/predictions.md, "Simulated").
  static constexpr double kLinkBusy = 0.75;

  /// Seconds to start these kernels.
  double kernels(const KernelCounts& n) const;
  /// Seconds that a decode step takes outside the layers: for copying logits to the host, choosing the next
  /// token, and the scheduler.
  double step() const { return step_s_; }
  /// Seconds of a hand-over from GPU to CPU and back, with this many bytes in each direction.
  double round_trip(double bytes_out, double bytes_back) const;

  /// Seconds of a prompt's work: for multiply-adds, for instructions, and for bytes of weights that are
  /// streamed to the GPU. type: the type of the weights. library: whether a matrix library multiplies; it
  /// uses the tensor cores even if weights are floats.
  double gpu_compute(double multiply_adds, DType type, bool library = false) const;
  double gpu_instructions(double n, cuda::KernelClass by) const {
    return n * gpu_instruction_s_[static_cast<size_t>(by)];
  }
  double cpu_compute(double multiply_adds) const { return multiply_adds * cpu_multiply_add_s_; }
  double stream(double bytes) const { return bytes * to_gpu_s_; }

 private:
  bool has_gpu_ = false;
  // Seconds per byte, multiply-add, kernel or hand-over. The values of the GPU are 0 if there is no GPU.
  double cpu_s_, rows_s_, cpu_multiply_add_s_;
  std::array<double, cuda::kKernelClasses> gpu_s_ = {}, gpu_multiply_add_s_ = {}, gpu_instruction_s_ = {},
                                           start_s_ = {};  // by class
  double to_gpu_s_ = 0, from_gpu_s_ = 0, gather_share_ = 1;
  double hand_over_s_ = 0, step_s_ = 0;
};

}  // namespace hearth
