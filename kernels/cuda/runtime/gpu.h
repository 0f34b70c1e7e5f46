// The only CUDA header that kernel files include. It provides CUDA's language extensions for nvcc, or the
// emulator for tests.
//
// Every .cu file is compiled twice: by nvcc, and with HEARTH_CUDA_EMULATED by the host's compiler, where each
// CUDA thread is a fiber on the CPU (tests/support/cudaemu). All differences between the two are in this
// file. So kernels use no inline assembly, no <<<>>> and no libraries of device code. Each PTX instruction
// that they need has a function here, and a second version of this function in the emulator.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cuda/ops/kernel_work.h"
#include "kernels/cuda/runtime/known_kernels.h"
#include "kernels/cuda/runtime/work_meter.h"

#ifdef HEARTH_CUDA_EMULATED
#include <cudaemu.h>
#else

/// Declares `T* name`, which points to the launch's dynamic shared memory.
#define GPU_DYN_SHARED(T, name)                                       \
  extern __shared__ __align__(128) unsigned char hearth_dyn_shared[]; \
  T* name = reinterpret_cast<T*>(hearth_dyn_shared)
#define GPU_UNROLL _Pragma("unroll")

namespace hearth::cuda {

/// Launches kernel(args...). Arguments are converted to the types of the kernel's parameters. work: a
/// function that returns the kernel's KernelWork; only benchmarks call this function
/// (kernels/cuda/runtime/work_meter.h).
template <class Work, class... P, class... A>
inline cudaError_t gpu_launch(const Work& work, const GpuKernel<void(P...)>& kernel, dim3 grid, dim3 block,
                              size_t shared_bytes, cudaStream_t stream, A&&... args) {
  if (WorkMeter* const meter = WorkMeter::current()) meter->add(work);
  return [&](P... p) {
    void* argv[sizeof...(P) + 1] = {const_cast<void*>(static_cast<const void*>(&p))...};
    return cudaLaunchKernel(kernel.address(), grid, block, argv, shared_bytes, stream);
  }(std::forward<A>(args)...);
}

/// gpu_aligned<T>(p) casts p to T*. REQUIRES: p is a multiple of alignof(T). Otherwise a GPU aborts the
/// kernel at the first access. In .cu and .cuh files, all pointer casts to types wider than a byte must use
/// gpu_aligned (tests/layering.py), so that tests on a CPU find wrong alignments. In the emulator,
/// gpu_aligned is a function that checks the alignment and keeps const. For nvcc it is a plain cast, because
/// even an inlined function changed how nvcc unrolled the loops of three files.
template <class T>
using gpu_aligned = T*;

/// Begins to copy 16 bytes from global to shared memory. Both addresses are multiples of 16. The copy is only
/// complete after a wait for its group. Other threads see the bytes after a barrier that follows the wait.
/// Compute capability 7.5 copies synchronously.
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
/// Like gpu_cp_async16(), but reads only the first n_bytes bytes, 1 to 16. The rest of the 16 bytes in shared
/// memory is undefined.
__device__ inline void gpu_cp_async_part(void* shared, const void* global, int n_bytes) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(shared))),
               "l"(global), "r"(n_bytes)
               : "memory");
#else
  for (int i = 0; i < n_bytes; ++i)
    static_cast<unsigned char*>(shared)[i] = static_cast<const unsigned char*>(global)[i];
#endif
}
/// Ends a group, which contains all copies that the thread began since the last group.
__device__ inline void gpu_cp_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Waits for all groups of the thread but the last N.
template <int N>
__device__ inline void gpu_cp_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

/// Loads four matrices of 8 rows and 16 bytes per row from shared memory. Lane 8m + r provides the address of
/// row r of matrix m, a multiple of 16. In each lane, to[m] gets word lane % 4 of row lane / 4 of matrix m.
__device__ inline void gpu_load_matrices(unsigned (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// Multiplies matrices of bytes in a warp, on the tensor cores: d [16, 8] = c + a [16, 16] * b [16, 8], exact
/// modulo 2^32. In lane l, with g = l / 4 and q = l % 4: a0 and a1 are bytes 4q to 4q + 3 of rows g and g + 8
/// of a; b is bytes 4q to 4q + 3 of column g of b; d[0] and d[1] get columns 2q and 2q + 1 of row g of d, and
/// d[2] and d[3] get the same columns of row g + 8.
__device__ inline void gpu_multiply_16(int (&d)[4], unsigned a0, unsigned a1, unsigned b, int c) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a0), "r"(a1), "r"(b), "r"(c));
#else
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%4,%4};"
      : "=r"(d[0]), "=r"(d[1])
      : "r"(a0), "r"(b), "r"(c));
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%4,%4};"
      : "=r"(d[2]), "=r"(d[3])
      : "r"(a1), "r"(b), "r"(c));
#endif
}
/// Like gpu_multiply_16(), but for a [16, 32] and b [32, 8]. a[0], a[1] and b0 are from the first 16 bytes of
/// rows of a and columns of b; a[2], a[3] and b1 are from the last 16 bytes.
__device__ inline void gpu_multiply_32(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, int c) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%10,%10,%10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c));
#else
  gpu_multiply_16(d, a[0], a[1], b0, c);
  GPU_UNROLL
  for (int half = 0; half < 2; ++half) {
    asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+r"(d[2 * half]), "+r"(d[2 * half + 1])
        : "r"(a[2 + half]), "r"(b1));
  }
#endif
}

/// Return the largest (smallest) value of the warp's lanes. All lanes must call them.
__device__ inline unsigned gpu_warp_max(unsigned value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(0xffffffffu, value);
#else
  for (int apart = 16; apart > 0; apart /= 2) value = max(value, __shfl_xor_sync(0xffffffffu, value, apart));
  return value;
#endif
}
__device__ inline unsigned gpu_warp_min(unsigned value) { return ~gpu_warp_max(~value); }

/// Adds 1 to *count, which is in device memory, and returns the old value. A thread that calls this later
/// sees everything that the present caller wrote before its call. It also sees everything that other threads
/// wrote before a barrier that they and the present caller passed before the call.
__device__ inline unsigned gpu_arrive(unsigned* count) {
  unsigned before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(count) : "memory");
  return before;
}
/// Stores a value for the host. A host thread that reads the value also sees everything that the caller
/// wrote, or saw written by others, before this call.
__device__ inline void gpu_store_release_system(unsigned* to, unsigned value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

}  // namespace hearth::cuda
#endif
