// Detokenizes tokens, searches for stop strings, and assigns tokens to text. Stop strings are few and short,
// so a plain search is fast enough.
#include "server/api/answer/token_text.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace hearth {
StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

std::string StopMatcher::push(std::string_view text) {
  assert(!stopped_);
  held_ += text;
  // Only the first occurrence of each stop string matters, because later occurrences end later. Among the
  // first occurrences, the one that ends first is used; if several end there, the longest is used.
  size_t best_end = std::string::npos;
  size_t best_start = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t start = held_.find(stop);
    if (start == std::string::npos) continue;
    const size_t end = start + stop.size();
    if (best_end == std::string::npos || end < best_end || (end == best_end && start < best_start)) {
      best_end = end;
      best_start = start;
      stop_string_ = stop;
    }
  }
  stopped_ = best_end != std::string::npos;
  const size_t released = stopped_ ? best_start : held_.size() - held_length();
  std::string out = held_.substr(0, released);
  held_.erase(0, stopped_ ? held_.size() : released);
  return out;
}

std::string StopMatcher::finish() { return std::exchange(held_, {}); }

/// Returns the length of the longest suffix of held_ that is a proper prefix of a stop string.
size_t StopMatcher::held_length() const {
  size_t longest = 0;
  const std::string_view text = held_;
  for (const std::string_view stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, text.size()); n > longest; --n) {
      if (text.substr(text.size() - n) == stop.substr(0, n)) longest = n;
    }
  }
  return longest;
}

int64_t count_characters(std::string_view utf8) {
  return std::count_if(utf8.begin(), utf8.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

TextStream::TextStream(const Tokenizer& tokenizer, bool at_start, std::vector<std::string> stop,
                       bool keep_tokens, std::vector<int32_t> shown)
    : tokenizer_(&tokenizer),
      detokenizer_(tokenizer, at_start, false, std::move(shown)),
      matcher_(std::move(stop)),
      keep_tokens_(keep_tokens) {}

TextPiece TextStream::push(TokenEvent event) {
  ++n_tokens_;
  sum_logprob_ += event.logprob;
  // A model with a padded embedding matrix can sample a token id outside the vocabulary. Such a token has no
  // text.
  const std::string text =
      event.token < tokenizer_->n_vocab() ? detokenizer_.push(event.token) : std::string();
  const int64_t offset = n_decoded_;
  n_decoded_ += count_characters(text);
  if (keep_tokens_) held_.push_back({{std::move(event), offset}, n_decoded_});
  std::string released = matcher_.push(text);
  return release(std::move(released), false);
}

TextPiece TextStream::finish() {
  if (stopped()) return {};
  const std::string rest = detokenizer_.finish();
  n_decoded_ += count_characters(rest);
  std::string released = matcher_.push(rest);
  released += matcher_.finish();
  return release(std::move(released), true);
}

TextPiece TextStream::release(std::string text, bool all) {
  TextPiece piece;
  n_released_ += count_characters(text);
  piece.text = std::move(text);
  while (!held_.empty()) {
    const HeldToken& front = held_.front();
    // A token without text of its own, for example a part of a character, is returned with the next
    // character.
    const bool whole = n_released_ >= std::max(front.end, front.token.offset + 1);
    const bool begun = front.token.offset < n_released_;
    if (!whole && !(stopped() ? begun : all)) break;
    piece.tokens.push_back(std::move(held_.front().token));
    held_.pop_front();
  }
  if (stopped()) held_.clear();
  return piece;
}

}  // namespace hearth
