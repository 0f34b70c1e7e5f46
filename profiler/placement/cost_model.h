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

#include "profiler/machine/machine_profile.h"

namespace hearth {

/// How rows of cold neurons are read.
struct ColdRead {
  double seconds_per_byte = 0;
  double brought_share = 0;  // s: of the bytes that are wanted, over PCIe
};

class CostModel {
 public:
  explicit CostModel(const MachineProfile& machine);

  bool has_gpu() const { return has_gpu_; }

  /// Seconds to decode, by bytes. The GPU reads rows at the rate of whole matrices: a row is kilobytes long.
  double gpu_read(double bytes) const { return bytes * gpu_s_; }
  double cpu_read(double bytes) const { return bytes * cpu_s_; }
  double cpu_rows(double bytes) const { return bytes * rows_s_; }
  ColdRead cold_rows() const { return {rows_s_, 0}; }
  /// Of `bytes` that a layer's CPU would read for a token, if the layer takes `besides` seconds without the CPU. useful: the
  /// share u, in (0, 1]. Brings nothing if that does not help.
  ColdRead cold_rows_brought(double useful, double bytes, double besides) const;
  /// The share of the time in which PCIe copies: proposals come some time after a layer began, each piece takes a while to
  /// start, and the last one must not come too late. Simulated (docs/predictions.md, "Simulated").
  static constexpr double kLinkBusy = 0.75;

  double kernels(double n) const { return n * launch_s_; }
  /// Seconds of a hand-over from GPU to CPU and back, with this number of bytes each way.
  double round_trip(double bytes_out, double bytes_back) const;

  /// Seconds for prompts: multiply-adds, and weights that are streamed to the GPU.
  double gpu_compute(double multiply_adds) const { return multiply_adds * gpu_multiply_add_s_; }
  double cpu_compute(double multiply_adds) const { return multiply_adds * cpu_multiply_add_s_; }
  double stream(double bytes) const { return bytes * to_gpu_s_; }

 private:
  bool has_gpu_ = false;
  // Seconds per byte, multiply-add, kernel or hand-over; those of a GPU are 0 without one.
  double cpu_s_, rows_s_, cpu_multiply_add_s_;
  double gpu_s_ = 0, to_gpu_s_ = 0, from_gpu_s_ = 0, gpu_multiply_add_s_ = 0;
  double launch_s_ = 0, round_trip_s_ = 0;
};

}  // namespace hearth
