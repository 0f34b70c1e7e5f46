// SentencePiece's unigram model (Kudo 2018, arXiv:1804.10959), the tokenizer of T5 and XLM-RoBERTa: cuts the
// text into the tokens with the highest sum of scores, which are log-probabilities.
//
// Built at load; const and thread-safe afterward. The vocabulary must outlive it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/character_map.h"
#include "engine/tokenizer/text_encoder.h"
#include "engine/tokenizer/vocabulary.h"

namespace hearth {

class UnigramEncoder final : public TextEncoder {
 public:
  /// Throws ModelFileError if the vocabulary's character map is damaged.
  explicit UnigramEncoder(const Vocabulary& vocabulary);

  /// at_start: if the model has a space prefix, put it before text. Text that no token covers becomes byte
  /// tokens if the model has all 256 of them. Otherwise each run of such text becomes one unknown token, or
  /// is dropped if the model has no unknown token.
  void encode(std::string_view text, bool at_start, std::vector<int32_t>& out) const override;

 private:
  struct Word {
    std::string_view text;
    int32_t token;
  };
  /// The best cut of the text up to a position. Scores are added in double precision, as in Hugging Face's
  /// tokenizers. The sentencepiece library adds floats, so its rounding errors may decide between equally
  /// good cuts.
  struct Best {
    double score = 0;
    size_t from = 0;     // start of the last token of the cut
    int32_t token = -1;  // the last token of the cut; -1: a character without a token
    bool reached = false;
  };

  std::string normalized(std::string_view text, bool with_prefix) const;
  void extend(std::string_view text, size_t at, std::vector<Best>& best) const;
  void emit_unknown(std::string_view bytes, bool after_unknown, std::vector<int32_t>& out) const;

  const Vocabulary& vocabulary_;
  CharacterMap map_;
  std::vector<Word> words_;                 // the tokens that encode() searches, sorted by their bytes
  std::array<uint32_t, 257> first_word_{};  // [byte] index in words_ of the first word with this first byte
  std::array<int32_t, 256> byte_tokens_;    // -1 if the vocabulary has none
  bool has_all_bytes_ = true;
  float unknown_score_ = 0;
};

}  // namespace hearth
