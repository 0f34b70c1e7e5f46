// Decodes blocks of every quantized type to integers, scales and mins, in plain code.
//
// Only this code defines the meaning of a block's bits. Dequantization and the scalar matmul are built on it;
// the vector kernels are tested against both. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/quant/formats.h"

namespace hearth {

/// A decoded block: weight i is scale[i / kGroup] * q[i] + min[i / kGroup], all factors exact in float32.
/// min is 0 for types without one.
template <class Block>
struct Decoded {
  static constexpr int kGroups = Block::kElems / Block::kGroup;
  int8_t q[Block::kElems];
  float scale[kGroups];
  float min[kGroups];
};

/// Decodes the block at `bytes` (sizeof(Block) bytes, any alignment). Never fails: every bit pattern is
/// valid.
template <class Block>
void decode_block(const std::byte* bytes, Decoded<Block>& out);

/// Calls visit.template operator()<Block>() with the block struct of `type`. REQUIRES: `type` is quantized.
template <class Visitor>
void visit_block_type(DType type, Visitor&& visit) {
  switch (type) {
    case DType::kQ4_0:
      return visit.template operator()<BlockQ4_0>();
    case DType::kQ4_1:
      return visit.template operator()<BlockQ4_1>();
    case DType::kQ5_0:
      return visit.template operator()<BlockQ5_0>();
    case DType::kQ5_1:
      return visit.template operator()<BlockQ5_1>();
    case DType::kQ8_0:
      return visit.template operator()<BlockQ8_0>();
    case DType::kQ2_K:
      return visit.template operator()<BlockQ2_K>();
    case DType::kQ3_K:
      return visit.template operator()<BlockQ3_K>();
    case DType::kQ4_K:
      return visit.template operator()<BlockQ4_K>();
    case DType::kQ5_K:
      return visit.template operator()<BlockQ5_K>();
    case DType::kQ6_K:
      return visit.template operator()<BlockQ6_K>();
    case DType::kIQ4_NL:
      return visit.template operator()<BlockIQ4_NL>();
    case DType::kIQ4_XS:
      return visit.template operator()<BlockIQ4_XS>();
    case DType::kMXFP4:
      return visit.template operator()<BlockMXFP4>();
    case DType::kNVFP4:
      return visit.template operator()<BlockNVFP4>();
    case DType::kIQ2_XXS:
      return visit.template operator()<BlockIQ2_XXS>();
    case DType::kIQ2_XS:
      return visit.template operator()<BlockIQ2_XS>();
    case DType::kIQ2_S:
      return visit.template operator()<BlockIQ2_S>();
    case DType::kIQ3_XXS:
      return visit.template operator()<BlockIQ3_XXS>();
    case DType::kIQ3_S:
      return visit.template operator()<BlockIQ3_S>();
    case DType::kIQ1_S:
      return visit.template operator()<BlockIQ1_S>();
    case DType::kIQ1_M:
      return visit.template operator()<BlockIQ1_M>();
    case DType::kTQ1_0:
      return visit.template operator()<BlockTQ1_0>();
    case DType::kTQ2_0:
      return visit.template operator()<BlockTQ2_0>();
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return;
  }
}

}  // namespace hearth
