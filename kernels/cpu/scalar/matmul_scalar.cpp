// Matmul loops in portable C++, for processors without a vector ISA and as the reference that the other ISAs
// must match bit by bit.
//
// Each weight block is decoded once and used for a tile of tokens. matmul_kernels.h defines the order of
// arithmetic.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/isa/activation_row.h"
#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/quant/decode.h"
#include "kernels/quant/half.h"

namespace hearth {
namespace {

// The number of tokens that share one decoding of a block. It is large enough to make decoding cheap, and
// small enough that the tokens' rows stay in L1.
constexpr int kTokenTile = 8;

// Returns the quants of columns [column, column + 16) of a row, in the order of the columns. Quant: int16_t
// for 15 bits, int8_t for 8.
template <class Quant>
Quant* half_span(const ActivationRow& row, int64_t column) {
  return reinterpret_cast<Quant*>(row.quants) + column;
}

int32_t largest_bits(const float* x) {
  int32_t largest = 0;
  for (int k = 0; k < kActivationSpan; ++k) {
    int32_t bits;
    std::memcpy(&bits, x + k, sizeof bits);
    largest = std::max(largest, bits & 0x7fffffff);
  }
  return largest;
}

// Quants are in column order. See quantize_activation_row().
template <class Quant>
int32_t quantize_half(const float* values, float inverse, std::byte* quants, int half) {
  Quant* out = reinterpret_cast<Quant*>(quants) + half * kActivationHalf;
  int32_t sum = 0;
  for (int i = 0; i < kActivationHalf; ++i) {
    out[i] = static_cast<Quant>(std::lrint(values[i] * inverse));
    sum += out[i];
  }
  return sum;
}

// Returns the weight row for column i of the output.
int64_t row_at(const MatmulArgs& args, int64_t i) { return args.rows != nullptr ? args.rows[i] : i; }

void store(const MatmulArgs& args, int token, int64_t i, float value) {
  const int64_t row = row_at(args, i);
  float& out = args.out[token * args.out_stride + i];
  if (args.bias != nullptr) value += args.bias[row];
  out = args.accumulate ? out + value : value;
}

// Returns the exact sum of a weight group's products over `columns` columns.
template <int columns, class Quant>
int32_t integer_dot(const int8_t* weights, const Quant* quants) {
  int32_t sum = 0;
  for (int i = 0; i < columns; ++i) sum += weights[i] * quants[i];
  return sum;
}

// Adds one decoded block, at column `column`, to a token's accumulator.
template <class Quant, class Block>
float add_block(float acc, const Decoded<Block>& block, const ActivationRow& x, int64_t column) {
  constexpr int kGroup = Block::kGroup;
  constexpr int kParts = kActivationSpan / kGroup;
  const float* sums = kGroup == kActivationHalf ? x.half_sum : x.sum;
  for (int span = 0; span < Block::kElems / kActivationSpan; ++span) {
    float dot = 0.0f;
    for (int part = 0; part < kParts; ++part) {
      const int g = span * kParts + part;
      const int64_t at = column + g * kGroup;
      const int32_t sum = integer_dot<kGroup>(block.q + g * kGroup, half_span<Quant>(x, at));
      float term = static_cast<float>(sum) * block.scale[g];
      if (Block::kHasMin) term += block.min[g] * sums[at / kGroup];
      dot = part == 0 ? term : dot + term;
    }
    acc += dot * x.scale[column / kActivationSpan + span];
  }
  return acc;
}

template <class Quant, class Block>
void multiply_quantized(const MatmulArgs& args) {
  const Matrix& weight = *args.weight;
  const size_t row_bytes = activation_row_size(weight.n_cols, sizeof(Quant));
  for (int begin = 0; begin < args.n_tokens; begin += kTokenTile) {
    const int n = std::min(kTokenTile, args.n_tokens - begin);
    ActivationRow x[kTokenTile];
    for (int t = 0; t < n; ++t) {
      std::byte* row = const_cast<std::byte*>(args.quantized) + static_cast<size_t>(begin + t) * row_bytes;
      x[t] = activation_row(row, weight.n_cols, sizeof(Quant));
    }
    for (int64_t i = args.row_begin; i < args.row_end; ++i) {
      const std::byte* bytes = weight.row(row_at(args, i));
      float acc[kTokenTile] = {};
      for (int64_t column = 0; column < weight.n_cols; column += Block::kElems, bytes += sizeof(Block)) {
        Decoded<Block> block;
        decode_block<Block>(bytes, block);
        for (int t = 0; t < n; ++t) acc[t] = add_block<Quant, Block>(acc[t], block, x[t], column);
      }
      for (int t = 0; t < n; ++t) store(args, begin + t, i, acc[t]);
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

// Multiplies float weights. Column c is added to partial sum c % 8. The eight partial sums are added in a
// fixed order.
template <class Load>
void multiply_float(const MatmulArgs& args) {
  constexpr int kLanes = 8;
  const int64_t n_cols = args.weight->n_cols;
  for (int64_t place = args.row_begin; place < args.row_end; ++place) {
    const std::byte* w = args.weight->row(row_at(args, place));
    for (int t = 0; t < args.n_tokens; ++t) {
      const float* x = args.x + t * n_cols;
      float acc[kLanes] = {};
      for (int64_t i = 0; i < n_cols; ++i) acc[i % kLanes] += Load::at(w + i * Load::kBytes) * x[i];
      for (int width = kLanes / 2; width > 0; width /= 2) {
        for (int i = 0; i < width; ++i) acc[i] += acc[i + width];
      }
      store(args, t, place, acc[0]);
    }
  }
}

template <class Quant>
constexpr MatmulKernels table() {
  return {quantize_activation_row<sizeof(Quant), largest_bits, quantize_half<Quant>>,
          {multiply_float<LoadF32>,
           multiply_float<Load16<float_from_half>>,
           multiply_float<Load16<float_from_bfloat16>>,
           multiply_quantized<Quant, BlockQ4_0>,
           multiply_quantized<Quant, BlockQ4_1>,
           multiply_quantized<Quant, BlockQ5_0>,
           multiply_quantized<Quant, BlockQ5_1>,
           multiply_quantized<Quant, BlockQ8_0>,
           multiply_quantized<Quant, BlockQ2_K>,
           multiply_quantized<Quant, BlockQ3_K>,
           multiply_quantized<Quant, BlockQ4_K>,
           multiply_quantized<Quant, BlockQ5_K>,
           multiply_quantized<Quant, BlockQ6_K>,
           multiply_quantized<Quant, BlockIQ4_NL>,
           multiply_quantized<Quant, BlockIQ4_XS>,
           multiply_quantized<Quant, BlockMXFP4>,
           multiply_quantized<Quant, BlockNVFP4>,
           multiply_quantized<Quant, BlockIQ2_XXS>,
           multiply_quantized<Quant, BlockIQ2_XS>,
           multiply_quantized<Quant, BlockIQ2_S>,
           multiply_quantized<Quant, BlockIQ3_XXS>,
           multiply_quantized<Quant, BlockIQ3_S>,
           multiply_quantized<Quant, BlockIQ1_S>,
           multiply_quantized<Quant, BlockIQ1_M>,
           multiply_quantized<Quant, BlockTQ1_0>,
           multiply_quantized<Quant, BlockTQ2_0>}};
}

}  // namespace

const MatmulKernels kMatmulKernelsScalar = table<int16_t>();
const MatmulKernels kMatmulBytesScalar = table<int8_t>();

}  // namespace hearth
