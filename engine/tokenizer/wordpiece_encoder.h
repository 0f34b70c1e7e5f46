// WordPiece, the tokenizer of BERT (Devlin et al. 2019, arXiv:1810.04805): the text is normalized and cut
// into words and single punctuation marks. A word is encoded as the longest token that it starts with,
// followed by the longest token that continues it, and so on.
//
// GGUF files put U+2581 before a token that begins a word, and omit the "##" before a token that continues
// one. Built at load; const and thread-safe afterward. The vocabulary must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/tokenizer/text_encoder.h"
#include "engine/tokenizer/vocabulary.h"

namespace hearth {

class WordPieceEncoder final : public TextEncoder {
 public:
  explicit WordPieceEncoder(const Vocabulary& vocabulary);

  /// A word becomes one unknown token if tokens do not cover it or if it has more than 100 characters. If the
  /// model has no unknown token, the word is dropped. Bytes that are not UTF-8 are dropped.
  void encode(std::string_view text, bool at_start, std::vector<int32_t>& out) const override;

 private:
  /// Tokens by their bytes in text.
  struct Pieces {
    std::unordered_map<std::string_view, int32_t> tokens;
    size_t longest = 0;  // in bytes
    void add(std::string_view piece, int32_t token);
  };
  struct Longest {
    int32_t token = -1;
    size_t length = 0;
  };
  /// Finds the longest piece that text starts with.
  static Longest longest_prefix(const Pieces& pieces, std::string_view text);

  std::u32string normalized(std::string_view text) const;
  void encode_word(std::u32string_view word, std::vector<int32_t>& out) const;

  const Vocabulary& vocabulary_;
  Pieces first_;       // tokens that begin a word, without U+2581
  Pieces continuing_;  // tokens that continue a word
};

}  // namespace hearth
