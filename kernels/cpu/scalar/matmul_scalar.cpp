// Matmul loops in portable C++: what runs where no vector ISA does, and what the others are compared with,
// bit by bit.
//
// Each weight block is decoded once and used for a tile of tokens. Arithmetic and its order:
// matmul_kernels.h.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/activation_row.h"
#include "kernels/cpu/matmul_tables.h"
#include "kernels/quant/decode.h"
#include "kernels/quant/half.h"

namespace hearth {
namespace {

// Tokens that share one decoding of a block: enough to make decoding cheap, few enough for their rows to stay
// in L1.
constexpr int kTokenTile = 8;

void quantize_row(const float* x, int64_t n_cols, std::byte* out) {
  const ActivationRow row = activation_row(out, n_cols);
  for (int64_t g = 0; g < n_cols / kActivationGroup; ++g, x += kActivationGroup) {
    float max = 0.0f;
    for (int i = 0; i < kActivationGroup; ++i) max = std::max(max, std::fabs(x[i]));
    const bool zero = max < kSmallestMax;
    const float scale = zero ? 0.0f : max / 127.0f;
    const float inverse = zero ? 0.0f : 127.0f / max;
    int8_t* quants = row.quants + g * kActivationGroup;
    int32_t sum = 0;
    for (int i = 0; i < kActivationGroup; ++i) {
      quants[i] = static_cast<int8_t>(std::lrint(x[i] * inverse));
      sum += quants[i];
    }
    row.scale[g] = scale;
    row.scaled_sum[g] = scale * static_cast<float>(sum);
    row.minus_sum[g] = -sum;
    if (g % 2 == 1) row.pair_scaled_sum[g / 2] = row.scaled_sum[g - 1] + row.scaled_sum[g];
  }
}

void store(const MatmulArgs& args, int token, int64_t row, float value) {
  float& out = args.out[token * args.out_stride + row];
  if (args.bias != nullptr) value += args.bias[row];
  out = args.accumulate ? out + value : value;
}

// 16 products times the scale of their activations.
float scaled_dot(const int8_t* weights, const ActivationRow& x, int64_t column) {
  int32_t sum = 0;
  for (int i = 0; i < kActivationGroup; ++i) sum += weights[i] * x.quants[column + i];
  return static_cast<float>(sum) * x.scale[column / kActivationGroup];
}

// Adds one decoded block, at column `column`, to a token's accumulator.
template <class Block>
float add_block(float acc, const Decoded<Block>& block, const ActivationRow& x, int64_t column) {
  constexpr int kGroup = Block::kGroup;
  const float* scaled_sum = kGroup == 16 ? x.scaled_sum : x.pair_scaled_sum;
  for (int g = 0; g < Decoded<Block>::kGroups; ++g) {
    const int64_t at = column + g * kGroup;
    float dot = scaled_dot(block.q + g * kGroup, x, at);
    if (kGroup == 32) dot += scaled_dot(block.q + g * kGroup + 16, x, at + 16);
    float term = dot * block.scale[g];
    if (Block::kHasMin) term += block.min[g] * scaled_sum[at / kGroup];
    acc += term;
  }
  return acc;
}

template <class Block>
void multiply_quantized(const MatmulArgs& args) {
  const Matrix& weight = *args.weight;
  const size_t row_bytes = activation_row_size(weight.n_cols);
  for (int begin = 0; begin < args.n_tokens; begin += kTokenTile) {
    const int n = std::min(kTokenTile, args.n_tokens - begin);
    ActivationRow x[kTokenTile];
    for (int t = 0; t < n; ++t) {
      x[t] = activation_row(
          const_cast<std::byte*>(args.quantized) + static_cast<size_t>(begin + t) * row_bytes, weight.n_cols);
    }
    for (int64_t row = args.row_begin; row < args.row_end; ++row) {
      const std::byte* bytes = weight.row(row);
      float acc[kTokenTile] = {};
      for (int64_t column = 0; column < weight.n_cols; column += Block::kElems, bytes += sizeof(Block)) {
        Decoded<Block> block;
        decode_block<Block>(bytes, block);
        for (int t = 0; t < n; ++t) acc[t] = add_block<Block>(acc[t], block, x[t], column);
      }
      for (int t = 0; t < n; ++t) store(args, begin + t, row, acc[t]);
    }
  }
}

struct LoadF32 {
  static constexpr int kBytes = 4;
  static float at(const std::byte* p) {
    float value;
    std::memcpy(&value, p, sizeof value);
    return value;
  }
};

template <float (*convert)(uint16_t)>
struct Load16 {
  static constexpr int kBytes = 2;
  static float at(const std::byte* p) {
    uint16_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return convert(bits);
  }
};

// Float weights: eight partial sums by column modulo 8, added up in one fixed order.
template <class Load>
void multiply_float(const MatmulArgs& args) {
  constexpr int kLanes = 8;
  const int64_t n_cols = args.weight->n_cols;
  for (int64_t row = args.row_begin; row < args.row_end; ++row) {
    const std::byte* w = args.weight->row(row);
    for (int t = 0; t < args.n_tokens; ++t) {
      const float* x = args.x + t * n_cols;
      float acc[kLanes] = {};
      for (int64_t i = 0; i < n_cols; ++i) acc[i % kLanes] += Load::at(w + i * Load::kBytes) * x[i];
      for (int width = kLanes / 2; width > 0; width /= 2) {
        for (int i = 0; i < width; ++i) acc[i] += acc[i + width];
      }
      store(args, t, row, acc[0]);
    }
  }
}

}  // namespace

const MatmulKernels kScalarMatmul = {
    quantize_row,
    {multiply_float<LoadF32>, multiply_float<Load16<float_from_half>>,
     multiply_float<Load16<float_from_bfloat16>>, multiply_quantized<BlockQ4_0>,
     multiply_quantized<BlockQ4_1>, multiply_quantized<BlockQ5_0>, multiply_quantized<BlockQ5_1>,
     multiply_quantized<BlockQ8_0>, multiply_quantized<BlockQ2_K>, multiply_quantized<BlockQ3_K>,
     multiply_quantized<BlockQ4_K>, multiply_quantized<BlockQ5_K>, multiply_quantized<BlockQ6_K>,
     multiply_quantized<BlockIQ4_NL>, multiply_quantized<BlockIQ4_XS>}};

}  // namespace hearth
