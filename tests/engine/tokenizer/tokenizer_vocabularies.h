// Small vocabularies for the tokenizer's tests, built in memory, without a model file.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/vocabulary_tokenizer.h"

namespace hearth::test {

/// One token of a vocabulary under test.
struct TokenRow {
  std::string text;
  TokenType type = TokenType::kNormal;
  float score = 0;
};

/// A vocabulary of the rows in order, without roles.
Vocabulary make_vocabulary(TokenizerKind kind, const std::vector<TokenRow>& rows);

/// The 256 bytes as byte-level BPE writes them, then the given rows: the id of byte b is b.
std::vector<TokenRow> byte_level_rows(const std::vector<TokenRow>& rows);

/// <unk> 0, <s> 1, </s> 2, the 256 byte tokens at 3, then the given rows from 259.
std::vector<TokenRow> sentencepiece_rows(const std::vector<TokenRow>& rows);

using Ids = std::vector<int32_t>;

/// U+2581, which SentencePiece writes for a space.
inline const std::string kSpace = "\xE2\x96\x81";

/// The ids that a tokenizer with this vocabulary gives a text, without tokens around it.
Ids encode(const Vocabulary& vocabulary, std::string_view text, bool parse_special = false);

}  // namespace hearth::test
