// Compares float vectors bit by bit: NaNs with the same bits are equal, 0 and -0 are not.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

namespace hearth {

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  const auto bits = [](float x) { return std::bit_cast<uint32_t>(x); };
  return std::ranges::equal(a, b, {}, bits, bits);
}

}  // namespace hearth
