// Decodes blocks of every quantized type to integers, scales and mins. See decode.h; layouts are in
// formats.h.
#include "kernels/quant/decode.h"

#include <algorithm>
#include <bit>
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

// Sets the scale and the min of a block that has one group.
template <class Block>
void set_factors(Decoded<Block>& out, float scale, float min) {
  out.scale[0] = scale;
  out.min[0] = min;
}

// Unpacks n bytes of nibbles: low nibbles are values 0..n-1, high nibbles n..2n-1. Each run of equal shifts
// has a plain loop of its own, so that compilers vectorize it.
template <int n>
void split_nibbles(const uint8_t* qs, int8_t* q) {
  for (int i = 0; i < n; ++i) q[i] = static_cast<int8_t>(qs[i] & 15);
  for (int i = 0; i < n; ++i) q[n + i] = static_cast<int8_t>(qs[i] >> 4);
}

// Unpacks 32 numbers of five bits, and subtracts `offset` from each. qs holds the low four bits of each
// number, and qh the fifth bits.
void join_five_bits(const uint8_t* qs, const uint8_t* qh, int offset, int8_t* q) {
  split_nibbles<16>(qs, q);
  for (int i = 0; i < 32; ++i) {
    q[i] = static_cast<int8_t>((q[i] | (((qh[i / 8] >> (i % 8)) & 1) << 4)) - offset);
  }
}

// Reads the 6-bit scale and min of group k of a Q4_K or Q5_K block. For groups 0 to 3, scale and min are the
// low 6 bits of bytes k and k + 4. For groups 4 to 7, byte k + 4 has the low 4 bits of both, and the top 2
// bits of bytes k - 4 and k have the high bits of the scale and the min.
struct ScaleMin {
  uint8_t scale, min;
};
ScaleMin k_scale_min(const uint8_t* s, int k) {
  if (k < 4) return {static_cast<uint8_t>(s[k] & 63), static_cast<uint8_t>(s[k + 4] & 63)};
  return {static_cast<uint8_t>((s[k + 4] & 15) | ((s[k - 4] >> 6) << 4)),
          static_cast<uint8_t>((s[k + 4] >> 4) | ((s[k] >> 6) << 4))};
}

// Sets one scale for all groups, and no mins.
template <class Block>
void set_scales(Decoded<Block>& out, float scale) {
  for (float& s : out.scale) s = scale;
  for (float& min : out.min) min = 0.0f;
}

// Returns 2^(e - 128). Results below float32's normal range are subnormals.
float power_of_two(uint8_t e) {
  const uint32_t bits = e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23;
  return std::bit_cast<float>(bits);
}

// Returns half the value of an unsigned float with 4 exponent and 3 fraction bits. 0x7f is the format's NaN,
// which the gguf package reads as 0. For all other values, the sign bit is ignored.
float half_of_ue4m3(uint8_t bits) {
  if (bits == 0x7f) return 0.0f;
  const int exponent = (bits >> 3) & 15, fraction = bits & 7;
  const int value = exponent == 0 ? fraction : 8 + fraction;
  const int power = (exponent == 0 ? 1 : exponent) - 11;
  return static_cast<float>(value) * std::bit_cast<float>(static_cast<uint32_t>(127 + power) << 23);
}

// Replaces n indices into kFloat4Values by the values. The loop computes the values instead of looking them
// up, so that compilers vectorize it: neighboring values differ by 1 up to index 4, by 2 up to index 6, and
// by 4 after that.
template <int n>
void look_up_float4(int8_t* q) {
  for (int i = 0; i < n; ++i) {
    const auto size = static_cast<uint8_t>(q[i] & 7);
    const auto above_4 = static_cast<uint8_t>(size > 4 ? size - 4 : 0),
               above_6 = static_cast<uint8_t>(size > 6 ? size - 6 : 0);
    const auto value = static_cast<int8_t>(size + above_4 + 2 * above_6);
    q[i] = q[i] > 7 ? static_cast<int8_t>(-value) : value;
  }
}

// Splits each of `width` bytes into n digits of base 3; the first digits of all bytes come first.
template <int n, int width>
void split_digits(const uint8_t* bytes, int8_t* q) {
  unsigned power = 1;
  for (int digit = 0; digit < n; ++digit, power *= 3) {
    for (int i = 0; i < width; ++i) {
      // rest / 256 is a fraction whose base-3 digits are the digits that remain. So the product with 3 has
      // the next digit above its low 8 bits.
      const auto rest = static_cast<uint8_t>(bytes[i] * power);
      q[digit * width + i] = static_cast<int8_t>((rest * 3 >> 8) - 1);
    }
  }
}

}  // namespace

template <>
void decode_block(const std::byte* bytes, Decoded<BlockQ4_0>& out) {
  const auto block = load<BlockQ4_0>(bytes);
  split_nibbles<16>(block.qs, out.q);
  for (int i = 0; i < 32; ++i) out.q[i] = static_cast<int8_t>(out.q[i] - 8);
  set_factors(out, float_from_half(block.d), 0.0f);
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockQ4_1>& out) {
  const auto block = load<BlockQ4_1>(bytes);
  split_nibbles<16>(block.qs, out.q);
  set_factors(out, float_from_half(block.d), float_from_half(block.m));
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockQ5_0>& out) {
  const auto block = load<BlockQ5_0>(bytes);
  join_five_bits(block.qs, block.qh, 16, out.q);
  set_factors(out, float_from_half(block.d), 0.0f);
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockQ5_1>& out) {
  const auto block = load<BlockQ5_1>(bytes);
  join_five_bits(block.qs, block.qh, 0, out.q);
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
  for (int run = 0; run < 8; ++run) {
    const uint8_t* qs = block.qs + run / 4 * 32;
    for (int i = 0; i < 32; ++i) out.q[run * 32 + i] = static_cast<int8_t>((qs[i] >> (run % 4 * 2)) & 3);
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
  for (int run = 0; run < 8; ++run) {
    const uint8_t* qs = block.qs + run / 4 * 32;
    for (int i = 0; i < 32; ++i) {
      const int low = (qs[i] >> (run % 4 * 2)) & 3, high = (block.hmask[i] >> run) & 1;
      out.q[run * 32 + i] = static_cast<int8_t>((low | (high << 2)) - 4);
    }
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
  for (int run = 0; run < 4; ++run) split_nibbles<32>(block.qs + run * 32, out.q + run * 64);
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
  for (int run = 0; run < 4; ++run) split_nibbles<32>(block.qs + run * 32, out.q + run * 64);
  for (int run = 0; run < 8; ++run) {
    int8_t* q = out.q + run * 32;
    for (int i = 0; i < 32; ++i) q[i] = static_cast<int8_t>(q[i] | (((block.qh[i] >> run) & 1) << 4));
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
  for (int run = 0; run < 8; ++run) {
    const int half = run / 4, j = run % 4;
    const uint8_t* ql = block.ql + half * 64 + j % 2 * 32;
    const uint8_t* qh = block.qh + half * 32;
    for (int i = 0; i < 32; ++i) {
      const int low = (ql[i] >> (j / 2 * 4)) & 15, high = (qh[i] >> (j * 2)) & 3;
      out.q[run * 32 + i] = static_cast<int8_t>((low | (high << 4)) - 32);
    }
  }
  for (int k = 0; k < 16; ++k) {
    out.scale[k] = d * static_cast<float>(block.scales[k]);
    out.min[k] = 0.0f;
  }
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockIQ4_NL>& out) {
  const auto block = load<BlockIQ4_NL>(bytes);
  split_nibbles<16>(block.qs, out.q);
  for (int8_t& q : out.q) q = kIq4Values[q];
  set_factors(out, float_from_half(block.d), 0.0f);
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockIQ4_XS>& out) {
  const auto block = load<BlockIQ4_XS>(bytes);
  const float d = float_from_half(block.d);
  for (int run = 0; run < 8; ++run) split_nibbles<16>(block.qs + run * 16, out.q + run * 32);
  for (int8_t& q : out.q) q = kIq4Values[q];
  for (int k = 0; k < 8; ++k) {
    const int low = (block.scales_l[k / 2] >> (k % 2 * 4)) & 15;
    const int high = (block.scales_h >> (k * 2)) & 3;
    out.scale[k] = d * static_cast<float>((low | (high << 4)) - 32);
    out.min[k] = 0.0f;
  }
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockMXFP4>& out) {
  const auto block = load<BlockMXFP4>(bytes);
  split_nibbles<16>(block.qs, out.q);
  look_up_float4<32>(out.q);
  set_factors(out, power_of_two(block.e), 0.0f);
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockNVFP4>& out) {
  const auto block = load<BlockNVFP4>(bytes);
  for (int k = 0; k < 4; ++k) {
    // Reads two words, because compilers would copy so short a loop byte by byte.
    uint64_t both;
    std::memcpy(&both, block.qs + k * 8, sizeof both);
    const uint64_t low = both & 0x0f0f0f0f0f0f0f0f, high = both >> 4 & 0x0f0f0f0f0f0f0f0f;
    std::memcpy(out.q + k * 16, &low, sizeof low);
    std::memcpy(out.q + k * 16 + 8, &high, sizeof high);
    out.scale[k] = half_of_ue4m3(block.d[k]);
    out.min[k] = 0.0f;
  }
  look_up_float4<64>(out.q);
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockTQ1_0>& out) {
  const auto block = load<BlockTQ1_0>(bytes);
  split_digits<5, 32>(block.qs, out.q);
  split_digits<5, 16>(block.qs + 32, out.q + 160);
  split_digits<4, 4>(block.qh, out.q + 240);
  set_scales(out, float_from_half(block.d));
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockTQ2_0>& out) {
  const auto block = load<BlockTQ2_0>(bytes);
  for (int run = 0; run < 8; ++run) {
    const uint8_t* qs = block.qs + run / 4 * 32;
    for (int i = 0; i < 32; ++i)
      out.q[run * 32 + i] = static_cast<int8_t>(((qs[i] >> (run % 4 * 2)) & 3) - 1);
  }
  set_scales(out, float_from_half(block.d));
}

}  // namespace hearth
