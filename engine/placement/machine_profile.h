// The figures of a machine, from which placements are computed.
//
// The profiler measures them or reads them from a TOML file. For some machines, they are built in. A plain
// value; any thread. SI units: bytes, seconds; rates are per second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hearth {

/// The rate at which this many threads together read from RAM.
struct ReadRate {
  int n_threads = 0;
  double bytes_per_s = 0;  // the median of several passes
  /// The rates of the slowest and the fastest pass; 0 if unknown.
  double slowest_bytes_per_s = 0, fastest_bytes_per_s = 0;
  friend bool operator==(const ReadRate&, const ReadRate&) = default;
};

struct HostProfile {
  std::string cpu;  // the processor's name
  int n_cores = 0;  // physical cores that a process may use
  int n_numa_nodes = 1;
  int64_t ram_bytes = 0;
  std::vector<ReadRate> ram_read;  // ascending in threads, at least one
  /// For each NUMA node, the rate at which the node's cores read the node's own memory. Empty if there is one
  /// node.
  std::vector<double> numa_read_bytes_per_s;
  /// eta, in (0, 1]: the rate at which all threads read the rows of scattered neurons, as a share of the
  /// sequential rate.
  double sparse_row_share = 0;
  /// Multiply-adds per second that all threads together compute with Hearth's kernels in a long step (a
  /// prompt). A multiply-add multiplies a weight by an activation and adds the product to a sum. A product of
  /// a matrix [n, k] with m tokens counts as n k m.
  double multiply_adds_per_s = 0;
  friend bool operator==(const HostProfile&, const HostProfile&) = default;
};

struct GpuProfile {
  std::string name;
  int compute_major = 0, compute_minor = 0;  // compute capability
  int64_t vram_bytes = 0;
  double vram_bytes_per_s = 0;
  // Rates of PCIe from and to host memory. The host memory is either pinned or pageable; the driver first has
  // to copy pageable memory.
  double to_device_pinned_bytes_per_s = 0;
  double to_device_pageable_bytes_per_s = 0;
  double from_device_pinned_bytes_per_s = 0;
  double from_device_pageable_bytes_per_s = 0;
  // Seconds from the start of one small kernel to the start of the next, in a graph recorded like the
  // engine's steps.
  double launch_s = 0;
  // Seconds of a hand-over from GPU to CPU and back, as in a layer whose neurons the GPU and the CPU share.
  double round_trip_s = 0;
  /// Multiply-adds per second, counted as in HostProfile. Hearth's kernels use two-byte activations, so each
  /// multiply-add takes two int8 multiply-adds of the tensor cores.
  double multiply_adds_per_s = 0;
  /// Instructions per second that all threads together can execute if neither memory nor tensor cores are the
  /// limit; 0 if unknown. The figure is not measured but computed: multiprocessors times lanes times clock.
  double instructions_per_s = 0;
  /// A factor on the shortest times of kernels, calls and hand-overs (kernel_costs.h). A plan reduces this
  /// factor to compute how much faster the model would be if these times were shorter. Profile files do not
  /// contain it.
  double starts = 1;
  friend bool operator==(const GpuProfile&, const GpuProfile&) = default;
};

struct MachineProfile {
  std::string name;
  HostProfile host;
  std::optional<GpuProfile> gpu;

  /// Returns the bytes per second that n_threads threads together read from RAM. Interpolates linearly
  /// between measurements. Below the first measurement, the rate is proportional to n_threads; beyond the
  /// last one, it is constant. REQUIRES: n_threads >= 1.
  double ram_read_bytes_per_s(int n_threads) const;
  /// The rate with the number of threads that read fastest.
  double ram_read_bytes_per_s() const;
  friend bool operator==(const MachineProfile&, const MachineProfile&) = default;
};

/// Returns the profile of a desktop with a GPU, for placing models on machines that were not measured. The
/// figures are round, because placements depend only on their ratios.
MachineProfile typical_machine();

}  // namespace hearth
