// Loads weights of the float types as float32.
#pragma once

#include "kernels/cuda/matmul/load_words.cuh"
#include "kernels/dtype.h"

namespace hearth::cuda {

struct LoadF32 {
  static __device__ __forceinline__ float at(const uint8_t* row, int64_t i) {
    return __ldg(gpu_aligned<float>(row) + i);
  }
};

/// Loads F32 rows that are only aligned to two bytes, because they are stored between rows of other types.
struct LoadF32Halves {
  static __device__ __forceinline__ float at(const uint8_t* row, int64_t i) {
    return __uint_as_float(load_half_word(row + 4 * i) | (load_half_word(row + 4 * i + 2) << 16));
  }
};

struct LoadF16 {
  static __device__ __forceinline__ float at(const uint8_t* row, int64_t i) {
    return half_to_float(load_half_word(row + 2 * i));
  }
};

struct LoadBF16 {
  static __device__ __forceinline__ float at(const uint8_t* row, int64_t i) {
    return __uint_as_float(load_half_word(row + 2 * i) << 16);
  }
};

/// Calls visit.template operator()<Load>(), where Load is the class that reads the rows of a float matrix.
/// Host code.
template <class Visitor>
void visit_float_type(DType type, bool aligned, Visitor&& visit) {
  if (type == DType::kF16) return visit.template operator()<LoadF16>();
  if (type == DType::kBF16) return visit.template operator()<LoadBF16>();
  if (aligned) return visit.template operator()<LoadF32>();
  visit.template operator()<LoadF32Halves>();
}

}  // namespace hearth::cuda
