// Seconds of each kind of work on a machine: what a placement is judged by.
//
// Decoding one token is bytes over bandwidth, plus what it costs to start kernels and to hand over between
// GPU and CPU. As in the bound of bytes (profiler/bench/byte_bound.h), with eta, the share of the sequential rate
// that scattered rows reach, and with the time of synchronising:
//
//   rows of cold neurons, the CPU alone       B_cold = eta B_ram
//   with neurons brought over PCIe meanwhile  the CPU reads 1 - s of them, PCIe s / u, for a share u of what
//   it
//                                             brings is wanted; s such that the slower of the CPU, PCIe and
//                                             RAM, out of which both read, is as fast as can be
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

  /// Decoding, of bytes. The GPU reads rows at the rate of whole matrices: a row is kilobytes long.
  double gpu_read(double bytes) const { return bytes * gpu_s_; }
  double cpu_read(double bytes) const { return bytes * cpu_s_; }
  double cpu_rows(double bytes) const { return bytes * rows_s_; }
  ColdRead cold_rows() const { return {rows_s_, 0}; }
  /// useful: the share u, in (0, 1]. Nothing is brought where that does not help.
  ColdRead cold_rows_brought(double useful) const;

  double kernels(double n) const { return n * launch_s_; }
  /// A hand-over from GPU to CPU and back, with so many bytes each way.
  double round_trip(double bytes_out, double bytes_back) const;

  /// Prompts: multiply-adds, and weights that are streamed to the GPU.
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
