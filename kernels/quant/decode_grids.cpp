// Decodes blocks of IQ1, IQ2 and IQ3, whose weights are grid points, to integers and scales. See decode.h;
// layouts are in formats.h.
//
// These types have no vector loops of their own, so this code takes most of the time of multiplying them. It
// decodes 8 weights at a time, as the bytes of a 64-bit word.
#include <array>
#include <bit>
#include <cstring>

#include "kernels/quant/decode.h"
#include "kernels/quant/grids.h"
#include "kernels/quant/half.h"

namespace hearth {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kEveryByte = 0x0101010101010101;

/// The points of a grid as words, with one weight in each byte.
template <class Word, size_t n, size_t n_values>
constexpr std::array<Word, n> unpacked(const uint16_t (&points)[n], const int8_t (&values)[n_values]) {
  constexpr size_t kWeights = sizeof(Word), kBits = 16 / kWeights;
  std::array<Word, n> words{};
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < kWeights; ++k) {
      const size_t index = (points[i] >> (kBits * k)) & ((1u << kBits) - 1);
      words[i] |= static_cast<Word>(static_cast<uint8_t>(values[index])) << (8 * k);
    }
  }
  return words;
}

constexpr auto kIq2Xxs = unpacked<uint64_t>(kIq2XxsPoints, kIq2XxsValues);
constexpr auto kIq2Xs = unpacked<uint64_t>(kIq2XsPoints, kIq2XsValues);
constexpr auto kIq2S = unpacked<uint64_t>(kIq2SPoints, kIq2SValues);
constexpr auto kIq3Xxs = unpacked<uint32_t>(kIq3XxsPoints, kIq3XxsValues);
constexpr auto kIq3S = unpacked<uint32_t>(kIq3SPoints, kIq3SValues);

/// The points of IQ1 in eighths, plus 144 in every byte, so that no addition or subtraction below carries
/// into the next byte.
constexpr std::array<uint64_t, std::size(kIq1SPoints)> iq1_points() {
  auto words = unpacked<uint64_t>(kIq1SPoints, {1, 2, 3});
  for (uint64_t& word : words) word = word * 8 + 128 * kEveryByte;
  return words;
}
static_assert(kIq1SValues[0] == -1 && kIq1SValues[1] == 0 && kIq1SValues[2] == 1);
constexpr auto kIq1 = iq1_points();

/// Byte k is 1 if bit k of the index is set.
constexpr std::array<uint64_t, 256> spread_bits() {
  std::array<uint64_t, 256> words{};
  for (size_t i = 0; i < 256; ++i) {
    for (size_t k = 0; k < 8; ++k) words[i] |= static_cast<uint64_t>(i >> k & 1) << (8 * k);
  }
  return words;
}
constexpr auto kSpreadBits = spread_bits();

/// Returns eight signs for each value of seven stored bits. The eighth sign makes the number of minus signs
/// even.
constexpr std::array<uint64_t, 128> spread_seven_bits() {
  std::array<uint64_t, 128> words{};
  for (unsigned i = 0; i < 128; ++i)
    words[i] = kSpreadBits[i | static_cast<unsigned>(std::popcount(i) % 2) << 7];
  return words;
}
constexpr auto kSpreadSevenBits = spread_seven_bits();

/// Writes 8 weights, negated where `minus` has a 1. `weights` has no 0, so adding 1 to a byte's complement
/// does not carry.
void put_signed(uint64_t weights, uint64_t minus, int8_t* q) {
  const uint64_t signed_weights = (weights ^ (minus * 255)) + minus;
  std::memcpy(q, &signed_weights, sizeof signed_weights);
}

/// Writes 8 weights of IQ1 in eighths: the grid point, minus 1 if `less`, otherwise plus 1.
void put_iq1(uint32_t index, bool less, int8_t* q) {
  const uint64_t weights = (kIq1[index] - (less ? 17 : 15) * kEveryByte) ^ (128 * kEveryByte);
  std::memcpy(q, &weights, sizeof weights);
}

uint64_t two_points(const std::array<uint32_t, 256>& grid, const uint8_t* indices) {
  return grid[indices[0]] | static_cast<uint64_t>(grid[indices[1]]) << 32;
}

uint32_t load_word(const uint8_t* p) {
  uint32_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

uint32_t nibble(const uint8_t* bytes, int k) { return (bytes[k / 2] >> (k % 2 * 4)) & 15u; }

template <class Block>
Block load(const std::byte* bytes) {
  Block block;
  std::memcpy(&block, bytes, sizeof block);
  return block;
}

template <class Block>
void clear_mins(Decoded<Block>& out) {
  for (float& min : out.min) min = 0.0f;
}

/// Returns d * (bits + 1/2), the scale of a group in IQ2 and IQ3_XXS. The product is exact.
float halfway_scale(float d, uint32_t bits) { return d * (0.5f + static_cast<float>(bits)); }

}  // namespace

template <>
void decode_block(const std::byte* bytes, Decoded<BlockIQ2_XXS>& out) {
  const auto block = load<BlockIQ2_XXS>(bytes);
  const float d = float_from_half(block.d) * 0.25f;
  for (int k = 0; k < 8; ++k) {
    const uint8_t* indices = block.qs + 8 * k;
    const uint32_t factors = load_word(indices + 4);
    for (int j = 0; j < 4; ++j) {
      put_signed(kIq2Xxs[indices[j]], kSpreadSevenBits[factors >> (7 * j) & 127], out.q + 32 * k + 8 * j);
    }
    out.scale[k] = halfway_scale(d, factors >> 28);
  }
  clear_mins(out);
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockIQ2_XS>& out) {
  const auto block = load<BlockIQ2_XS>(bytes);
  const float d = float_from_half(block.d) * 0.25f;
  for (int i = 0; i < 32; ++i) {
    put_signed(kIq2Xs[block.qs[i] & 511], kSpreadSevenBits[block.qs[i] >> 9], out.q + 8 * i);
  }
  for (int k = 0; k < 16; ++k) out.scale[k] = halfway_scale(d, nibble(block.scales, k));
  clear_mins(out);
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockIQ2_S>& out) {
  const auto block = load<BlockIQ2_S>(bytes);
  const float d = float_from_half(block.d) * 0.25f;
  for (int i = 0; i < 32; ++i) {
    const uint32_t high = (block.qh[i / 4] >> (i % 4 * 2)) & 3u;
    put_signed(kIq2S[block.qs[i] | high << 8], kSpreadBits[block.signs[i]], out.q + 8 * i);
  }
  for (int k = 0; k < 16; ++k) out.scale[k] = halfway_scale(d, nibble(block.scales, k));
  clear_mins(out);
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockIQ3_XXS>& out) {
  const auto block = load<BlockIQ3_XXS>(bytes);
  const float d = float_from_half(block.d) * 0.5f;
  for (int k = 0; k < 8; ++k) {
    const uint32_t factors = load_word(block.factors + 4 * k);
    for (int j = 0; j < 4; ++j) {
      put_signed(two_points(kIq3Xxs, block.qs + 8 * k + 2 * j), kSpreadSevenBits[factors >> (7 * j) & 127],
                 out.q + 32 * k + 8 * j);
    }
    out.scale[k] = halfway_scale(d, factors >> 28);
  }
  clear_mins(out);
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockIQ3_S>& out) {
  const auto block = load<BlockIQ3_S>(bytes);
  const float d = float_from_half(block.d);
  for (int i = 0; i < 32; ++i) {
    const uint32_t high = block.qh[i / 4] >> (i % 4 * 2);
    const uint32_t first = block.qs[2 * i] | (high & 1) << 8, second = block.qs[2 * i + 1] | (high & 2) << 7;
    put_signed(kIq3S[first] | static_cast<uint64_t>(kIq3S[second]) << 32, kSpreadBits[block.signs[i]],
               out.q + 8 * i);
  }
  for (int k = 0; k < 8; ++k) out.scale[k] = d * static_cast<float>(1 + 2 * nibble(block.scales, k));
  clear_mins(out);
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockIQ1_S>& out) {
  const auto block = load<BlockIQ1_S>(bytes);
  const float d = float_from_half(block.d) * 0.125f;
  for (int k = 0; k < 8; ++k) {
    const uint32_t bits = block.qh[k];
    for (int j = 0; j < 4; ++j) {
      put_iq1(block.qs[4 * k + j] | (bits >> (3 * j) & 7) << 8, (bits & 0x8000) != 0, out.q + 32 * k + 8 * j);
    }
    out.scale[k] = d * static_cast<float>(2 * (bits >> 12 & 7) + 1);
  }
  clear_mins(out);
}

template <>
void decode_block(const std::byte* bytes, Decoded<BlockIQ1_M>& out) {
  const auto block = load<BlockIQ1_M>(bytes);
  const float d = float_from_half(block.d()) * 0.125f;
  for (int i = 0; i < 32; ++i) {
    const uint32_t bits = nibble(block.qh, i);
    put_iq1(block.qs[i] | (bits & 7) << 8, (bits & 8) != 0, out.q + 8 * i);
  }
  for (int k = 0; k < 16; ++k) {
    out.scale[k] = d * static_cast<float>(2 * (block.scales[k / 4] >> (k % 4 * 3) & 7) + 1);
  }
  clear_mins(out);
}

}  // namespace hearth
