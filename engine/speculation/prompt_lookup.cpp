// See the header.
#include "engine/speculation/prompt_lookup.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace hearth {
namespace {

// The maximum number of earlier positions that a search compares. A higher limit finds longer matches in long
// texts with few distinct words, but costs more time.
constexpr int kMostPlaces = 32;

}  // namespace

PromptLookup::PromptLookup(std::span<const int32_t> prediction, size_t n_tokens)
    : n_prediction_(prediction.size()) {
  const size_t n = prediction.size() + n_tokens;
  text_.reserve(n);
  older_.reserve(n);
  newest_.resize(std::bit_ceil(std::max<size_t>(n, 1)));
  append(prediction);
}

int PromptLookup::find(std::span<const int32_t> tokens, size_t n_draft, std::vector<int32_t>& draft) {
  assert(n_prediction_ + tokens.size() >= text_.size());
  const size_t n_new = n_prediction_ + tokens.size() - text_.size();
  // The position at which the match of the last call ends now, if the new tokens continue that match; 0 if
  // that call found no match.
  const size_t follow = next_ == 0 ? 0 : next_ + n_new - 1;
  append(tokens.last(n_new));
  next_ = 0;
  draft.clear();
  if (text_.size() < 3) return 0;

  // 1. Find the longest match; the newest one if several are equally long.
  const size_t last = text_.size() - 1;
  int longest = 1;
  const auto look_at = [&](size_t place) {
    const int length = match_length(place);
    if (length <= longest) return;
    longest = length;
    next_ = place + 1;
  };
  uint32_t place = older_[last];
  for (int i = 0; i < kMostPlaces && place != 0 && longest < kLongestMatch; ++i, place = older_[place])
    look_at(place);
  if (follow > 0 && follow < last) look_at(follow);
  if (next_ == 0) return 0;

  // 2. Copy the tokens that followed the match. If the text ends first, the draft repeats its own beginning.
  const size_t n_known = text_.size() - next_;
  for (size_t i = 0; i < n_draft; ++i) draft.push_back(i < n_known ? text_[next_ + i] : draft[i - n_known]);
  return longest;
}

size_t PromptLookup::bucket(size_t last) const {
  const uint64_t pair =
      uint64_t{static_cast<uint32_t>(text_[last - 1])} << 32 | static_cast<uint32_t>(text_[last]);
  return (pair * 0x9E3779B97F4A7C15u >> 32) & (newest_.size() - 1);  // Knuth's multiplicative hash
}

void PromptLookup::append(std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) {
    text_.push_back(token);
    const size_t last = text_.size() - 1;
    older_.push_back(0);
    if (last == 0) continue;
    uint32_t& newest = newest_[bucket(last)];
    older_[last] = newest;
    newest = static_cast<uint32_t>(last);
  }
}

// Returns how many tokens before and at position `place` equal the last tokens of the text.
int PromptLookup::match_length(size_t place) const {
  const size_t most = std::min<size_t>(kLongestMatch, place + 1);
  size_t n = 0;
  while (n < most && text_[place - n] == text_[text_.size() - 1 - n]) ++n;
  return static_cast<int>(n);
}

}  // namespace hearth
