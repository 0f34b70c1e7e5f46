// BPE over characters, as Gemma 4 has it: the merges of byte-level BPE, but on the text itself. Spaces are written as
// U+2581, nothing cuts the text into words but line breaks, and characters that no token covers go byte by byte.
//
// Built at load from the vocabulary and its merges; const and thread-safe afterwards. The vocabulary must outlive it.
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
  /// merges: "LEFT RIGHT" each, best first. Throws ModelFileError if one is malformed.
  CharacterBpeEncoder(const Vocabulary& vocabulary, std::span<const std::string_view> merges);

  /// Bytes without a token become the unknown token, one for each run of them, or nothing if the model has none.
  void encode(std::string_view text, bool at_start, std::vector<int32_t>& out) const override;

 private:
  // A token, by its id; past those, piece i of pieces_ that is none; past those, a character in neither, by its place.
  using Symbol = int32_t;

  Symbol intern(const std::string& piece);
  Symbol first_character() const { return vocabulary_.size() + static_cast<Symbol>(pieces_.size()); }
  void encode_line(std::string_view line, bool& after_unknown, std::vector<int32_t>& out) const;
  void emit_bytes(std::string_view bytes, bool& after_unknown, std::vector<int32_t>& out) const;

  const Vocabulary& vocabulary_;
  std::unordered_map<std::string, Symbol, TextHash, std::equal_to<>> symbols_;
  std::vector<std::string> pieces_;
  std::array<int32_t, 256> byte_tokens_;  // -1 where the vocabulary has none
  MergeTable merges_;
};

}  // namespace hearth
