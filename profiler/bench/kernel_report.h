// The report of `bench --kernels`: each kernel's time, and the least time that the machine allows for the
// work that the kernel declares.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/placement/machine_profile.h"
#include "kernels/cuda/bench/kernel_bench.h"

namespace hearth {

/// The least time for some work, and the resource that takes it.
struct KernelBound {
  double seconds = 0;
  std::string_view by;  // "memory", "PCIe", "tensor cores" or "instructions"; "nothing" if the work is none
};

/// A rate of 0 is unknown and bounds nothing. kernels/cuda/ops/kernel_work.h explains the terms.
KernelBound bound_of(const cuda::KernelWork& work, const GpuProfile& gpu);

/// A table for each shape, for people. gpu: the profile with the rates. simulated: whether the times were
/// computed from the kernels' declarations instead of measured.
std::string kernel_bench_text(const GpuProfile& gpu, bool simulated,
                              const std::vector<cuda::KernelTime>& times);

/// One JSON object with everything.
std::string kernel_bench_json(const GpuProfile& gpu, bool simulated,
                              const std::vector<cuda::KernelTime>& times);

}  // namespace hearth
