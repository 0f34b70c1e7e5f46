// What every CUDA kernel file includes, and nothing else of CUDA: the language for nvcc, or the emulator for
// tests.
//
// The same .cu files are compiled twice: by nvcc, and by the host's compiler with HEARTH_CUDA_EMULATED, where
// each CUDA thread is a fiber on the CPU (tests/support/cudaemu). All that differs between the two is here.
// So kernels use no inline assembly, no <<<>>>, no libraries of device code; each PTX instruction gets a
// function with two bodies.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#ifdef HEARTH_CUDA_EMULATED
#include <cudaemu.h>
#else

/// Dynamic shared memory of the launch, as T* name.
#define GPU_DYN_SHARED(T, name)                                       \
  extern __shared__ __align__(128) unsigned char hearth_dyn_shared[]; \
  T* name = reinterpret_cast<T*>(hearth_dyn_shared)
#define GPU_UNROLL _Pragma("unroll")

namespace hearth::cuda {

/// Launches kernel(args...); arguments are converted to the kernel's parameter types.
template <class... P, class... A>
inline cudaError_t gpu_launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
                              cudaStream_t stream, A&&... args) {
  return [&](P... p) {
    void* argv[sizeof...(P) + 1] = {const_cast<void*>(static_cast<const void*>(&p))...};
    return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, argv, shared_bytes, stream);
  }(std::forward<A>(args)...);
}

/// Copies 16 bytes from global to shared memory, both aligned to 16, while the thread goes on. Done only once
/// its group was waited for, and seen by other threads after a barrier then. Compute capability 7.5 copies at
/// once.
__device__ inline void gpu_cp_async16(void* shared, const void* global) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(shared))),
               "l"(global)
               : "memory");
#else
  *static_cast<int4*>(shared) = *static_cast<const int4*>(global);
#endif
}
/// Ends a group: the thread's copies since the last one.
__device__ inline void gpu_cp_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Waits for the thread's groups but the last N.
template <int N>
__device__ inline void gpu_cp_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

}  // namespace hearth::cuda
#endif
