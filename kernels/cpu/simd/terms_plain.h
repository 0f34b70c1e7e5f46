// The class T of down_terms.h in plain C++, for ISAs without suitable instructions.
#pragma once

#include "kernels/cpu/simd/down_terms.h"

namespace hearth {
namespace {

struct PlainTerms {
  struct Codes {
    int8_t q[kStripColumns];
  };
  struct Sums {
    int32_t high[kStripColumns], low[kStripColumns];
  };
  template <class Block>
  static constexpr bool kDirect = false;
  static constexpr int column(int i) { return i; }

  template <class Block>
  static Codes codes(const std::byte* block) {
    Decoded<Block> decoded;
    decode_block<Block>(block, decoded);
    return load(decoded.q);
  }
  static Codes load(const int8_t* p) {
    Codes codes;
    __builtin_memcpy(codes.q, p, sizeof codes.q);
    return codes;
  }
  static Sums zero() { return {}; }
  static Sums load_sums(const int32_t* high, const int32_t* low) {
    Sums sums;
    __builtin_memcpy(sums.high, high, sizeof sums.high);
    __builtin_memcpy(sums.low, low, sizeof sums.low);
    return sums;
  }
  static void store_sums(const Sums& sums, int32_t* high, int32_t* low) {
    __builtin_memcpy(high, sums.high, sizeof sums.high);
    __builtin_memcpy(low, sums.low, sizeof sums.low);
  }
  template <int kUnits>
  static void add(Sums& sums, const Codes& a, const Codes& b, const int32_t* high, const int32_t* low) {
    for (int i = 0; i < kStripColumns; ++i) {
      const int unit = i * kUnits / kStripColumns;
      sums.high[i] += product(high[unit], a.q[i], b.q[i]);
      sums.low[i] += product(low[unit], a.q[i], b.q[i]);
    }
  }
  static void add_pairs(Sums& sums, const int16_t* codes, TermPair high, TermPair low) {
    for (int i = 0; i < kStripColumns; ++i) {
      const bool first = i < kTermColumns;
      sums.high[i] += product(first ? high.first : high.second, codes[2 * i], codes[2 * i + 1]);
      sums.low[i] += product(first ? low.first : low.second, codes[2 * i], codes[2 * i + 1]);
    }
  }
  static uint32_t eight_terms(float value, const float* factors, int32_t* out) {
    uint32_t outside = 0;
    for (int i = 0; i < 8; ++i) outside |= uint32_t{!term(value * factors[i], out[i])} << i;
    return outside;
  }
  static uint32_t eight_terms_of(const float* values, const float* factors, int32_t* out) {
    uint32_t outside = 0;
    for (int i = 0; i < 8; ++i) outside |= uint32_t{!term(values[i] * factors[i], out[i])} << i;
    return outside;
  }
  static void pack(const int32_t* a, const int32_t* b, int n, int32_t* high, int32_t* low) {
    for (int i = 0; i < n; ++i) pack_one(a[i], b[i], high[i], low[i]);
  }
  static void pack_pairs(const int32_t* terms, int32_t* high, int32_t* low) {
    for (int i = 0; i < kPanelNeurons / 2; ++i) pack_one(terms[2 * i], terms[2 * i + 1], high[i], low[i]);
  }

 private:
  static bool term(float product, int32_t& out) {
    const bool fits = std::fabs(product) < Terms::kLimit;
    out = fits ? static_cast<int32_t>(__builtin_rintf(product)) : 0;
    return fits;
  }
  static int32_t halves(int32_t a, int32_t b) {
    return static_cast<int32_t>((static_cast<uint32_t>(a) & 0xffff) | static_cast<uint32_t>(b) << 16);
  }
  static void pack_one(int32_t a, int32_t b, int32_t& high, int32_t& low) {
    high = halves(a >> Terms::kLowBits, b >> Terms::kLowBits);
    low = halves(a & Terms::kLowMask, b & Terms::kLowMask);
  }
  static int32_t product(int32_t pair, int32_t a, int32_t b) {
    return static_cast<int16_t>(pair & 0xffff) * a + (pair >> 16) * b;
  }
};

}  // namespace
}  // namespace hearth
