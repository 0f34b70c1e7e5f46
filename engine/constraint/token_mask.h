// A set of tokens, with one bit per token of the vocabulary. A constraint's mask is the set of tokens that
// may come next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hearth {

struct TokenMask {
  /// The bit of a token is bit token % 64 of words[token / 64]. Bits after the last token are zero.
  std::vector<uint64_t> words;

  TokenMask() = default;
  explicit TokenMask(size_t n_vocab) : words((n_vocab + 63) / 64) {}

  bool allows(int32_t token) const {
    const auto bit = static_cast<size_t>(token);
    return token >= 0 && bit / 64 < words.size() && ((words[bit / 64] >> (bit % 64)) & 1) != 0;
  }
  void allow(int32_t token) {
    const auto bit = static_cast<size_t>(token);
    words[bit / 64] |= uint64_t{1} << (bit % 64);
  }
  bool none() const {
    return std::all_of(words.begin(), words.end(), [](uint64_t word) { return word == 0; });
  }
};

}  // namespace hearth
