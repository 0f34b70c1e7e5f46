// Matmul loops for NEON without dot products (ARMv8.0), for example for Cortex-A53 and A72 (Raspberry Pi 3
// and 4). A vector holds 8 weight rows.
//
// Weights become 16-bit words, one register for each column, and are multiplied by one quant, which is also a
// word. smlal widens four products and adds them to a sum. Quants of 8 bits are widened when they are read,
// so they save little time. Only the table may have external linkage.
#include "kernels/cpu/neon/simd_neon.h"

namespace hearth {
namespace {

template <int quant_bytes>
struct NeonWords : Neon {
  static constexpr int kQuantBytes = quant_bytes;
  template <int largest>
  static constexpr int kVectorsPerFour = 2;  // panels of bytes are widened to words
  static constexpr bool kSubtractsOffset = true;

  // Returns the eight quants that begin at column `column` of a span.
  [[gnu::always_inline]] static int16x8_t eight_quants(const std::byte* span, int column) {
    if constexpr (quant_bytes == 1) return vmovl_s8(vld1_s8(reinterpret_cast<const int8_t*>(span + column)));
    return vreinterpretq_s16_u8(load16(span + 2 * column));
  }

  // Subtracts an offset from four columns of bytes, and widens them to words. words[0] has columns 0 and 1,
  // words[1] columns 2 and 3; a register has the eight rows of one column.
  template <int offset>
  [[gnu::always_inline]] static void spread(Int bytes, Int* words) {
    const uint16x8_t offsets = vdupq_n_u16(offset);
    const uint16x8_t low = vreinterpretq_u16_s32(bytes.low), high = vreinterpretq_u16_s32(bytes.high);
    const uint16x8_t mask = vdupq_n_u16(0xff);
    const uint16x8_t even[2] = {vsubq_u16(vandq_u16(low, mask), offsets),
                                vsubq_u16(vandq_u16(high, mask), offsets)};
    const uint16x8_t odd[2] = {vsubq_u16(vshrq_n_u16(low, 8), offsets),
                               vsubq_u16(vshrq_n_u16(high, 8), offsets)};
    words[0] = {dwords_of(vuzp1q_u16(even[0], even[1])), dwords_of(vuzp1q_u16(odd[0], odd[1]))};
    words[1] = {dwords_of(vuzp2q_u16(even[0], even[1])), dwords_of(vuzp2q_u16(odd[0], odd[1]))};
  }

  // Returns sum + the products of two columns, one in each register of `words`, with the quants in lanes
  // `lane` and lane + 1 of x.
  template <int lane>
  [[gnu::always_inline]] static Int add_two(Int sum, Int words, int16x8_t x) {
    const int16x8_t a = vreinterpretq_s16_s32(words.low), b = vreinterpretq_s16_s32(words.high);
    sum.low = vmlal_laneq_s16(sum.low, vget_low_s16(a), x, lane);
    sum.high = vmlal_high_laneq_s16(sum.high, a, x, lane);
    sum.low = vmlal_laneq_s16(sum.low, vget_low_s16(b), x, lane + 1);
    sum.high = vmlal_high_laneq_s16(sum.high, b, x, lane + 1);
    return sum;
  }

  // Multiplies kColumns weights by a token's quants, from column `column` of a span on. Returns the sums of
  // the products. Uses two independent sums, because with a single token no other products can hide the
  // latency.
  template <int kColumns, int largest>
  [[gnu::always_inline]] static Int dot_one(const Int* weights, const std::byte* span, int column) {
    Int sum[2] = {zero(), zero()};
    unroll<kColumns / 8>([&]<int k>() __attribute__((always_inline)) {
      const int16x8_t x = eight_quants(span, column + 8 * k);
      Int words[4];
      spread<0>(weights[2 * k], words);
      spread<0>(weights[2 * k + 1], words + 2);
      sum[0] = add_two<0>(sum[0], words[0], x);
      sum[1] = add_two<2>(sum[1], words[1], x);
      sum[0] = add_two<4>(sum[0], words[2], x);
      sum[1] = add_two<6>(sum[1], words[3], x);
    });
    return add_int(sum[0], sum[1]);
  }

  // Multiplies n vectors by 16 * n quants of a token, from column `column` of a span on. Each vector has 16
  // columns of each of its rows, in memory order. Returns four partial sums per row.
  template <int n, int largest>
  [[gnu::always_inline]] static Int dot_rows(const Int* weights, const std::byte* span, int column) {
    Int sum = zero();
    for (int i = 0; i < 2 * n; ++i) {
      const int16x8_t x = eight_quants(span, column + 8 * i);
      sum.low = add_eight(sum.low, eight_words(weights[i / 2].low, i % 2), x);
      sum.high = add_eight(sum.high, eight_words(weights[i / 2].high, i % 2), x);
    }
    return sum;
  }
  // Returns one half of 16 unsigned bytes as words.
  static int16x8_t eight_words(int32x4_t bytes, int half) {
    const uint8x16_t v = vreinterpretq_u8_s32(bytes);
    return vreinterpretq_s16_u16(half == 0 ? vmovl_u8(vget_low_u8(v)) : vmovl_high_u8(v));
  }
  static int32x4_t add_eight(int32x4_t sum, int16x8_t a, int16x8_t b) {
    return vmlal_high_s16(vmlal_s16(sum, vget_low_s16(a), vget_low_s16(b)), a, b);
  }

  // Multiplies the low nibbles of n vectors (four columns each) by 4 * n quants of a token, from column
  // `column` of a span on.
  template <int n>
  [[gnu::always_inline]] static Int dot_low_nibbles(const Int* raw, const std::byte* span, int column) {
    return dot_masked<n>(raw, bytes(0x0f), span, column);
  }
  // Returns 16 times the products of the high nibbles, because the nibbles are not shifted down.
  template <int n>
  [[gnu::always_inline]] static Int dot_high_nibbles_16(const Int* raw, const std::byte* span, int column) {
    return dot_masked<n>(raw, bytes(0xf0), span, column);
  }
  template <int n>
  [[gnu::always_inline]] static Int dot_masked(const Int* raw, Int mask, const std::byte* span, int column) {
    Int weights[n];
    for (int k = 0; k < n; ++k) weights[k] = bit_and(raw[k], mask);
    return dot_one<4 * n, 255>(weights, span, column);
  }

  // Adds to sum[p][t], for each panel p and token t, the products of the panel's rows with the token's
  // quants. The quants of the n tokens are `stride` bytes apart.
  template <int n, int kColumns, int largest>
  [[gnu::always_inline]] static void dot_pair(const Int* first, const Int* second, const std::byte* span,
                                              int column, size_t stride, Int (&sum)[2][n]) {
    unroll<kColumns / 8>([&]<int k>() __attribute__((always_inline)) {
      int16x8_t x[n];
      for (int t = 0; t < n; ++t) {
        x[t] = eight_quants(span + static_cast<size_t>(t) * stride, column + 8 * k);
      }
      unroll<4>([&]<int j>() __attribute__((always_inline)) {
        const Int a = first[4 * k + j], b = second[4 * k + j];
        for (int t = 0; t < n; ++t) {
          sum[0][t] = add_two<2 * j>(sum[0][t], a, x[t]);
          sum[1][t] = add_two<2 * j>(sum[1][t], b, x[t]);
        }
      });
    });
  }

  static int32x4_t dwords_of(uint16x8_t v) { return vreinterpretq_s32_u16(v); }
};

// Quantizes half of an activation span (32 columns) for quantize_activation_row() and returns the sum of the
// integers. The integers are stored in column order, in 2 bytes each, or in 1 byte if activations have 8
// bits.
template <int quant_bytes>
int quantize_half(const float* values, float inverse, std::byte* quants, int half) {
  const HalfSpan q = quantize_16(values, inverse);
  if constexpr (quant_bytes == 1) {
    int8_t* to = reinterpret_cast<int8_t*>(quants) + half * kActivationHalf;
    vst1q_s8(to, vcombine_s8(vmovn_s16(q.first), vmovn_s16(q.second)));
  } else {
    int16_t* to = reinterpret_cast<int16_t*>(quants) + half * kActivationHalf;
    vst1q_s16(to, q.first);
    vst1q_s16(to + 8, q.second);
  }
  return q.sum;
}

}  // namespace

const MatmulKernels kMatmulKernelsNeon =
    matmul_table<OneForAll<NeonWords<2>>, Neon>(quantize_activation_row<2, largest_bits, quantize_half<2>>);
const MatmulKernels kMatmulBytesNeon =
    matmul_table<OneForAll<NeonWords<1>>, Neon>(quantize_activation_row<1, largest_bits, quantize_half<1>>);

}  // namespace hearth
