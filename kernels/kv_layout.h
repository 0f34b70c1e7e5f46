// The layout of keys and values in a KV block for each type: IEEE halves, or 8-bit integers with shared
// scales.
//
// Backends use the layout to read and write, and the engine's plans use it to count bytes. All functions are
// constexpr, so CUDA kernels can call them.
//
// KvType::kF16, IEEE half floats:
//   keys    [n_blocks][n_kv_heads][head_dim][block_tokens]
//   values  [n_blocks][n_kv_heads][block_tokens][head_dim]
// The keys of a KV block are side by side, so that scoring them needs no sums across vector lanes.
//
// KvType::kQ8, 34 bytes for 32 numbers: 32 neighboring dimensions of a position share a scale, a half float.
// A number is float(int8) * float(scale), which is exact in float32. Each KV block has the integers first, in
// the order above, and then the scales:
//   keys    [n_blocks]{int8 [n_kv_heads][head_dim][block_tokens],
//                      half [n_kv_heads][head_dim / 32][block_tokens]}
//   values  [n_blocks]{int8 [n_kv_heads][block_tokens][head_dim],
//                      half [n_kv_heads][block_tokens][head_dim / 32]}
// The scale is half(largest magnitude / 127). The integers are number / scale, rounded to nearest, ties to
// even, and clamped to [-127, 127]. So the bytes of a position do not depend on other positions. If the scale
// is 0 (no magnitude above 127 * 2^-25), the integers are 0. If a number is infinite or NaN, or the scale
// would be infinite, the scale is kKvPoison. Then all 32 numbers are read as NaN, so that the error reaches
// the output as it does with KvType::kF16.
#pragma once

#include <cstdint>

namespace hearth {

/// The format in which the KV cache stores each number of a key or value.
enum class KvType : uint8_t { kF16, kQ8 };
inline constexpr int kKvTypes = 2;

/// "f16" or "q8_0", as in --kv-type.
constexpr const char* kv_type_name(KvType type) { return type == KvType::kQ8 ? "q8_0" : "f16"; }

/// The number of dimensions that share a scale. REQUIRES with KvType::kQ8: head_dim is a multiple of
/// kKvGroup.
inline constexpr int kKvGroup = 32;
/// A NaN as an IEEE half.
inline constexpr uint16_t kKvPoison = 0x7e00;

/// Bytes of n numbers. REQUIRES with KvType::kQ8: n is a multiple of kKvGroup.
constexpr int64_t kv_bytes(KvType type, int64_t n) {
  return type == KvType::kQ8 ? n / kKvGroup * (kKvGroup + 2) : 2 * n;
}

/// The C++ type of a stored number.
template <KvType kType>
struct KvStored {
  using Number = uint16_t;
};
template <>
struct KvStored<KvType::kQ8> {
  using Number = int8_t;
};

/// One layer's keys and values, each [n_blocks, KvShape::block_bytes()] in the order above, in the same
/// memory as the backend's other arrays.
struct KvLayer {
  void* k = nullptr;
  void* v = nullptr;
};

struct KvShape {
  int n_kv_heads = 0;
  int head_dim = 0;
  int block_tokens = 0;
  int n_blocks = 0;
  KvType type = KvType::kF16;

  /// Number of key elements in a KV block, which is also the number of value elements.
  constexpr int64_t block_numbers() const { return int64_t{n_kv_heads} * head_dim * block_tokens; }
  constexpr int64_t block_bytes() const { return kv_bytes(type, block_numbers()); }
};

/// One head's keys or values in all KV blocks. The numbers of KV block b begin at numbers + b * block_stride,
/// and its scales at scales + b * block_stride / 2.
template <KvType kType>
struct KvHead {
  using Number = typename KvStored<kType>::Number;
  const Number* numbers = nullptr;   // of KV block 0
  const uint16_t* scales = nullptr;  // of KV block 0; null with KvType::kF16
  int64_t block_stride = 0;
};
template <KvType kType>
constexpr KvHead<kType> kv_head(const void* keys_or_values, const KvShape& shape, int head) {
  using Number = typename KvStored<kType>::Number;
  const int64_t of_head = int64_t{shape.block_tokens} * shape.head_dim;
  const auto* numbers = static_cast<const Number*>(keys_or_values);
  if constexpr (kType == KvType::kQ8) {
    const auto* scales =
        static_cast<const uint16_t*>(static_cast<const void*>(numbers + shape.block_numbers()));
    return {numbers + head * of_head, scales + head * of_head / kKvGroup, shape.block_bytes()};
  } else {
    return {numbers + head * of_head, nullptr, shape.block_numbers()};
  }
}

}  // namespace hearth
