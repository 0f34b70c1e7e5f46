// One function per type, each with the reference formula of the ggml project. See quantize.h.
#include "kernels/quant/quantize.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/quant/formats.h"
#include "kernels/quant/half.h"

namespace hearth {
namespace {

/// Returns 1 / d, or 0 if the quotient is not finite.
float inverse(float d) {
  const float inverse = 1.0f / d;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

/// Returns the value with the largest magnitude, with its sign; if several are equal, the first of them.
float extreme(const float* x, int n) {
  float furthest = 0.0f, value = 0.0f;
  for (int i = 0; i < n; ++i) {
    if (std::fabs(x[i]) > furthest) {
      furthest = std::fabs(x[i]);
      value = x[i];
    }
  }
  return value;
}

/// Low nibbles hold the first half of the block, high nibbles the second.
void pack_nibbles(const uint8_t* q, uint8_t* qs) {
  for (int i = 0; i < 16; ++i) qs[i] = static_cast<uint8_t>((q[i] & 15) | (q[i + 16] << 4));
}

void pack_fifth_bits(const uint8_t* q, uint8_t* qh) {
  uint32_t bits = 0;
  for (int i = 0; i < 32; ++i) bits |= static_cast<uint32_t>(q[i] >> 4) << i;
  std::memcpy(qh, &bits, sizeof(bits));
}

// For types without a min. The value with the largest magnitude gets the lowest quant, -kOffset, so d has the
// opposite sign of this value.
template <class Block>
uint16_t code_symmetric(const float* x, uint8_t* q) {
  const float d = extreme(x, Block::kElems) / -Block::kOffset;
  const float scale = inverse(d);
  const float half_up = static_cast<float>(Block::kOffset) + 0.5f;
  for (int i = 0; i < Block::kElems; ++i) {
    const int code = static_cast<int>(x[i] * scale + half_up);
    q[i] = static_cast<uint8_t>(std::min(code, 2 * Block::kOffset - 1));
  }
  return half_from_float(d);
}

// For types with a min, codes 0 to kTop cover the block's range.
template <int kTop, class Block>
void code_range(const float* x, uint8_t* q, Block& block) {
  const auto [low, high] = std::minmax_element(x, x + Block::kElems);
  const float d = (*high - *low) / static_cast<float>(kTop);
  const float scale = inverse(d);
  for (int i = 0; i < Block::kElems; ++i) {
    const int code = static_cast<int>((x[i] - *low) * scale + 0.5f);
    q[i] = static_cast<uint8_t>(std::min(code, kTop));
  }
  block.d = half_from_float(d);
  block.m = half_from_float(*low);
}

void quantize_block(const float* x, BlockQ4_0& block) {
  uint8_t q[BlockQ4_0::kElems];
  block.d = code_symmetric<BlockQ4_0>(x, q);
  pack_nibbles(q, block.qs);
}

void quantize_block(const float* x, BlockQ5_0& block) {
  uint8_t q[BlockQ5_0::kElems];
  block.d = code_symmetric<BlockQ5_0>(x, q);
  pack_nibbles(q, block.qs);
  pack_fifth_bits(q, block.qh);
}

void quantize_block(const float* x, BlockQ4_1& block) {
  uint8_t q[BlockQ4_1::kElems];
  code_range<15>(x, q, block);
  pack_nibbles(q, block.qs);
}

void quantize_block(const float* x, BlockQ5_1& block) {
  uint8_t q[BlockQ5_1::kElems];
  code_range<31>(x, q, block);
  pack_nibbles(q, block.qs);
  pack_fifth_bits(q, block.qh);
}

void quantize_block(const float* x, BlockQ8_0& block) {
  const float d = std::fabs(extreme(x, BlockQ8_0::kElems)) / 127.0f;
  const float scale = inverse(d);
  for (int i = 0; i < BlockQ8_0::kElems; ++i) {
    const float scaled = x[i] * scale;
    // Rounds half away from zero, without the rounding error of x + 0.5.
    const float magnitude = std::fabs(scaled);
    const int whole = static_cast<int>(magnitude);
    const int rounded = whole + static_cast<int>(2.0f * (magnitude - static_cast<float>(whole)));
    block.qs[i] = static_cast<int8_t>(scaled < 0.0f ? -rounded : rounded);
  }
  block.d = half_from_float(d);
}

/// The scale brings the largest magnitude into the range 4 to 8 (6 is the largest code). Every weight is
/// rounded to the nearest value, or to the smaller value if two are equally near.
void quantize_block(const float* x, BlockMXFP4& block) {
  const float largest = std::fabs(extreme(x, BlockMXFP4::kElems));
  const float e = largest > 0.0f ? std::floor(std::log2(largest)) + 125.0f : 0.0f;
  block.e = static_cast<uint8_t>(std::clamp(e, 0.0f, 255.0f));
  const float d = std::ldexp(1.0f, block.e - 128);
  uint8_t q[BlockMXFP4::kElems];
  for (int i = 0; i < BlockMXFP4::kElems; ++i) {
    float least = std::numeric_limits<float>::infinity();
    for (int code = 0; code < 16; ++code) {
      const float error = std::fabs(d * static_cast<float>(kFloat4Values[code]) - x[i]);
      if (error >= least) continue;
      least = error;
      q[i] = static_cast<uint8_t>(code);
    }
  }
  pack_nibbles(q, block.qs);
}

template <class Block>
void quantize_blocks(const float* x, int64_t n, std::byte* row) {
  for (int64_t i = 0; i < n; i += Block::kElems, row += sizeof(Block)) {
    Block block;
    quantize_block(x + i, block);
    std::memcpy(row, &block, sizeof(block));
  }
}

template <class Convert>
void convert_to_16_bits(const float* x, int64_t n, std::byte* row, const Convert& convert) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t bits = convert(x[i]);
    std::memcpy(row + 2 * i, &bits, sizeof(bits));
  }
}

}  // namespace

bool can_quantize(DType type) { return type <= DType::kQ8_0 || type == DType::kMXFP4; }

void quantize_row(DType type, const float* x, int64_t n, std::byte* row) {
  assert(can_quantize(type) && n % dtype_info(type).block_elems == 0);
  switch (type) {
    case DType::kF32:
      std::memcpy(row, x, static_cast<size_t>(n) * sizeof(float));
      return;
    case DType::kF16:
      return convert_to_16_bits(x, n, row, half_from_float);
    case DType::kBF16:
      return convert_to_16_bits(x, n, row, bfloat16_from_float);
    case DType::kQ4_0:
      return quantize_blocks<BlockQ4_0>(x, n, row);
    case DType::kQ4_1:
      return quantize_blocks<BlockQ4_1>(x, n, row);
    case DType::kQ5_0:
      return quantize_blocks<BlockQ5_0>(x, n, row);
    case DType::kQ5_1:
      return quantize_blocks<BlockQ5_1>(x, n, row);
    case DType::kQ8_0:
      return quantize_blocks<BlockQ8_0>(x, n, row);
    case DType::kMXFP4:
      return quantize_blocks<BlockMXFP4>(x, n, row);
    default:
      return;
  }
}

}  // namespace hearth
