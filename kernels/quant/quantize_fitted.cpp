// Encoders that search for scales, one block at a time, so that the bits do not depend on threads. See
// quantize_fitted.h.
//
// Except for MXFP4, a block is first divided by its largest magnitude, so that sums of squares neither
// overflow nor vanish.
#include "kernels/quant/quantize_fitted.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/quant/formats.h"
#include "kernels/quant/group_fit.h"
#include "kernels/quant/half.h"
#include "kernels/quant/quantize.h"

namespace hearth {
namespace {

using fit::Group;
using fit::Line;

/// One block, prepared for the search.
template <class Block>
struct Values {
  /// MXFP4 is not divided, because its scale must be a power of two.
  static constexpr bool kDivided = !std::is_same_v<Block, BlockMXFP4>;
  alignas(32) float x[Block::kElems];  // divided by `largest` if kDivided
  alignas(32) float w[Block::kElems];  // weight of an error
  float largest = 0.0f;                // 0 if no value of the block can be represented

  /// importance: the importance of these columns, or null.
  Values(const float* values, const float* importance) {
    for (int i = 0; i < Block::kElems; ++i) largest = std::max(largest, std::fabs(values[i]));
    if (kDivided && largest < 0x1p-30f) largest = 0.0f;  // the smallest half is 2^-24
    if (largest == 0.0f) return;
    const float inverse = kDivided ? 1.0f / largest : 1.0f;
    for (int i = 0; i < Block::kElems; ++i) x[i] = values[i] * inverse;
    for (int begin = 0; begin < Block::kElems; begin += Block::kGroup) weigh_group(begin);
    if (importance != nullptr) weigh_columns(importance);
  }

  void weigh_group(int begin) {
    float squares = 0.0f;
    for (int i = begin; i < begin + Block::kGroup; ++i) squares += x[i] * x[i];
    const float mean = std::sqrt(squares / static_cast<float>(Block::kGroup));
    for (int i = begin; i < begin + Block::kGroup; ++i) w[i] = mean + std::fabs(x[i]);
  }

  /// Only the ratios of importances matter. Columns that were never used get a small importance, because
  /// later text may use them.
  void weigh_columns(const float* importance) {
    const float most = *std::max_element(importance, importance + Block::kElems);
    if (!(most > 0.0f)) return;
    constexpr float kLeast = 1e-4f;
    for (int i = 0; i < Block::kElems; ++i) w[i] *= std::max(importance[i] / most, kLeast);
  }

  Group<Block::kGroup> group(int g) const { return {x + g * Block::kGroup, w + g * Block::kGroup}; }
};

/// Returns the value rounded to a half.
float as_half(float value) { return float_from_half(half_from_float(value)); }

/// Returns the nearest integer in [low, high].
int nearest(float value, int low, int high) {
  return static_cast<int>(std::lround(std::clamp(value, static_cast<float>(low), static_cast<float>(high))));
}

uint8_t code_of(float value, int top) {
  return static_cast<uint8_t>(std::clamp(value, 0.0f, static_cast<float>(top)) + 0.5f);
}

// -- Q4_K and Q5_K: 8 groups, each with a scale and an offset of 6 bits, and one factor for all --

constexpr int kRangeGroups = 8, kMost6Bits = 63;

struct RangeCoding {
  float d = 0.0f, dmin = 0.0f;  // halves, for the block divided by `largest`
  int scale[kRangeGroups] = {}, offset[kRangeGroups] = {};
};

/// Chooses each group's scale and offset among the integers next to the ideal values. Returns the block's
/// error.
template <class Block>
float choose_in_range(const Values<Block>& values, const Line* wanted, RangeCoding& coding) {
  float total = 0.0f;
  for (int g = 0; g < kRangeGroups; ++g) {
    const Group<Block::kGroup> group = values.group(g);
    const int scale = coding.d > 0.0f ? nearest(wanted[g].scale / coding.d, 0, kMost6Bits) : 0;
    const int offset = coding.dmin > 0.0f ? nearest(wanted[g].offset / coding.dmin, 0, kMost6Bits) : 0;
    float least = std::numeric_limits<float>::infinity();
    for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, kMost6Bits); ++s) {
      for (int m = std::max(offset - 1, 0); m <= std::min(offset + 1, kMost6Bits); ++m) {
        const float error = group.error(coding.d * static_cast<float>(s), coding.dmin * static_cast<float>(m),
                                        static_cast<float>(Block::kLargest));
        if (error >= least) continue;
        least = error;
        coding.scale[g] = s;
        coding.offset[g] = m;
      }
    }
    total += least;
  }
  return total;
}

/// Computes the two best factors for the integers of `coding`, by least squares.
template <class Block>
RangeCoding with_best_factors(const Values<Block>& values, RangeCoding coding) {
  double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;  // x is approximated by d * a + dmin * b, where a = scale *
                                                  // q and b = -offset
  for (int g = 0; g < kRangeGroups; ++g) {
    const float scale = coding.d * static_cast<float>(coding.scale[g]);
    const float offset = coding.dmin * static_cast<float>(coding.offset[g]);
    const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    double q1 = 0, q2 = 0, qx = 0, w1 = 0, wx = 0;
    for (int i = g * Block::kGroup; i < (g + 1) * Block::kGroup; ++i) {
      const double q = code_of((values.x[i] + offset) * inverse, Block::kLargest),
                   w = static_cast<double>(values.w[i]);
      q1 += w * q;
      q2 += w * q * q;
      qx += w * q * static_cast<double>(values.x[i]);
      w1 += w;
      wx += w * static_cast<double>(values.x[i]);
    }
    const double s = coding.scale[g], m = coding.offset[g];
    aa += s * s * q2;
    ab -= s * m * q1;
    bb += m * m * w1;
    ax += s * qx;
    bx -= m * wx;
  }
  const double determinant = aa * bb - ab * ab;
  if (determinant > 1e-9 * aa * bb) {
    coding.d = static_cast<float>((ax * bb - bx * ab) / determinant);
    coding.dmin = static_cast<float>((aa * bx - ab * ax) / determinant);
  } else if (aa > 0) {
    coding.d = static_cast<float>(ax / aa);
  }
  return coding;
}

/// The maximum number of rounds that recompute the integers and then the factors. The search ends earlier if
/// a round does not reduce the error.
constexpr int kTurns = 4;

template <class Block>
RangeCoding range_coding(const Values<Block>& values) {
  Line wanted[kRangeGroups];
  float largest_scale = 0.0f, largest_offset = 0.0f;
  for (int g = 0; g < kRangeGroups; ++g) {
    wanted[g] = fit::fit_range<false>(values.group(g), static_cast<float>(Block::kLargest));
    largest_scale = std::max(largest_scale, wanted[g].scale);
    largest_offset = std::max(largest_offset, wanted[g].offset);
  }
  RangeCoding coding, best;
  coding.d = largest_scale / kMost6Bits;
  coding.dmin = largest_offset / kMost6Bits;
  float least = std::numeric_limits<float>::infinity();
  for (int turn = 0; turn < kTurns; ++turn) {
    coding.d = as_half(coding.d * values.largest) / values.largest;
    coding.dmin = as_half(coding.dmin * values.largest) / values.largest;
    const float error = choose_in_range(values, wanted, coding);
    if (error >= least) break;
    least = error;
    best = coding;
    coding = with_best_factors(values, coding);
    if (!(coding.d > 0.0f) || coding.dmin < 0.0f) break;
  }
  return best;
}

/// Packs 8 scales and 8 offsets of 6 bits into 12 bytes, as formats.h describes.
void pack_6_bits(const RangeCoding& coding, uint8_t* scales) {
  for (int g = 0; g < 4; ++g) {
    const int scale = coding.scale[g + 4], offset = coding.offset[g + 4];
    scales[g] = static_cast<uint8_t>(coding.scale[g] | scale >> 4 << 6);
    scales[g + 4] = static_cast<uint8_t>(coding.offset[g] | offset >> 4 << 6);
    scales[g + 8] = static_cast<uint8_t>((scale & 15) | (offset & 15) << 4);
  }
}

template <class Block>
void fill_range_block(const Values<Block>& values, Block& block, uint8_t* q) {
  const RangeCoding coding = range_coding(values);
  block.d = half_from_float(coding.d * values.largest);
  block.dmin = half_from_float(coding.dmin * values.largest);
  pack_6_bits(coding, block.scales);
  for (int g = 0; g < kRangeGroups; ++g) {
    const float scale = coding.d * static_cast<float>(coding.scale[g]);
    const float offset = coding.dmin * static_cast<float>(coding.offset[g]);
    const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    for (int i = g * Block::kGroup; i < (g + 1) * Block::kGroup; ++i) {
      q[i] = code_of((values.x[i] + offset) * inverse, Block::kLargest);
    }
  }
  for (int i = 0; i < Block::kElems / 2; ++i) {
    const int low = i / 32 * 64 + i % 32;
    block.qs[i] = static_cast<uint8_t>((q[low] & 15) | (q[low + 32] & 15) << 4);
  }
}

void fit_block(const Values<BlockQ4_K>& values, BlockQ4_K& block) {
  uint8_t q[BlockQ4_K::kElems];
  fill_range_block(values, block, q);
}

void fit_block(const Values<BlockQ5_K>& values, BlockQ5_K& block) {
  uint8_t q[BlockQ5_K::kElems];
  fill_range_block(values, block, q);
  std::memset(block.qh, 0, sizeof(block.qh));
  for (int i = 0; i < BlockQ5_K::kElems; ++i) {
    block.qh[i % 32] = static_cast<uint8_t>(block.qh[i % 32] | (q[i] >> 4) << (i / 32));
  }
}

// -- Q6_K: 16 groups, each with a signed scale of 8 bits, and one factor for all --

constexpr int kScaleGroups = 16;

struct ScaleCoding {
  float d = 0.0f;  // a half, for the block divided by `largest`
  int scale[kScaleGroups] = {};
};

constexpr float kHalf6 = static_cast<float>(BlockQ6_K::kOffset),
                kTop6 = static_cast<float>(BlockQ6_K::kLargest);

float choose_scales(const Values<BlockQ6_K>& values, const Line* wanted, ScaleCoding& coding) {
  float total = 0.0f;
  for (int g = 0; g < kScaleGroups; ++g) {
    const Group<BlockQ6_K::kGroup> group = values.group(g);
    const int scale = coding.d != 0.0f ? nearest(wanted[g].scale / coding.d, -128, 127) : 0;
    float least = std::numeric_limits<float>::infinity();
    for (int s = std::max(scale - 1, -128); s <= std::min(scale + 1, 127); ++s) {
      const float product = coding.d * static_cast<float>(s);
      const float error = group.error(product, product * kHalf6, kTop6);
      if (error >= least) continue;
      least = error;
      coding.scale[g] = s;
    }
    total += least;
  }
  return total;
}

uint8_t code_of_6_bits(const ScaleCoding& coding, const Values<BlockQ6_K>& values, int i) {
  const float scale = coding.d * static_cast<float>(coding.scale[i / BlockQ6_K::kGroup]);
  return code_of((scale != 0.0f ? values.x[i] / scale : 0.0f) + kHalf6, BlockQ6_K::kLargest);
}

/// Returns the best factor for the coding's scales.
float best_factor(const Values<BlockQ6_K>& values, const ScaleCoding& coding) {
  double aa = 0, ax = 0;
  for (int i = 0; i < BlockQ6_K::kElems; ++i) {
    const int q = code_of_6_bits(coding, values, i) - BlockQ6_K::kOffset;
    const double a = coding.scale[i / BlockQ6_K::kGroup] * q, w = static_cast<double>(values.w[i]);
    aa += w * a * a;
    ax += w * a * static_cast<double>(values.x[i]);
  }
  return aa > 0 ? static_cast<float>(ax / aa) : 0.0f;
}

ScaleCoding scale_coding(const Values<BlockQ6_K>& values) {
  Line wanted[kScaleGroups];
  float furthest = 0.0f;
  for (int g = 0; g < kScaleGroups; ++g) {
    wanted[g] = fit::fit_symmetric(values.group(g), kHalf6);
    if (std::fabs(wanted[g].scale) > std::fabs(furthest)) furthest = wanted[g].scale;
  }
  ScaleCoding coding, best;
  coding.d = furthest / -128.0f;
  float least = std::numeric_limits<float>::infinity();
  for (int turn = 0; turn < kTurns; ++turn) {
    coding.d = as_half(coding.d * values.largest) / values.largest;
    const float error = choose_scales(values, wanted, coding);
    if (error >= least) break;
    least = error;
    best = coding;
    coding.d = best_factor(values, coding);
    if (coding.d == 0.0f) break;
  }
  return best;
}

void fit_block(const Values<BlockQ6_K>& values, BlockQ6_K& block) {
  const ScaleCoding coding = scale_coding(values);
  block.d = half_from_float(coding.d * values.largest);
  for (int g = 0; g < kScaleGroups; ++g) block.scales[g] = static_cast<int8_t>(coding.scale[g]);
  std::memset(block.ql, 0, sizeof(block.ql));
  std::memset(block.qh, 0, sizeof(block.qh));
  for (int i = 0; i < BlockQ6_K::kElems; ++i) {
    const int q = code_of_6_bits(coding, values, i);
    const int part = i / 128, quarter = i % 128 / 32, at = i % 32;
    uint8_t& low = block.ql[64 * part + quarter % 2 * 32 + at];
    uint8_t& high = block.qh[32 * part + at];
    low = static_cast<uint8_t>(low | (q & 15) << (quarter / 2 * 4));
    high = static_cast<uint8_t>(high | (q >> 4) << (2 * quarter));
  }
}

// -- the types with 32 weights and one factor --

/// Low nibbles hold the first half of the block, high nibbles the second; a fifth bit is stored separately.
template <class Block>
void pack_32(const uint8_t* q, Block& block) {
  for (int i = 0; i < 16; ++i) block.qs[i] = static_cast<uint8_t>((q[i] & 15) | (q[i + 16] & 15) << 4);
  if constexpr (requires { block.qh; }) {
    uint32_t bits = 0;
    for (int i = 0; i < 32; ++i) bits |= static_cast<uint32_t>(q[i] >> 4) << i;
    std::memcpy(block.qh, &bits, sizeof(bits));
  }
}

template <class Block>
requires(Block::kElems == 32 && !Block::kHasMin) void fit_block(const Values<Block>& values, Block& block) {
  const float half = static_cast<float>(Block::kOffset);
  const float d = as_half(fit::fit_symmetric(values.group(0), half).scale * values.largest) / values.largest;
  uint8_t q[32];
  for (int i = 0; i < 32; ++i) {
    q[i] = code_of((d != 0.0f ? values.x[i] / d : 0.0f) + half, Block::kLargest);
  }
  block.d = half_from_float(d * values.largest);
  pack_32(q, block);
}

template <class Block>
requires(Block::kElems == 32 && Block::kHasMin) void fit_block(const Values<Block>& values, Block& block) {
  const Line line = fit::fit_range<true>(values.group(0), static_cast<float>(Block::kLargest));
  const float d = as_half(line.scale * values.largest) / values.largest;
  const float m = as_half(-line.offset * values.largest) / values.largest;
  uint8_t q[32];
  for (int i = 0; i < 32; ++i) q[i] = code_of(d > 0.0f ? (values.x[i] - m) / d : 0.0f, Block::kLargest);
  block.d = half_from_float(d * values.largest);
  block.m = half_from_float(m * values.largest);
  pack_32(q, block);
}

/// The scale is a power of two: tries the scale that quantize_row chooses, half of it and twice it.
void fit_block(const Values<BlockMXFP4>& values, BlockMXFP4& block) {
  std::byte bytes[sizeof(BlockMXFP4)];
  quantize_row(DType::kMXFP4, values.x, BlockMXFP4::kElems, bytes);
  BlockMXFP4 usual;
  std::memcpy(&usual, bytes, sizeof(usual));
  float least = std::numeric_limits<float>::infinity();
  for (int e = usual.e - 1; e <= usual.e + 1; ++e) {
    const float d = std::ldexp(1.0f, e - 128);
    uint8_t q[32] = {};
    float error = 0.0f;
    for (int i = 0; i < 32; ++i) {
      float nearest_miss = std::numeric_limits<float>::infinity();
      for (int code = 0; code < 16; ++code) {
        const float miss = std::fabs(d * static_cast<float>(kFloat4Values[code]) - values.x[i]);
        if (miss >= nearest_miss) continue;
        nearest_miss = miss;
        q[i] = static_cast<uint8_t>(code);
      }
      error += values.w[i] * nearest_miss * nearest_miss;
    }
    if (error >= least) continue;
    least = error;
    block.e = static_cast<uint8_t>(e);
    pack_32(q, block);
  }
}

// -- rows --

template <class Block>
void fit_blocks(const float* x, const float* importance, int64_t n, std::byte* row) {
  for (int64_t i = 0; i < n; i += Block::kElems, row += sizeof(Block)) {
    const Values<Block> values(x + i, importance != nullptr ? importance + i : nullptr);
    Block block = {};
    if (values.largest > 0.0f) fit_block(values, block);
    std::memcpy(row, &block, sizeof(block));
  }
}

inline void fit_row(DType type, const float* x, const float* importance, int64_t n, std::byte* row) {
  switch (type) {
    case DType::kQ4_0:
      return fit_blocks<BlockQ4_0>(x, importance, n, row);
    case DType::kQ4_1:
      return fit_blocks<BlockQ4_1>(x, importance, n, row);
    case DType::kQ5_0:
      return fit_blocks<BlockQ5_0>(x, importance, n, row);
    case DType::kQ5_1:
      return fit_blocks<BlockQ5_1>(x, importance, n, row);
    case DType::kMXFP4:
      return fit_blocks<BlockMXFP4>(x, importance, n, row);
    case DType::kQ4_K:
      return fit_blocks<BlockQ4_K>(x, importance, n, row);
    case DType::kQ5_K:
      return fit_blocks<BlockQ5_K>(x, importance, n, row);
    case DType::kQ6_K:
      return fit_blocks<BlockQ6_K>(x, importance, n, row);
    default:
      return;
  }
}

#ifdef __x86_64__
/// Like the portable version, but compiled for AVX2 with all functions that it calls, which makes it more
/// than twice as fast.
[[gnu::target("avx2"), gnu::flatten]] void fit_row_avx2(DType type, const float* x, const float* importance,
                                                        int64_t n, std::byte* row) {
  fit_row(type, x, importance, n, row);
}
#endif

}  // namespace

bool can_fit(DType type) {
  return (type >= DType::kQ4_0 && type <= DType::kQ5_1) || (type >= DType::kQ4_K && type <= DType::kQ6_K) ||
         type == DType::kMXFP4;
}

void quantize_row_fitted_portable(DType type, const float* x, const float* importance, int64_t n,
                                  std::byte* row) {
  assert(can_fit(type) && n % dtype_info(type).block_elems == 0);
  fit_row(type, x, importance, n, row);
}

void quantize_row_fitted(DType type, const float* x, const float* importance, int64_t n, std::byte* row) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) {
    assert(can_fit(type) && n % dtype_info(type).block_elems == 0);
    return fit_row_avx2(type, x, importance, n, row);
  }
#endif
  quantize_row_fitted_portable(type, x, importance, n, row);
}

}  // namespace hearth
