// Loads words of weights from addresses that are only multiples of two, as in blocks of 18 or 210 bytes.
//
// Loads are as wide as the known alignment allows. At two bytes, aligned words are loaded, and each result is
// put together by one byte permutation. That is half as many loads as of halves, and loads are the main cost
// for small blocks. No byte outside the aligned words that contain the requested bytes is read, and none past
// the last requested byte, so a row may end where its allocation ends.
//
// All loads are __ldg, which may come from a cache that stores do not reach while a kernel runs (PTX:
// ld.global.nc). Meanwhile, another stream writes device rows of cached neurons (gather_bundles.cu), and such
// rows share 32-byte sectors and words with their neighbors. That is correct because no kernel uses bytes
// that were written after it began: a row becomes readable when the event behind its copy is reached, the
// host has seen that, and the host launches a new kernel that has the row in its list; and a row is written
// only when the kernels that may read it are done (RowCopier::gate). A kernel that begins before the
// kernels ahead of it end (programmatic dependent launch), or that keeps running and takes new rows as they
// arrive (a persistent kernel), would break this and must load such rows coherently. row_copier_test.cpp
// writes rows next to rows that are read.
#pragma once

#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

/// The two bytes at p, which is a multiple of 2.
__device__ __forceinline__ unsigned load_half_word(const uint8_t* p) {
  return __ldg(gpu_aligned<uint16_t>(p));
}

__device__ __forceinline__ float half_to_float(unsigned bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

/// n words from p, which is a multiple of kAlign: 2, 4, 8 or 16.
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

/// Loads a half and the n words behind it from p, a multiple of 2. Loads n aligned words, and one half from
/// whichever end leaves the words aligned.
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
