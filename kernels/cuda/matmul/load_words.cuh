// Loads words of weights from addresses that may only be multiples of two, as in blocks of 18 or 210 bytes.
//
// Loads are as wide as the known alignment allows. If it is two bytes, the code loads aligned words and
// combines two of them with one byte permutation per result. This takes half as many loads as loading 16-bit
// halves, and loads are the main cost for small blocks. Only aligned words that contain requested bytes are
// read, and no byte past the last requested byte, so a row may end where its allocation ends.
//
// All loads are __ldg, which may read from a cache that does not see stores made while the kernel runs (PTX:
// ld.global.nc). At the same time, another stream may write device rows of cached neurons
// (gather_bundles.cu), and such rows share 32-byte sectors and words with their neighbors. The stale cache
// does no harm, because no kernel uses bytes that were stored after the kernel began. A kernel reads a row
// only if the kernel's list contains the row, and the host launches such a kernel only after it has seen the
// event that marks the end of the row's copy. A row is overwritten only after all kernels that may read the
// row are done (RowCopier::gate). Two kinds of kernels would break this rule and would have to load such rows
// coherently: kernels that begin before the previous kernel in their stream ends (programmatic dependent
// launch), and kernels that keep running and read new rows as the rows arrive (persistent kernels).
// row_copier_test.cpp writes rows next to rows that are read.
#pragma once

#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

/// Loads the two bytes at p, which must be a multiple of 2.
__device__ __forceinline__ unsigned load_half_word(const uint8_t* p) {
  return __ldg(gpu_aligned<uint16_t>(p));
}

__device__ __forceinline__ float half_to_float(unsigned bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

/// Loads n words from p, which must be a multiple of kAlign. kAlign is 2, 4, 8 or 16.
template <int kAlign, int n>
__device__ __forceinline__ void load_words(const uint8_t* p, unsigned* out) {
  if constexpr (kAlign >= 16 && n % 4 == 0) {
    GPU_UNROLL
    for (int i = 0; i < n; i += 4) {
      const uint4 v = __ldg(gpu_aligned<uint4>(p) + i / 4);
      out[i] = v.x, out[i + 1] = v.y, out[i + 2] = v.z, out[i + 3] = v.w;
    }
  } else if constexpr (kAlign >= 8 && n % 2 == 0) {
    GPU_UNROLL
    for (int i = 0; i < n; i += 2) {
      const uint2 v = __ldg(gpu_aligned<uint2>(p) + i / 2);
      out[i] = v.x, out[i + 1] = v.y;
    }
  } else if constexpr (kAlign >= 4) {
    GPU_UNROLL
    for (int i = 0; i < n; ++i) out[i] = __ldg(gpu_aligned<unsigned>(p) + i);
  } else {
    const bool odd = (reinterpret_cast<uintptr_t>(p) & 2) != 0;
    const auto* words = gpu_aligned<unsigned>(odd ? p - 2 : p);
    unsigned raw[n + 1];
    GPU_UNROLL
    for (int i = 0; i < n; ++i) raw[i] = __ldg(words + i);
    raw[n] = odd ? load_half_word(reinterpret_cast<const uint8_t*>(words + n)) : 0;
    GPU_UNROLL
    for (int i = 0; i < n; ++i) out[i] = __byte_perm(raw[i], raw[i + 1], odd ? 0x5432 : 0x3210);
  }
}

/// Loads the two bytes at p into `half`, and the n words that follow them into `out`. p must be a multiple of
/// 2. The code loads n aligned words and two separate bytes: the first two bytes of the range if p is not a
/// multiple of 4, else the last two.
template <int n>
__device__ __forceinline__ void load_half_and_words(const uint8_t* p, unsigned& half, unsigned* out) {
  const bool odd = (reinterpret_cast<uintptr_t>(p) & 2) != 0;
  const auto* words = gpu_aligned<unsigned>(odd ? p + 2 : p);
  unsigned raw[n + 1];
  GPU_UNROLL
  for (int i = 0; i < n; ++i) raw[i] = __ldg(words + i);
  raw[n] = load_half_word(odd ? p : p + 4 * n);
  half = odd ? raw[n] : raw[0] & 0xffffu;
  GPU_UNROLL
  for (int i = 0; i < n; ++i) out[i] = __byte_perm(raw[i], raw[i + 1], odd ? 0x3210 : 0x5432);
}

}  // namespace hearth::cuda
