// Determines from the weight type which class of kernels computes a product. The speed of a kernel depends on
// its class (kernels/cuda/ops/kernel_work.h).
//
// Contains no CUDA headers, so that the planner can count kernels by the same classes. Thread-safe.
#pragma once

#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cuda/ops/kernel_work.h"
#include "kernels/dtype.h"
#include "kernels/quant/decode.h"

namespace hearth::cuda {

/// The class for products with one token or a few tokens. listed: whether only listed rows are computed.
inline KernelClass product_class(DType type, bool listed = false) {
  // For the slow quantized types, the kernels of matmul_few.cu use at least 153 registers per thread; for all
  // other types, 92 to 128 (ptxas for sm_90). The kernels for slow types and those of matmul_floats.cu load
  // only two bytes at a time. So do the kernels for IQ1 to IQ3 and TQ, which only experts have; they also
  // take up to 2.8 times as many instructions as those for Q4_0.
  bool slow = !uses_quantized_activations(type) || type == DType::kQ3_K || type == DType::kQ5_K ||
              type == DType::kQ6_K;
  visit_block_type(type, [&]<class Block>() { slow |= kDecodedFirst<Block> && type != DType::kNVFP4; });
  if (listed) return slow ? KernelClass::kSlowListedProduct : KernelClass::kListedProduct;
  return slow ? KernelClass::kSlowProduct : KernelClass::kProduct;
}

/// The class for many tokens. REQUIRES: uses_quantized_activations(type).
inline KernelClass tile_class(DType type) {
  // For the slow types, a multiprocessor runs one thread block of matmul_prompts.cu or expert_tiles.cu at a
  // time; for all others it runs two. The kernels use about 200 registers per thread for types with groups of
  // 16 weights, more than 128 for types that are decoded first, and 128 for all others (ptxas for sm_90).
  bool slow = false;
  visit_block_type(type, [&]<class Block>() { slow = Block::kGroup == 16 || kDecodedFirst<Block>; });
  return slow ? KernelClass::kSlowTiles : KernelClass::kTiles;
}

/// Instructions per weight and token in products of float matrices with many tokens (matmul_floats.cu).
inline constexpr double kFloatInstructions = 1.5;

/// The instructions of attention. Each pair of a query head and a key takes one fused multiply-add per
/// element of the key and of the value (2 * head_dim), about as many instructions to load and convert the
/// elements, and about 20 for the softmax.
constexpr double attention_instructions(double keys, double heads, double head_dim) {
  return keys * heads * (4 * head_dim + 20);
}

/// When add_down.cu decodes the bytes of a row, it multiplies them for this many tokens. With four tokens,
/// the kernel took too many registers.
inline constexpr int kDownPassTokens = 2;

/// Instructions per down-projection weight in add_down.cu if the weight is decoded `passes` times and added
/// to the sums of n_tokens tokens. quantized: false for float weights and for coded columns.
constexpr double down_instructions(bool quantized, double n_tokens, double passes) {
  return quantized ? 1.5 * passes + 2.5 * n_tokens : 4 * passes + 7 * n_tokens;
}

}  // namespace hearth::cuda
