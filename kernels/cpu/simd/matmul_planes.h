// Dot products for ISAs with an instruction that multiplies unsigned bytes by signed bytes and adds up four
// products in a dword: AVX-512 VNNI and AVX-VNNI, AArch64's dot products.
//
// Quants of 15 bits are two planes of signed bytes, q = 256 * high + low. Each plane takes one such
// instruction. Quants of 8 bits are one plane. The sums are exact (bounds: activation_row.h), so any order
// gives the same result.
//
// V is the ISA's vector class. It has dot_bytes(sum, weights, quants), token_tile(planes, group), and
// kHoldsBothPlanes, which is true if a tile's sums of both planes fit the registers.
#pragma once

#include "kernels/cpu/simd/matmul_panel.h"

namespace hearth {

template <class V, int planes>
struct BytePlanes : V {
  using Int = typename V::Int;
  static constexpr int kQuantBytes = planes;
  static constexpr bool kSubtractsOffset = false;  // the instructions take unsigned weights
  template <int largest, int group>
  static constexpr int kTokenTile = V::token_tile(planes, group);
  template <int largest>
  static constexpr int kVectorsPerFour = 1;  // panels of bytes are multiplied without conversion
  static constexpr int class_of(int) { return 255; }

  /// Combines the sums of the high and low planes.
  [[gnu::always_inline]] static Int of_planes(Int high, Int low) {
    return V::add_int(V::template shift_left<8>(high), low);
  }

  /// Multiplies kColumns weights by a token's quants, from column `column` of a span on. Returns the sums of
  /// the products.
  template <int kColumns, int largest>
  [[gnu::always_inline]] static Int dot_one(const Int* weights, const std::byte* span, int column) {
    Int sum[2] = {V::zero(), V::zero()};
#pragma GCC unroll 8
    for (int k = 0; k < kColumns / 4; ++k) {
#pragma GCC unroll 2
      for (int p = 0; p < planes; ++p) {
        sum[p] = V::dot_bytes(sum[p], weights[k], four(span, p, column, k));
      }
    }
    if constexpr (planes == 1) return sum[0];
    return of_planes(sum[0], sum[1]);
  }

  /// Multiplies n vectors by 16 * n quants of a token, from column `column` of a span on. Each vector has 16
  /// columns of each of its rows, in memory order. Returns four partial sums per row.
  template <int n, int largest>
  [[gnu::always_inline]] static Int dot_rows(const Int* weights, const std::byte* span, int column) {
    Int sum = V::zero();
#pragma GCC unroll 2
    for (int p = 0; p < planes; ++p) {
      if (p == 1) sum = V::template shift_left<8>(sum);
#pragma GCC unroll 2
      for (int i = 0; i < n; ++i) {
        sum = V::dot_bytes(sum, weights[i], V::same_16(span + p * kActivationSpan + column + 16 * i));
      }
    }
    return sum;
  }

  /// Multiplies the low nibbles of n vectors (four columns each) by 4 * n quants of a token, from column
  /// `column` of a span on.
  template <int n>
  [[gnu::always_inline]] static Int dot_low_nibbles(const Int* raw, const std::byte* span, int column) {
    return dot_masked<n>(raw, V::bytes(0x0f), span, column);
  }
  /// Returns 16 times the products of the high nibbles, because the nibbles are not shifted down.
  template <int n>
  [[gnu::always_inline]] static Int dot_high_nibbles_16(const Int* raw, const std::byte* span, int column) {
    return dot_masked<n>(raw, V::bytes(0xf0), span, column);
  }

  /// Adds to sum[p][t], for each panel p and token t, the products of the panel's rows with the token's
  /// quants. The quants of the n tokens are `stride` bytes apart.
  template <int n, int kColumns, int largest>
  [[gnu::always_inline]] static void dot_pair(const Int* first, const Int* second, const std::byte* span,
                                              int column, size_t stride, Int (&sum)[2][n]) {
    if constexpr (planes == 1) {
      add_plane<n, kColumns>(first, second, span + column, stride, sum);
    } else {
      Int high[2][n];
      for (int t = 0; t < n; ++t) high[0][t] = high[1][t] = V::zero();
      if constexpr (V::kHoldsBothPlanes) {
        add_planes<n, kColumns>(first, second, span + column, stride, high, sum);
      } else {
        add_plane<n, kColumns>(first, second, span + column, stride, high);
      }
      for (int t = 0; t < n; ++t) {
        for (int p = 0; p < 2; ++p) sum[p][t] = of_planes(high[p][t], sum[p][t]);
      }
      if constexpr (!V::kHoldsBothPlanes) {
        add_plane<n, kColumns>(first, second, span + kActivationSpan + column, stride, sum);
      }
    }
  }

 private:
  /// Broadcasts the quants of plane p for the four columns from column + 4k on.
  [[gnu::always_inline]] static Int four(const std::byte* span, int p, int column, int k) {
    return V::broadcast_dword(span + p * kActivationSpan + column + k * 4);
  }

  template <int n>
  [[gnu::always_inline]] static Int dot_masked(const Int* raw, Int mask, const std::byte* span, int column) {
    Int sum[2] = {V::zero(), V::zero()};
#pragma GCC unroll 8
    for (int k = 0; k < n; ++k) {
      const Int weights = V::bit_and(raw[k], mask);
#pragma GCC unroll 2
      for (int p = 0; p < planes; ++p) sum[p] = V::dot_bytes(sum[p], weights, four(span, p, column, k));
    }
    if constexpr (planes == 1) return sum[0];
    return of_planes(sum[0], sum[1]);
  }

  template <int n, int kColumns>
  [[gnu::always_inline]] static void add_plane(const Int* first, const Int* second, const std::byte* plane,
                                               size_t stride, Int (&sum)[2][n]) {
#pragma GCC unroll 8
    for (int k = 0; k < kColumns / 4; ++k) {
      const Int a = first[k], b = second[k];
      for (int t = 0; t < n; ++t) {
        const Int x = V::broadcast_dword(plane + t * stride + k * 4);
        sum[0][t] = V::dot_bytes(sum[0][t], a, x);
        sum[1][t] = V::dot_bytes(sum[1][t], b, x);
      }
    }
  }

  /// Adds both planes at once. Uses two independent sums for each result, because with one sum the processor
  /// would wait for the previous product.
  template <int n, int kColumns>
  [[gnu::always_inline]] static void add_planes(const Int* first, const Int* second, const std::byte* plane,
                                                size_t stride, Int (&high)[2][n], Int (&low)[2][n]) {
#pragma GCC unroll 8
    for (int k = 0; k < kColumns / 4; ++k) {
      const Int a = first[k], b = second[k];
      for (int t = 0; t < n; ++t) {
        const std::byte* at = plane + t * stride + k * 4;
        const Int h = V::broadcast_dword(at), l = V::broadcast_dword(at + kActivationSpan);
        high[0][t] = V::dot_bytes(high[0][t], a, h);
        high[1][t] = V::dot_bytes(high[1][t], b, h);
        low[0][t] = V::dot_bytes(low[0][t], a, l);
        low[1][t] = V::dot_bytes(low[1][t], b, l);
      }
    }
  }
};

}  // namespace hearth
