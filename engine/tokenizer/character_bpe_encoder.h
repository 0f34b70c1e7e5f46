// BPE over characters, as in Gemma 4: like byte-level BPE, but it merges characters instead of bytes. Spaces
// are written as U+2581, only line breaks cut the text into words, and characters that no token covers are
// encoded byte by byte.
//
// Built at load from the vocabulary and its merges; const and thread-safe afterward. The vocabulary must
// outlive it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/tokenizer/bpe_merge.h"
#include "engine/tokenizer/text_encoder.h"
#include "engine/tokenizer/vocabulary.h"

namespace hearth {

class CharacterBpeEncoder final : public TextEncoder {
 public:
  /// merges: texts "LEFT RIGHT", the best-ranked one first. Throws ModelFileError if a merge is malformed.
  CharacterBpeEncoder(const Vocabulary& vocabulary, std::span<const std::string_view> merges);

  /// Each run of bytes without a token becomes one unknown token. If the model has no unknown token, the run
  /// is dropped.
  void encode(std::string_view text, bool at_start, std::vector<int32_t>& out) const override;

 private:
  // The unit of merging: a number that stands for a token, a piece or a character. The ranges of the three do
  // not overlap. Token ids come first. Then come pieces that are not tokens, as n_vocab plus an index in
  // pieces_. Last come characters that are neither, as first_character() plus a position in the line.
  using Symbol = int32_t;

  Symbol intern(const std::string& piece);
  Symbol first_character() const { return vocabulary_.size() + static_cast<Symbol>(pieces_.size()); }
  void encode_line(std::string_view line, bool& after_unknown, std::vector<int32_t>& out) const;
  void emit_bytes(std::string_view bytes, bool& after_unknown, std::vector<int32_t>& out) const;

  const Vocabulary& vocabulary_;
  std::unordered_map<std::string, Symbol, TextHash, std::equal_to<>> symbols_;
  std::vector<std::string> pieces_;
  std::array<int32_t, 256> byte_tokens_;  // -1 if the vocabulary has none
  MergeTable merges_;
};

}  // namespace hearth
