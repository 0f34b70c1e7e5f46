// Blocks of every quantised type decoded to integers, scales and mins. See decode.h; layouts in formats.h.
#include "kernels/quant/decode.h"

#include <cstring>

#include "kernels/quant/half.h"

namespace hearth {
namespace {

template <class Block>
Block load(const std::byte* bytes) {
  Block block;
  std::memcpy(&block, bytes, sizeof block);
  return block;
}

// One scale (and min) for the whole block.
template <class Block>
void set_factors(Decoded<Block>& out, float scale, float min) {
  out.scale[0] = scale;
  out.min[0] = min;
}

// 16 bytes of nibbles: low ones are values 0..15, high ones 16..31.
uint8_t nibble(const uint8_t* qs, int i) { return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4; }

uint8_t five_bits(const uint8_t* qs, const uint8_t* qh, int i) {
  return static_cast<uint8_t>(nibble(qs, i) | (((qh[i / 8] >> (i % 8)) & 1) << 4));
}

// The 6-bit scale and min k of Q4_K and Q5_K: the first four whole in bytes k and k+4; of the last four, the
// low nibbles in bytes 8..11 and the top 2 bits above those of the first four.
struct ScaleMin {
  uint8_t scale, min;
};
ScaleMin k_scale_min(const uint8_t* s, int k) {
  if (k < 4) return {static_cast<uint8_t>(s[k] & 63), static_cast<uint8_t>(s[k + 4] & 63)};
  return {static_cast<uint8_t>((s[k + 4] & 15) | ((s[k - 4] >> 6) << 4)),
          static_cast<uint8_t>((s[k + 4] >> 4) | ((s[k] >> 6) << 4))};
}

}  // namespace

template <>
void decode_block(const std::byte* bytes, Decoded<BlockQ4_0>& out) {
  const auto block = load<BlockQ4_0>(bytes);
  for (int i = 0; i < 32; ++i) out.q[i] = static_cast<int8_t>(nibble(block.qs, i) - 8);
  set_factors(out, float_from_half(block.d), 0.0f);
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockQ4_1>& out) {
  const auto block = load<BlockQ4_1>(bytes);
  for (int i = 0; i < 32; ++i) out.q[i] = static_cast<int8_t>(nibble(block.qs, i));
  set_factors(out, float_from_half(block.d), float_from_half(block.m));
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockQ5_0>& out) {
  const auto block = load<BlockQ5_0>(bytes);
  for (int i = 0; i < 32; ++i) out.q[i] = static_cast<int8_t>(five_bits(block.qs, block.qh, i) - 16);
  set_factors(out, float_from_half(block.d), 0.0f);
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockQ5_1>& out) {
  const auto block = load<BlockQ5_1>(bytes);
  for (int i = 0; i < 32; ++i) out.q[i] = static_cast<int8_t>(five_bits(block.qs, block.qh, i));
  set_factors(out, float_from_half(block.d), float_from_half(block.m));
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockQ8_0>& out) {
  const auto block = load<BlockQ8_0>(bytes);
  std::memcpy(out.q, block.qs, sizeof block.qs);
  set_factors(out, float_from_half(block.d), 0.0f);
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockQ2_K>& out) {
  const auto block = load<BlockQ2_K>(bytes);
  const float d = float_from_half(block.d);
  const float dmin = float_from_half(block.dmin);
  for (int i = 0; i < 256; ++i) {
    out.q[i] = static_cast<int8_t>((block.qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3);
  }
  for (int k = 0; k < 16; ++k) {
    out.scale[k] = d * static_cast<float>(block.scales[k] & 15);
    out.min[k] = -(dmin * static_cast<float>(block.scales[k] >> 4));
  }
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockQ3_K>& out) {
  const auto block = load<BlockQ3_K>(bytes);
  const float d = float_from_half(block.d);
  for (int i = 0; i < 256; ++i) {
    const int low = (block.qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
    const int high = (block.hmask[i % 32] >> (i / 32)) & 1;
    out.q[i] = static_cast<int8_t>((low | (high << 2)) - 4);
  }
  for (int k = 0; k < 16; ++k) {
    const int low = (block.scales[k % 8] >> (k / 8 * 4)) & 15;
    const int high = (block.scales[8 + k % 4] >> (k / 4 * 2)) & 3;
    out.scale[k] = d * static_cast<float>((low | (high << 4)) - 32);
    out.min[k] = 0.0f;
  }
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockQ4_K>& out) {
  const auto block = load<BlockQ4_K>(bytes);
  const float d = float_from_half(block.d);
  const float dmin = float_from_half(block.dmin);
  for (int i = 0; i < 256; ++i) {
    out.q[i] = static_cast<int8_t>((block.qs[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4)) & 15);
  }
  for (int k = 0; k < 8; ++k) {
    const ScaleMin six = k_scale_min(block.scales, k);
    out.scale[k] = d * static_cast<float>(six.scale);
    out.min[k] = -(dmin * static_cast<float>(six.min));
  }
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockQ5_K>& out) {
  const auto block = load<BlockQ5_K>(bytes);
  const float d = float_from_half(block.d);
  const float dmin = float_from_half(block.dmin);
  for (int i = 0; i < 256; ++i) {
    const int low = (block.qs[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4)) & 15;
    const int high = (block.qh[i % 32] >> (i / 32)) & 1;
    out.q[i] = static_cast<int8_t>(low | (high << 4));
  }
  for (int k = 0; k < 8; ++k) {
    const ScaleMin six = k_scale_min(block.scales, k);
    out.scale[k] = d * static_cast<float>(six.scale);
    out.min[k] = -(dmin * static_cast<float>(six.min));
  }
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockQ6_K>& out) {
  const auto block = load<BlockQ6_K>(bytes);
  const float d = float_from_half(block.d);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, j = i % 128 / 32, column = i % 32;
    const int low = (block.ql[half * 64 + j % 2 * 32 + column] >> (j / 2 * 4)) & 15;
    const int high = (block.qh[half * 32 + column] >> (j * 2)) & 3;
    out.q[i] = static_cast<int8_t>((low | (high << 4)) - 32);
  }
  for (int k = 0; k < 16; ++k) {
    out.scale[k] = d * static_cast<float>(block.scales[k]);
    out.min[k] = 0.0f;
  }
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockIQ4_NL>& out) {
  const auto block = load<BlockIQ4_NL>(bytes);
  for (int i = 0; i < 32; ++i) out.q[i] = kIq4Values[nibble(block.qs, i)];
  set_factors(out, float_from_half(block.d), 0.0f);
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockIQ4_XS>& out) {
  const auto block = load<BlockIQ4_XS>(bytes);
  const float d = float_from_half(block.d);
  for (int i = 0; i < 256; ++i) out.q[i] = kIq4Values[nibble(block.qs + i / 32 * 16, i % 32)];
  for (int k = 0; k < 8; ++k) {
    const int low = (block.scales_l[k / 2] >> (k % 2 * 4)) & 15;
    const int high = (block.scales_h >> (k * 2)) & 3;
    out.scale[k] = d * static_cast<float>((low | (high << 4)) - 32);
    out.min[k] = 0.0f;
  }
}

}  // namespace hearth
