// Makes small vocabularies for tests.
#include "tests/engine/tokenizer/tokenizer_vocabularies.h"

#include <cstdio>

#include "engine/text/byte_alphabet.h"

namespace hearth::test {

Vocabulary make_vocabulary(TokenizerKind kind, const std::vector<TokenRow>& rows) {
  Vocabulary vocabulary;
  vocabulary.file = "test.gguf";
  vocabulary.kind = kind;
  if (kind == TokenizerKind::kByteLevelBpe) vocabulary.pre = "gpt-2";
  for (const TokenRow& row : rows) {
    vocabulary.texts.push_back(row.text);
    vocabulary.types.push_back(row.type);
    vocabulary.scores.push_back(row.score);
  }
  return vocabulary;
}

std::vector<TokenRow> byte_level_rows(const std::vector<TokenRow>& rows) {
  std::vector<TokenRow> all;
  for (int byte = 0; byte < 256; ++byte)
    all.push_back({spell_bytes(std::string(1, static_cast<char>(byte)))});
  all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

std::vector<TokenRow> sentencepiece_rows(const std::vector<TokenRow>& rows) {
  std::vector<TokenRow> all = {
      {"<unk>", TokenType::kUnknown}, {"<s>", TokenType::kControl}, {"</s>", TokenType::kControl}};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
    all.push_back({name, TokenType::kByte});
  }
  all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

Ids encode(const Vocabulary& vocabulary, std::string_view text, bool parse_special) {
  return VocabularyTokenizer(vocabulary, {}).encode(text, false, parse_special);
}

}  // namespace hearth::test
