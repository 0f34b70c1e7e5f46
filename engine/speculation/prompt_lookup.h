// Prompt lookup decoding (Saxena 2023): finds an earlier occurrence of a text's last tokens in the text
// itself; the tokens that followed it are the draft. Answers that repeat their prompt, such as edited code or
// quotations, are drafted nearly whole.
//
// Each decoding Sequence has one (speculation.h). Engine thread. The constructor allocates all memory.
//
// Positions of each token pair are chained, newest first, as in the search of DEFLATE (RFC 1951). A search
// looks at a bounded number of them and takes the longest match, so a token costs about a microsecond.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hearth {

class PromptLookup {
 public:
  /// prediction: text that the client expects in the answer; it is searched too. n_tokens: most tokens of the
  /// sequence, prompt and answer together.
  PromptLookup(std::span<const int32_t> prediction, size_t n_tokens);

  /// Sets `draft` to at most n_draft tokens that may follow `tokens`; none if their last two occurred nowhere
  /// before. A repetition at the end of the text is continued as often as needed. Returns the length of the
  /// match: from 2 to kLongestMatch, 0 if none.
  /// REQUIRES: `tokens` begin with those of the last call; at most n_tokens.
  int find(std::span<const int32_t> tokens, size_t n_draft, std::vector<int32_t>& draft);

  /// Whether the draft begins in the prediction.
  bool in_prediction() const { return next_ > 0 && next_ < n_prediction_; }

  static constexpr int kLongestMatch = 32;

 private:
  size_t bucket(size_t last) const;
  void append(std::span<const int32_t> tokens);
  int match_length(size_t last) const;

  size_t n_prediction_;
  size_t next_ = 0;            // index into text_ of the draft's first token; 0: none found
  std::vector<int32_t> text_;  // the prediction, then the sequence's tokens
  /// [a power of two] by hash: index of the second token of the newest such pair; 0: none
  std::vector<uint32_t> newest_;
  std::vector<uint32_t> older_;  // [text_.size()] the previous pair with the same hash; 0: none
};

}  // namespace hearth
