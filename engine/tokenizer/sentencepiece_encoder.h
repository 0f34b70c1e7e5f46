// SentencePiece's BPE: converts characters to tokens by repeatedly merging the two neighbors whose joint
// token has the highest score (Kudo and Richardson 2018, arXiv:1808.06226). Spaces are written as U+2581;
// other characters without a token are encoded byte by byte.
//
// Built at load; const and thread-safe afterward. The vocabulary must outlive it.
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

  /// at_start: if the model has a space prefix, put it before text. Each run of bytes without a token becomes
  /// one unknown token. If the model has no unknown token, the run is dropped.
  void encode(std::string_view text, bool at_start, std::vector<int32_t>& out) const override;

 private:
  struct Work;

  int32_t find(std::string_view piece) const;  // -1 if it is not a token
  void encode_segment(std::string_view segment, Work& work, std::vector<int32_t>& out) const;
  void consider(std::string_view segment, size_t left, Work& work) const;
  void emit(std::string_view piece, Work& work, std::vector<int32_t>& out) const;
  void emit_bytes(std::string_view bytes, Work& work, std::vector<int32_t>& out) const;

  const Vocabulary& vocabulary_;
  std::unordered_map<std::string_view, int32_t> tokens_;  // by text; only plain tokens (is_plain())
  std::array<int32_t, 256> byte_tokens_;                  // -1 if the vocabulary has none
  size_t longest_token_ = 0;                              // in bytes
  bool spaces_only_lead_ = true;                          // no token has U+2581 after another character
};

}  // namespace hearth
