// BPE over characters: merges, spaces, line breaks and bytes. test_tokenizer_oracle.py compares it with
// PyPI's tokenizers.
#include "tests/engine/tokenizer/tokenizer_vocabularies.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

const std::string kMerges[] = {"a b", kSpace + " ab", "\xC3\xA9 x", "a a"};

VocabularyTokenizer gemma(const Vocabulary& vocabulary) {
  const std::vector<std::string_view> merges(std::begin(kMerges), std::end(kMerges));
  return {vocabulary, merges};
}

/// The rows of sentencepiece_rows: <unk> 0, bytes from 3, then these from 259.
Vocabulary vocabulary_of(bool with_bytes) {
  const std::vector<TokenRow> rows = {{kSpace},        {"a"},  {"b"},      {"ab"},
                                      {kSpace + "ab"}, {"\n"}, {"\n\n\n"}, {"<t>", TokenType::kControl}};
  std::vector<TokenRow> all = {{"<unk>", TokenType::kUnknown}};
  all.insert(all.end(), rows.begin(), rows.end());
  Vocabulary vocabulary =
      make_vocabulary(TokenizerKind::kCharacterBpe, with_bytes ? sentencepiece_rows(rows) : all);
  vocabulary.unk = 0;
  return vocabulary;
}

}  // namespace

TEST_CASE("BPE over characters merges across words, the first merge first") {
  const VocabularyTokenizer tokenizer = gemma(vocabulary_of(true));
  CHECK(tokenizer.encode("ab ab", false, false) == Ids{262, 263});
  CHECK(tokenizer.encode("a b", false, false) == Ids{260, 259, 261});
  CHECK(tokenizer.encode("", false, false) == Ids{});
  CHECK(tokenizer.encode("<t>ab", false, true) == Ids{266, 262});
  CHECK(tokenizer.decode({263, 259, 261}, false) == " ab b");  // no prefix, so no space is removed
}

TEST_CASE("A run of line breaks is one token where the vocabulary has it") {
  const VocabularyTokenizer tokenizer = gemma(vocabulary_of(true));
  CHECK(tokenizer.encode("\n\n\nab\n", false, false) == Ids{265, 262, 264});
  CHECK(tokenizer.encode("\n\n", false, false) == Ids{264, 264});
}

TEST_CASE("Pieces that are not tokens are encoded byte by byte, or as unknown if bytes are missing") {
  const VocabularyTokenizer bytes = gemma(vocabulary_of(true));
  const std::string text =
      "a\xC3\xA9xy\xFF"
      "aa";
  CHECK(bytes.encode(text, false, false) == Ids{260, 3 + 0xC3, 3 + 0xA9, 3 + 'x', 3 + 'y', 3 + 0xFF, 3 + 'a',
                                                3 + 'a'});  // "aa" is a merge but no token
  const VocabularyTokenizer none = gemma(vocabulary_of(false));
  CHECK(none.encode("b\xC3\xA9xyb\xFF", false, false) == Ids{3, 0, 3, 0});
}

TEST_CASE("A malformed merge of BPE over characters is refused") {
  const std::vector<std::string_view> merges = {"ab"};
  CHECK_THROWS_WITH(VocabularyTokenizer(vocabulary_of(true), merges),
                    ContainsSubstring("tokenizer.ggml.merges[0]"));
}

}  // namespace hearth::test
