// Matmul loops for NEON with the matrix products of ARMv8.6 (FEAT_I8MM: Cortex-X2 and A710, Neoverse V1 and
// N2, Apple M2 and later): a vector holds 8 weight rows.
//
// smmla multiplies eight columns of two rows by eight quants of two tokens, twice as many products as sdot.
// It is used for several tokens; a single token uses dot products and the same quantized activations. This
// file is compiled with both extensions enabled, so only the tables may have external linkage.
#include "kernels/cpu/neon/dot_neon.h"

namespace hearth {
namespace {

/// planes: bytes per quant.
template <int planes>
struct NeonMatrix : NeonDot<planes> {
  using Int = Neon::Int;
  static constexpr bool kSubtractsOffset = true;  // arrange() subtracts it

  /// The products of eight rows with two tokens. Register i holds four products: row 2i with the first token,
  /// row 2i with the second token, row 2i + 1 with the first token, and row 2i + 1 with the second token.
  struct Products {
    int32x4_t rows[4];
  };

  /// Makes a panel's weights signed, and makes eight columns of a row contiguous. On entry, each vector has
  /// four columns of all eight rows. On return, the first vector of each pair has eight columns of rows 0 to
  /// 3, and the second vector has eight columns of rows 4 to 7.
  template <int offset>
  static void arrange(Int* quants, int n) {
    for (int i = 0; i < n; i += 2) {
      const Int a = less<offset>(quants[i]), b = less<offset>(quants[i + 1]);
      quants[i] = {vzip1q_s32(a.low, b.low), vzip2q_s32(a.low, b.low)};
      quants[i + 1] = {vzip1q_s32(a.high, b.high), vzip2q_s32(a.high, b.high)};
    }
  }

  // Adds to sum[p][t], for each panel p and token t, the products of the panel's rows with the token's
  // quants. The quants of the n tokens are `stride` bytes apart. Tokens are computed in pairs; a single last
  // token is paired with itself.
  template <int n, int kColumns, int largest>
  [[gnu::always_inline]] static void dot_pair(const Int* first, const Int* second, const std::byte* span,
                                              int column, size_t stride, Int (&sum)[2][n]) {
    constexpr int kTwos = (n + 1) / 2;
    Products of[2][kTwos];
    for (int i = 0; i < kTwos; ++i) of[0][i] = of[1][i] = {};
    add_plane<n, kColumns>(first, second, span + column, stride, of);
    if constexpr (planes == 2) {
      for (int i = 0; i < 2 * kTwos; ++i) {
        for (int32x4_t& v : of[i % 2][i / 2].rows) v = vshlq_n_s32(v, 8);
      }
      add_plane<n, kColumns>(first, second, span + column + kActivationSpan, stride, of);
    }
    for (int p = 0; p < 2; ++p) {
      for (int t = 0; t < n; ++t) sum[p][t] = Neon::add_int(sum[p][t], of_token(of[p][t / 2], t % 2));
    }
  }

 private:
  template <int n, int kColumns>
  [[gnu::always_inline]] static void add_plane(const Int* first, const Int* second, const std::byte* plane,
                                               size_t stride, Products (&of)[2][(n + 1) / 2]) {
    constexpr int kTwos = (n + 1) / 2;
    unroll<kColumns / 16>([&]<int k>() __attribute__((always_inline)) {
      int8x16_t x[2][kTwos];  // columns 0 to 7 of two tokens, then columns 8 to 15
      for (int i = 0; i < kTwos; ++i) {
        const std::byte* own = plane + 16 * k + static_cast<size_t>(2 * i) * stride;
        const int64x2_t a = load_pair(own), b = load_pair(2 * i + 1 < n ? own + stride : own);
        x[0][i] = vreinterpretq_s8_s64(vtrn1q_s64(a, b));
        x[1][i] = vreinterpretq_s8_s64(vtrn2q_s64(a, b));
      }
      unroll<2>([&]<int j>() __attribute__((always_inline)) {
        constexpr int at = 4 * k + 2 * j;
        for (int i = 0; i < kTwos; ++i) {
          add_products(of[0][i], first + at, x[j][i]);
          add_products(of[1][i], second + at, x[j][i]);
        }
      });
    });
  }

  /// Adds the products of eight columns of eight rows with two tokens' quants.
  [[gnu::always_inline]] static void add_products(Products& of, const Int* weights, int8x16_t x) {
    of.rows[0] = vmmlaq_s32(of.rows[0], vreinterpretq_s8_s32(weights[0].low), x);
    of.rows[1] = vmmlaq_s32(of.rows[1], vreinterpretq_s8_s32(weights[0].high), x);
    of.rows[2] = vmmlaq_s32(of.rows[2], vreinterpretq_s8_s32(weights[1].low), x);
    of.rows[3] = vmmlaq_s32(of.rows[3], vreinterpretq_s8_s32(weights[1].high), x);
  }

  /// Returns the products with the first token, or with the second token if `second` is 1.
  static Int of_token(const Products& of, int second) {
    const int32x4_t* v = of.rows;
    if (second == 0) return {vuzp1q_s32(v[0], v[1]), vuzp1q_s32(v[2], v[3])};
    return {vuzp2q_s32(v[0], v[1]), vuzp2q_s32(v[2], v[3])};
  }

  /// Subtracts the offset from every byte.
  template <int offset>
  static Int less(Int weights) {
    if constexpr (offset == 0) return weights;
    const int8x16_t v = vdupq_n_s8(static_cast<int8_t>(offset));
    const auto less_in = [v](int32x4_t four) {
      return vreinterpretq_s32_s8(vsubq_s8(vreinterpretq_s8_s32(four), v));
    };
    return {less_in(weights.low), less_in(weights.high)};
  }

  static int64x2_t load_pair(const std::byte* p) { return vreinterpretq_s64_u8(Neon::load16(p)); }
};

template <int planes>
struct I8mm {
  template <class Block>
  using Many = NeonMatrix<planes>;
  template <class Block>
  using One = typename Dotprod<planes>::template One<Block>;
};

}  // namespace

const MatmulKernels kMatmulKernelsNeonI8mm =
    matmul_table<I8mm<2>, Neon>(quantize_activation_row<2, largest_bits, quantize_half<2>>);
const MatmulKernels kMatmulBytesNeonI8mm =
    matmul_table<I8mm<1>, Neon>(quantize_activation_row<1, largest_bits, quantize_half<1>>);

}  // namespace hearth
