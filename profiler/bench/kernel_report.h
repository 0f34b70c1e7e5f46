// What `bench --kernels` prints: each kernel's time beside the least that the machine allows for what the kernel declares.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/bench/kernel_bench.h"
#include "profiler/machine/machine_profile.h"

namespace hearth {

/// The least time for some work, and what takes it.
struct KernelBound {
  double seconds = 0;
  std::string_view by;  // "memory", "PCIe", "tensor cores" or "instructions"; "nothing" if the work is none
};

/// Rates that are 0 are not known, and bound nothing. See kernels/cuda/ops/kernel_work.h for the terms.
KernelBound bound_of(const cuda::KernelWork& work, const GpuProfile& gpu);

/// A table for each shape, for people. gpu: whose rates count; simulated: its times are computed from the same declarations.
std::string kernel_bench_text(const GpuProfile& gpu, bool simulated,
                              const std::vector<cuda::KernelTime>& times);

/// One JSON object with everything.
std::string kernel_bench_json(const GpuProfile& gpu, bool simulated,
                              const std::vector<cuda::KernelTime>& times);

}  // namespace hearth
