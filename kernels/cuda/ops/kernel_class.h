// Which kernels a product takes, by its weights' type: what their speed depends on (kernels/cuda/ops/kernel_work.h).
//
// Contains no CUDA headers, so that plans can count the same kernels. Thread-safe.
#pragma once

#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cuda/ops/kernel_work.h"
#include "kernels/dtype.h"

namespace hearth::cuda {

/// Of one token or a few, with all rows or listed ones.
inline KernelClass product_class(DType type, bool listed = false) {
  // Of the kernels in matmul_few.cu, those of these types use 153 registers of a thread and more (ptxas for sm_90; the others 92
  // to 128) and load two bytes at a time, as those of matmul_floats.cu do.
  const bool slow = !uses_quantized_activations(type) || type == DType::kQ3_K || type == DType::kQ5_K ||
                    type == DType::kQ6_K;
  if (listed) return slow ? KernelClass::kSlowListedProduct : KernelClass::kListedProduct;
  return slow ? KernelClass::kSlowProduct : KernelClass::kProduct;
}

/// Of many tokens. REQUIRES: uses_quantized_activations(type).
inline KernelClass tile_class(DType type) {
  // Of the kernels in matmul_prompts.cu, those of these types use 201 registers (ptxas for sm_90; the others 128), so that a
  // multiprocessor has one thread block of them and not two.
  const bool slow = type == DType::kQ2_K || type == DType::kQ3_K || type == DType::kQ6_K;
  return slow ? KernelClass::kSlowTiles : KernelClass::kTiles;
}

/// Instructions for a weight and a token of many, of matrices of floats (matmul_floats.cu).
inline constexpr double kFloatInstructions = 1.5;

/// Instructions that a weight of a down projection's rows takes to be decoded `passes` times and added to the sums of n_tokens
/// tokens, in add_down.cu. quantized: else floats, or codes.
constexpr double down_instructions(bool quantized, double n_tokens, double passes) {
  return quantized ? 1.5 * passes + 2.5 * n_tokens : 4 * passes + 7 * n_tokens;
}

}  // namespace hearth::cuda
