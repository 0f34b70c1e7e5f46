// The Tokenizer built from a model file: finds special tokens first, then encodes the text between them.
//
// Programs build it with Tokenizer::from_model, tests directly from a Vocabulary. Const and thread-safe once
// built.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/text/special_tokens.h"
#include "engine/tokenizer/text_encoder.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"

namespace hearth {

class VocabularyTokenizer final : public Tokenizer {
 public:
  /// merges: the merges of a BPE vocabulary; empty for kinds of tokenizers without merges. Throws
  /// ModelFileError if the merges or the vocabulary's character map are damaged.
  VocabularyTokenizer(Vocabulary vocabulary, std::span<const std::string_view> merges);
  VocabularyTokenizer(const VocabularyTokenizer&) = delete;  // because encoder_ refers to vocabulary_
  VocabularyTokenizer& operator=(const VocabularyTokenizer&) = delete;

  std::vector<int32_t> encode(std::string_view text, bool add_special, bool parse_special) const override;
  void append_bytes(int32_t token, bool with_special, std::string& out) const override;
  int n_vocab() const override { return vocabulary_.size(); }
  int32_t bos() const override { return vocabulary_.bos; }
  int32_t eos() const override { return vocabulary_.eos; }
  const std::vector<int32_t>& end_tokens() const override { return vocabulary_.end_tokens; }
  const std::vector<int32_t>& suppressed_tokens() const override { return vocabulary_.suppressed_tokens; }
  bool is_control(int32_t token) const override;
  std::string_view spelling(int32_t token) const override { return vocabulary_.texts[token]; }
  const FimTokens& fim() const override { return vocabulary_.fim; }
  bool strips_leading_space() const override {
    return vocabulary_.add_space_prefix || vocabulary_.kind == TokenizerKind::kWordPiece;
  }

 private:
  const Vocabulary vocabulary_;
  std::vector<std::string> decoded_;  // [n_vocab]
  SpecialTokens user_defined_;        // always recognized
  /// User-defined, control and unknown tokens. All of these are recognized if parse_special is true.
  SpecialTokens all_special_;
  std::unique_ptr<const TextEncoder> encoder_;
};

}  // namespace hearth
