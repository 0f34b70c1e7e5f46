// The class of the kernel that computes a product, by weight type. Its speed depends on the class
// (kernels/cuda/ops/kernel_work.h).
//
// Contains no CUDA headers, so that plans can count the same kernels. Thread-safe.
#pragma once

#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cuda/ops/kernel_work.h"
#include "kernels/dtype.h"

namespace hearth::cuda {

/// The class for one token or a few. listed: only listed rows are computed.
inline KernelClass product_class(DType type, bool listed = false) {
  // Kernels of matmul_few.cu for the slow types use at least 153 registers per thread (the others 92 to 128;
  // ptxas for sm_90) and load two bytes at a time, as the kernels of matmul_floats.cu do.
  const bool slow = !uses_quantized_activations(type) || type == DType::kQ3_K || type == DType::kQ5_K ||
                    type == DType::kQ6_K;
  if (listed) return slow ? KernelClass::kSlowListedProduct : KernelClass::kListedProduct;
  return slow ? KernelClass::kSlowProduct : KernelClass::kProduct;
}

/// The class for many tokens. REQUIRES: uses_quantized_activations(type).
inline KernelClass tile_class(DType type) {
  // Kernels of matmul_prompts.cu for these types use 201 registers (the others 128; ptxas for sm_90), so a
  // multiprocessor runs one of their thread blocks at a time instead of two.
  const bool slow = type == DType::kQ2_K || type == DType::kQ3_K || type == DType::kQ6_K;
  return slow ? KernelClass::kSlowTiles : KernelClass::kTiles;
}

/// Instructions per weight and token in products of many tokens with float matrices (matmul_floats.cu).
inline constexpr double kFloatInstructions = 1.5;

/// Instructions of attention: per query head and key, one fused multiply-add for each number of the key and
/// of the value, about as many again to load and convert them, and about 20 for softmax.
constexpr double attention_instructions(double keys, double heads, double head_dim) {
  return keys * heads * (4 * head_dim + 20);
}

/// Tokens for which add_down.cu decodes a row's bytes once; four took too many registers.
inline constexpr int kDownPassTokens = 2;

/// Instructions per down-projection weight in add_down.cu, if it is decoded `passes` times and added to the
/// sums of n_tokens tokens. quantized: false for floats and for codes.
constexpr double down_instructions(bool quantized, double n_tokens, double passes) {
  return quantized ? 1.5 * passes + 2.5 * n_tokens : 4 * passes + 7 * n_tokens;
}

}  // namespace hearth::cuda
