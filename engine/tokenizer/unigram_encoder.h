// SentencePiece's unigram model (Kudo 2018, arXiv:1804.10959), the tokenizer of T5 and XLM-RoBERTa: of all ways to cut
// the text into tokens, the one whose scores, logarithms of probabilities, have the highest sum.
//
// Built at load; const and thread-safe afterwards. The vocabulary must outlive it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/character_map.h"
#include "engine/tokenizer/text_encoder.h"
#include "engine/tokenizer/vocabulary.h"

namespace hearth {

class UnigramEncoder final : public TextEncoder {
 public:
  /// Throws ModelFileError if the vocabulary's character map is damaged.
  explicit UnigramEncoder(const Vocabulary& vocabulary);

  /// at_start: the model's space prefix goes before text, if it has one. What no token covers becomes byte tokens if the
  /// model has all 256, else one unknown token for each run of it, or nothing if there is none.
  void encode(std::string_view text, bool at_start, std::vector<int32_t>& out) const override;

 private:
  struct Word {
    std::string_view text;
    int32_t token;
  };
  /// The best way to cut the text up to some place. Scores are added in double precision, as Hugging Face's tokenizers
  /// do: sentencepiece adds floats, and then rounding chooses among cuts that are equally good.
  struct Best {
    double score = 0;
    size_t from = 0;     // where its last token begins
    int32_t token = -1;  // its last token; -1: a character that is none
    bool reached = false;
  };

  std::string normalised(std::string_view text, bool with_prefix) const;
  void extend(std::string_view text, size_t at, std::vector<Best>& best) const;
  void emit_unknown(std::string_view bytes, bool after_unknown, std::vector<int32_t>& out) const;

  const Vocabulary& vocabulary_;
  CharacterMap map_;
  std::vector<Word> words_;  // what text may produce, by bytes; those with one beginning are neighbours
  std::array<uint32_t, 257> first_word_{};  // [byte] the first of words_ that begins with it
  std::array<int32_t, 256> byte_tokens_;    // -1 where the vocabulary has none
  bool has_all_bytes_ = true;
  float unknown_score_ = 0;
};

}  // namespace hearth
