// Writes the report of `bench --kernels`: each kernel's time, and a lower bound for that time. The bound is
// the work that the kernel declares, divided by the machine's rates.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/placement/machine_profile.h"
#include "kernels/cuda/bench/kernel_bench.h"

namespace hearth {

/// The least time that some work can take, and the resource that limits the work.
struct KernelBound {
  double seconds = 0;
  std::string_view by;  // "memory", "PCIe", "tensor cores", "instructions", or "nothing" if there is no work
};

/// Returns the bound of the work on this GPU. A rate of 0 in `gpu` is unknown, and the bound ignores it.
/// kernels/cuda/ops/kernel_work.h describes the terms of the bound.
KernelBound bound_of(const cuda::KernelWork& work, const GpuProfile& gpu);

/// Returns a table for each shape, for people. Times are compared with the rates in `gpu`. simulated: true if
/// the times were computed from what the kernels declare, false if they were measured.
std::string kernel_bench_text(const GpuProfile& gpu, bool simulated,
                              const std::vector<cuda::KernelTime>& times);

/// Returns one JSON object with the machine's rates and a list of the kernels' times, work and bounds.
std::string kernel_bench_json(const GpuProfile& gpu, bool simulated,
                              const std::vector<cuda::KernelTime>& times);

}  // namespace hearth
