// Decodes 32 weights of the down projection at a time, for every tensor type that has its own vector loops.
//
// A Strip is 32 floats in registers; the class S of each ISA defines how many registers there are and how
// bytes become floats. The columns of a strip are in ascending order, except in strips made of nibbles. Each
// ISA has its own column order for them; S::load_nibbled and S::store_nibbled convert between this order and
// ascending order. Everything here is a template over S, for the reason given in matmul_panel.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/quant/formats.h"

namespace hearth {

/// Columns of a Strip: the smallest block of all quantized types.
inline constexpr int kStripColumns = 32;

inline constexpr int8_t kQ4Values[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
inline constexpr int8_t kQ3Values[16] = {-4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
inline constexpr int8_t kNibbleValues[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/// Loads floats in the column order of strips made of nibbles, or in plain order if `nibbles` is false.
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

/// A Format converts 32 columns (kBytes bytes) to floats. It rounds each operation in the same way as
/// dequantize_row. Products of a half and an 8-bit quant are exact. The bytes of a strip begin with its
/// kHalves factors, which are halves. The callers of weights() convert many factors at a time and pass them
/// as floats.
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
