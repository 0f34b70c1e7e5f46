// A machine's figures, with which placements are solved.
//
// The profiler measures them, reads them from a TOML file or ships them for machines that are not at hand. A
// plain value; any thread. SI units: bytes, seconds; a rate is per second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hearth {

/// The rate at which this number of threads together read from RAM.
struct ReadRate {
  int n_threads = 0;
  double bytes_per_s = 0;
  friend bool operator==(const ReadRate&, const ReadRate&) = default;
};

struct HostProfile {
  std::string cpu;  // the processor's name
  int n_cores = 0;  // physical ones that a process may use
  int n_numa_nodes = 1;
  int64_t ram_bytes = 0;
  std::vector<ReadRate> ram_read;  // ascending in threads, at least one
  /// For each NUMA node, the rate at which its cores read its own memory. Empty if there is one node.
  std::vector<double> numa_read_bytes_per_s;
  /// eta, in (0, 1]: the rate of reading scattered neurons' rows with all threads, as a share of the
  /// sequential rate.
  double sparse_row_share = 0;
  /// Multiplications of a weight by an activation, each with its addition, that all threads compute per
  /// second with Hearth's kernels in a long step (a prompt). A matrix [n, k] times m tokens counts as n k m.
  double multiply_adds_per_s = 0;
  friend bool operator==(const HostProfile&, const HostProfile&) = default;
};

struct GpuProfile {
  std::string name;
  int compute_major = 0, compute_minor = 0;  // compute capability
  int64_t vram_bytes = 0;
  double vram_bytes_per_s = 0;
  // PCIe from and to host memory that is pinned, or pageable, which the driver has to copy first.
  double to_device_pinned_bytes_per_s = 0;
  double to_device_pageable_bytes_per_s = 0;
  double from_device_pinned_bytes_per_s = 0;
  double from_device_pageable_bytes_per_s = 0;
  double launch_s = 0;  // from one small kernel's start to the next one's, recorded like the engine's steps
  double round_trip_s = 0;  // GPU to CPU and back, as in a layer whose neurons both compute
  /// As in HostProfile. Hearth's kernels use two-byte activations, so each multiply-add takes two of the
  /// tensor cores' int8 multiply-adds.
  double multiply_adds_per_s = 0;
  /// Instructions that all threads together can execute per second if neither memory nor tensor cores are the
  /// bound; 0: unknown. Not measured, but computed: multiprocessors times lanes times clock.
  double instructions_per_s = 0;
  /// A factor on the least time of kernels, calls and hand-overs (kernel_costs.h). A plan uses it to find how
  /// much shorter ones would help. Files do not have it.
  double starts = 1;
  friend bool operator==(const GpuProfile&, const GpuProfile&) = default;
};

struct MachineProfile {
  std::string name;
  HostProfile host;
  std::optional<GpuProfile> gpu;

  /// Bytes per second that n_threads threads read from RAM. Interpolates linearly between measurements; below
  /// the first the rate is proportional to n_threads, beyond the last it is constant. REQUIRES: n_threads >=
  /// 1.
  double ram_read_bytes_per_s(int n_threads) const;
  /// The rate with the best number of threads.
  double ram_read_bytes_per_s() const;
  friend bool operator==(const MachineProfile&, const MachineProfile&) = default;
};

/// A desktop with a GPU, for placing models on machines that were not measured. Placements depend on ratios
/// of these rates, so they are round.
MachineProfile typical_machine();

}  // namespace hearth
