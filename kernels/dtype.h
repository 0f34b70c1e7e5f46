// Element types of tensors in memory: plain floats and the block-quantized formats of GGUF files.
//
// A quantized row is a sequence of blocks; every block holds `block_elems` weights in `block_bytes` bytes.
// The layouts themselves are in kernels/quant/formats.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace hearth {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  kNVFP4,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ2_S,
  kIQ3_XXS,
  kIQ3_S,
  kIQ1_S,
  kIQ1_M,
  kTQ1_0,
  kTQ2_0,
};
inline constexpr int kDTypeCount = 26;

struct DTypeInfo {
  std::string_view name;  // "Q4_1", as GGUF tools print it
  uint32_t gguf_id;       // the type number stored in GGUF files
  int block_elems;        // weights per block; 1 for plain floats
  int block_bytes;        // bytes per block
};

/// Constant facts about a type. Never fails. Thread-safe.
const DTypeInfo& dtype_info(DType type);

/// The type with this GGUF number, or nullopt if Hearth does not support it.
std::optional<DType> dtype_from_gguf(uint32_t gguf_id);

/// Bytes of a row of `n` elements. REQUIRES: n >= 0, a multiple of block_elems.
inline size_t row_bytes(DType type, int64_t n) {
  const DTypeInfo& info = dtype_info(type);
  return static_cast<size_t>(n / info.block_elems) * static_cast<size_t>(info.block_bytes);
}

}  // namespace hearth
