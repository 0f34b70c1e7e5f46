// SentencePiece's BPE: characters to tokens by merging the neighbours whose token has the highest score (Kudo
// and Richardson 2018, arXiv:1808.06226). Spaces are written as U+2581; the rest goes byte by byte.
//
// Built at load; const and thread-safe afterwards. The vocabulary must outlive it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/tokenizer/text_encoder.h"
#include "engine/tokenizer/vocabulary.h"

namespace hearth {

class SentencePieceEncoder final : public TextEncoder {
 public:
  explicit SentencePieceEncoder(const Vocabulary& vocabulary);

  /// at_start: the model's space prefix goes before text, if it has one. Bytes without a token become the
  /// unknown token, one for each run of them, or nothing if the model has none.
  void encode(std::string_view text, bool at_start, std::vector<int32_t>& out) const override;

 private:
  struct Work;

  int32_t find(std::string_view piece) const;  // -1 if it is no token
  void encode_segment(std::string_view segment, Work& work, std::vector<int32_t>& out) const;
  void consider(std::string_view segment, size_t left, Work& work) const;
  void emit(std::string_view piece, Work& work, std::vector<int32_t>& out) const;
  void emit_bytes(std::string_view bytes, Work& work, std::vector<int32_t>& out) const;

  const Vocabulary& vocabulary_;
  std::unordered_map<std::string_view, int32_t> tokens_;  // by text; those that text may produce
  std::array<int32_t, 256> byte_tokens_;                  // -1 where the vocabulary has none
  size_t longest_token_ = 0;                              // in bytes
  bool spaces_only_lead_ = true;  // does no token have U+2581 after another character?
};

}  // namespace hearth
