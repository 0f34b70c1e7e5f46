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

/// Returns a vocabulary of these rows in order, without special roles.
Vocabulary make_vocabulary(TokenizerKind kind, const std::vector<TokenRow>& rows);

/// Returns the 256 bytes in byte-level BPE's spelling, then the given rows. The id of byte b is b.
std::vector<TokenRow> byte_level_rows(const std::vector<TokenRow>& rows);

/// Returns <unk> (id 0), <s> (1), </s> (2), the 256 byte tokens from id 3 on, then the given rows from 259
/// on.
std::vector<TokenRow> sentencepiece_rows(const std::vector<TokenRow>& rows);

using Ids = std::vector<int32_t>;

/// U+2581, which SentencePiece writes for a space.
inline const std::string kSpace = "\xE2\x96\x81";

/// Returns the ids of a text in this vocabulary, without tokens before and after it.
Ids encode(const Vocabulary& vocabulary, std::string_view text, bool parse_special = false);

}  // namespace hearth::test
