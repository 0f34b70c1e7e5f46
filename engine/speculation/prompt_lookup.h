// Prompt lookup decoding (Saxena 2023): finds an earlier occurrence of a text's last tokens in the same text,
// and drafts the tokens that followed it. If an answer repeats parts of its prompt, such as edited code or
// quotations, nearly all of its tokens are drafted.
//
// Each decoding Sequence has its own PromptLookup (speculation.h). Engine thread. The constructor allocates
// all memory.
//
// The positions of each token pair are chained, newest first, as in the match search of DEFLATE (RFC 1951). A
// search compares a bounded number of these positions and takes the longest match, so a token costs about a
// microsecond.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hearth {

class PromptLookup {
 public:
  /// prediction: text that the client expects in the answer; find() searches it too. n_tokens: the maximum
  /// length of the sequence in tokens, prompt and answer together.
  PromptLookup(std::span<const int32_t> prediction, size_t n_tokens);

  /// Sets `draft` to at most n_draft tokens that may follow `tokens`. The draft is empty if the last two of
  /// `tokens` do not also occur earlier in the text. If the text ends in a repetition, the draft continues it
  /// as often as needed. Returns the length of the match: 2 to kLongestMatch tokens, or 0 if there is none.
  /// REQUIRES: `tokens` begins with the `tokens` of the last call and has at most as many tokens as the
  /// constructor's n_tokens.
  int find(std::span<const int32_t> tokens, size_t n_draft, std::vector<int32_t>& draft);

  /// Whether the draft begins in the prediction.
  bool in_prediction() const { return next_ > 0 && next_ < n_prediction_; }

  static constexpr int kLongestMatch = 32;

 private:
  size_t bucket(size_t last) const;
  void append(std::span<const int32_t> tokens);
  int match_length(size_t last) const;

  size_t n_prediction_;
  size_t next_ = 0;            // index into text_ of the draft's first token; 0 if there is no draft
  std::vector<int32_t> text_;  // the prediction, then the sequence's tokens
  /// For each hash of a token pair: the index of the second token of the newest pair with that hash; 0 if
  /// there is none. The size is a power of two.
  std::vector<uint32_t> newest_;
  std::vector<uint32_t> older_;  // [text_.size()] index of the previous pair with that hash; 0 if none
};

}  // namespace hearth
