// Thirty-two weights at a time, of every tensor type that has vector loops of its own for the down
// projection.
//
// A Strip is 32 floats in registers; the class S of each ISA's unit says how many there are and how bytes
// become floats. Columns are in order, but in strips made of nibbles, which are in the order that suits the
// ISA (S::load_nibbled and store_nibbled know it). Templates over S only, for the reason that matmul_panel.h
// gives.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/quant/formats.h"

namespace hearth {

/// Columns of a Strip: the smallest block of all quantised types.
inline constexpr int kStripColumns = 32;

inline constexpr int8_t kQ4Values[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
inline constexpr int8_t kQ3Values[16] = {-4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
inline constexpr int8_t kNibbleValues[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/// Floats in the order of a strip, of nibbles or not.
template <class S, bool nibbles>
[[gnu::always_inline]] inline typename S::Strip load_strip(const float* p) {
  if constexpr (nibbles) return S::load_nibbled(p);
  return S::load(p);
}
template <class S, bool nibbles>
[[gnu::always_inline]] inline void store_strip(const typename S::Strip& strip, float* p) {
  if constexpr (nibbles) return S::store_nibbled(strip, p);
  S::store(strip, p);
}

/// A type's kBytes bytes of 32 columns to floats, each operation rounded as in dequantize_row. Products of a
/// half and a quant of 8 bits are exact. A strip begins with its kHalves factors, halves, which are converted
/// many at a time and come as floats.
struct StripQ4_0 {
  static constexpr size_t kBytes = sizeof(BlockQ4_0);
  static constexpr bool kNibbles = true;
  static constexpr int kHalves = 1;
  template <class S>
  [[gnu::always_inline]] static typename S::Strip weights(const std::byte* p, const float* f) {
    return S::nibbles(p + 2, S::scaled(S::template values<kQ4Values>(), f[0]));
  }
};

struct StripIQ4_NL {
  static constexpr size_t kBytes = sizeof(BlockIQ4_NL);
  static constexpr bool kNibbles = true;
  static constexpr int kHalves = 1;
  template <class S>
  [[gnu::always_inline]] static typename S::Strip weights(const std::byte* p, const float* f) {
    return S::nibbles(p + 2, S::scaled(S::template values<kIq4Values>(), f[0]));
  }
};

struct StripQ4_1 {
  static constexpr size_t kBytes = sizeof(BlockQ4_1);
  static constexpr bool kNibbles = true;
  static constexpr int kHalves = 2;
  template <class S>
  [[gnu::always_inline]] static typename S::Strip weights(const std::byte* p, const float* f) {
    return S::nibbles(p + 4, S::raised(S::scaled(S::template values<kNibbleValues>(), f[0]), f[1]));
  }
};

struct StripQ8_0 {
  static constexpr size_t kBytes = sizeof(BlockQ8_0);
  static constexpr bool kNibbles = false;
  static constexpr int kHalves = 1;
  template <class S>
  [[gnu::always_inline]] static typename S::Strip weights(const std::byte* p, const float* f) {
    return S::times(S::bytes(p + 2), f[0]);
  }
};

struct StripF32 {
  static constexpr size_t kBytes = 4 * kStripColumns;
  static constexpr bool kNibbles = false;
  static constexpr int kHalves = 0;
  template <class S>
  [[gnu::always_inline]] static typename S::Strip weights(const std::byte* p, const float*) {
    return S::floats(p);
  }
};

struct StripF16 {
  static constexpr size_t kBytes = 2 * kStripColumns;
  static constexpr bool kNibbles = false;
  static constexpr int kHalves = 0;
  template <class S>
  [[gnu::always_inline]] static typename S::Strip weights(const std::byte* p, const float*) {
    return S::halves(p);
  }
};

struct StripBF16 {
  static constexpr size_t kBytes = 2 * kStripColumns;
  static constexpr bool kNibbles = false;
  static constexpr int kHalves = 0;
  template <class S>
  [[gnu::always_inline]] static typename S::Strip weights(const std::byte* p, const float*) {
    return S::bfloats(p);
  }
};

}  // namespace hearth
