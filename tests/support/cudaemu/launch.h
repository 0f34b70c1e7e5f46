// Launches a kernel on the emulator: gpu_launch() has the same signature as for a device
// (kernels/cuda/runtime/gpu.h).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kernels/cuda/ops/kernel_work.h"
#include "kernels/cuda/runtime/known_kernels.h"
#include "kernels/cuda/runtime/work_meter.h"

namespace hearth::cudaemu {

struct Launch {
  dim3 grid, block;
  size_t shared_bytes;
  const void* kernel;
};

/// Returns whether p is null or points to memory that the device can access.
bool device_can_reach(const void* p);

/// Checks the launch as the driver would, and puts it into the stream. Each CUDA thread runs `thread`; `work`
/// returns the work that the kernel declares.
cudaError_t enqueue_kernel(const Launch& launch, std::function<void()> thread,
                           std::function<cuda::KernelWork()> work, cudaStream_t stream);

template <class P>
bool is_valid_argument(const P& argument) {
  if constexpr (std::is_pointer_v<P>)
    return device_can_reach(static_cast<const void*>(argument));
  else
    return true;
}

/// The error for a launch with a host pointer; on a device the kernel would fault instead.
cudaError_t refuse_host_pointer();

}  // namespace hearth::cudaemu

namespace hearth::cuda {

/// Launches kernel(args...); arguments are converted to the kernel's parameter types. A pointer argument must
/// be null or point to memory that the device can access. work: a function that returns the kernel's
/// KernelWork.
template <class Work, class... P, class... A>
cudaError_t gpu_launch(Work work, const GpuKernel<void(P...)>& kernel, dim3 grid, dim3 block,
                       size_t shared_bytes, cudaStream_t stream, A&&... args) {
  if (WorkMeter* const meter = WorkMeter::current()) meter->add(work);
  const std::tuple<P...> values{static_cast<P>(std::forward<A>(args))...};
  if (!std::apply([](const auto&... p) { return (cudaemu::is_valid_argument(p) && ...); }, values))
    return cudaemu::refuse_host_pointer();
  return cudaemu::enqueue_kernel(
      {grid, block, shared_bytes, kernel.address()},
      [function = kernel.function(), values] { std::apply(function, values); }, work, stream);
}

}  // namespace hearth::cuda
