// Byte-level BPE: converts words of text to token ids. In each word it merges neighboring symbols, the
// best-ranked pair first (Sennrich et al. 2016, arXiv:1508.07909; over bytes as in GPT-2).
//
// Built at load from the vocabulary and its merges; const and thread-safe afterward.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/text/pre_tokenizer.h"
#include "engine/tokenizer/bpe_merge.h"
#include "engine/tokenizer/text_encoder.h"
#include "engine/tokenizer/vocabulary.h"

namespace hearth {

class BpeEncoder final : public TextEncoder {
 public:
  /// merges: texts "LEFT RIGHT", the best-ranked one first. Throws ModelFileError if a merge is malformed.
  /// REQUIRES: PreTokenizer::knows(vocabulary.pre).
  BpeEncoder(const Vocabulary& vocabulary, std::span<const std::string_view> merges);

  /// Drops bytes that no token covers, as the models' own tokenizers do.
  void encode(std::string_view text, bool at_start, std::vector<int32_t>& out) const override;

 private:
  // The unit of merging. It is a token id, or a higher number for a string that is not a token. Such a string
  // is a byte that the vocabulary lacks or an intermediate result on the way to a longer token.
  using Symbol = int32_t;

  Symbol intern(const std::string& bytes);
  void add_merges(const std::string& file, std::span<const std::string_view> merges);
  void find_whole_words();
  void start_word(std::string_view word, std::vector<Symbol>& symbols) const;
  void encode_word(std::string_view word, std::vector<Symbol>& symbols, std::vector<int32_t>& out) const;
  void emit(Symbol symbol, std::vector<int32_t>& out) const;

  PreTokenizer pre_tokenizer_;
  bool ignore_merges_;
  int32_t n_vocab_;
  MergeTable merges_;
  std::array<Symbol, 256> byte_symbols_;
  std::unordered_map<std::string, Symbol, TextHash, std::equal_to<>> symbols_;  // by their bytes
  std::vector<std::string> extra_bytes_;  // bytes of symbol n_vocab_ + i
  // [n_vocab_] Whether a word with this token's bytes is always encoded as this one token. This is true for
  // most tokens. Such a word needs no merging.
  std::vector<bool> is_whole_word_;
  size_t longest_token_ = 0;  // in bytes
};

}  // namespace hearth
