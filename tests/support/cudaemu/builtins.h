// CUDA's language for the host's compiler: the index variables, barriers and fences.
//
// Names and signatures are NVIDIA's, so they are global and not in this project's style.
#pragma once

#include <cuda_runtime.h>

#include <atomic>

#include "tests/support/cudaemu/device_thread.h"

// One OS thread runs one block at a time, and its fibers never leave it.
#undef __shared__
#define __shared__ static thread_local
#undef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#undef __launch_bounds__
#define __launch_bounds__(...)

// Variables, because macros would break members with these names in NVIDIA's headers.
extern constinit thread_local uint3 threadIdx, blockIdx;
extern constinit thread_local dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

#define HEARTH_CUDAEMU_HERE ::hearth::cudaemu::Location here = ::hearth::cudaemu::Location::current()

inline void __syncthreads(HEARTH_CUDAEMU_HERE) { hearth::cudaemu::block_barrier(here); }
inline int __syncthreads_count(int p, HEARTH_CUDAEMU_HERE) {
  return hearth::cudaemu::block_barrier_reduce(p != 0, hearth::cudaemu::BlockReduction::kCount, here);
}
inline int __syncthreads_and(int p, HEARTH_CUDAEMU_HERE) {
  return hearth::cudaemu::block_barrier_reduce(p != 0, hearth::cudaemu::BlockReduction::kAnd, here);
}
inline int __syncthreads_or(int p, HEARTH_CUDAEMU_HERE) {
  return hearth::cudaemu::block_barrier_reduce(p != 0, hearth::cudaemu::BlockReduction::kOr, here);
}
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence_block() { __threadfence(); }
inline void __threadfence_system() { __threadfence(); }
[[noreturn]] inline void __trap() { hearth::cudaemu::die("__trap()"); }
