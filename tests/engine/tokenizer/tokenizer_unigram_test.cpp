// Unigram models: the best segmentation, spaces, unknown characters, and the character map of damaged and
// intact files. test_tokenizer_oracle.py compares them with sentencepiece and PyPI's tokenizers.
#include "engine/text/character_map.h"
#include "tests/engine/tokenizer/tokenizer_vocabularies.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

/// <unk> 0, then the rows.
Vocabulary unigram(const std::vector<TokenRow>& rows) {
  std::vector<TokenRow> all = {{"<unk>", TokenType::kUnknown}};
  all.insert(all.end(), rows.begin(), rows.end());
  Vocabulary vocabulary = make_vocabulary(TokenizerKind::kUnigram, all);
  vocabulary.unk = 0;
  return vocabulary;
}

std::vector<TokenRow> letters() {
  const TokenType normal = TokenType::kNormal;
  return {{"a", normal, -3},    {"b", normal, -3},           {"ab", normal, -4},      {"ba", normal, -7},
          {kSpace, normal, -2}, {kSpace + "ab", normal, -5}, {"\xC3\xA9", normal, -4}};
}

std::string number(uint32_t value) {
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(value >> shift & 0xFF));
  return bytes;
}

/// A map that rewrites "A" to "ab", and "AA" to the pool's text at place_of_aa: the double array, then the
/// pool "ab", "".
std::string map_bytes(uint32_t place_of_aa = 3) {
  constexpr uint32_t kValueBelow = 1U << 8;
  const auto offset = [](uint32_t x) { return x << 10; };
  std::vector<uint32_t> units(1024);
  units[0] = offset(256);
  units[256 ^ 'A'] = 'A' | kValueBelow | offset(512);
  const uint32_t second = 256 ^ 'A' ^ 512;
  units[second] = 1U << 31 | 0;
  units[second ^ 'A'] = 'A' | kValueBelow | offset(1);
  units[second ^ 'A' ^ 1] = 1U << 31 | place_of_aa;
  std::string bytes = number(static_cast<uint32_t>(4 * units.size()));
  for (const uint32_t unit : units) bytes += number(unit);
  return bytes + std::string("ab\0\0", 4);
}

}  // namespace

TEST_CASE("A unigram model takes the cut with the highest sum of scores") {
  CHECK(encode(unigram(letters()), "ab") == Ids{3});      // -4 against -6
  CHECK(encode(unigram(letters()), "ba") == Ids{2, 1});   // -6 against -7
  CHECK(encode(unigram(letters()), "aba") == Ids{3, 1});  // -7 against -10
  CHECK(encode(unigram(letters()), " ab") == Ids{6});
  CHECK(encode(unigram(letters()), "") == Ids{});
}

TEST_CASE("A run of characters that a unigram model lacks is one unknown token, or its bytes") {
  CHECK(encode(unigram(letters()), "axyb\xC3\xA9z") == Ids{1, 0, 2, 7, 0});
  CHECK(encode(unigram(letters()), "a\xFF") == Ids{1, 0});
  Vocabulary none = unigram(letters());
  none.unk = -1;
  CHECK(encode(none, "xa") == Ids{1});
  Vocabulary bytes =
      make_vocabulary(TokenizerKind::kUnigram, sentencepiece_rows({{"a", TokenType::kNormal, -1}}));
  CHECK(encode(bytes, "a\xC3\xA9") == Ids{259, 3 + 0xC3, 3 + 0xA9});
}

TEST_CASE("Unused tokens of a unigram model are never output, and the last of equal tokens is") {
  std::vector<TokenRow> rows = letters();
  rows.push_back({"abab", TokenType::kUnused, 0});
  rows.push_back({"b", TokenType::kNormal, -1});
  CHECK(encode(unigram(rows), "abab") == Ids{3, 3});
  CHECK(encode(unigram(rows), "b") == Ids{9});
}

TEST_CASE("Spaces of a unigram model's text are prefixed, merged and taken off as the file says") {
  Vocabulary vocabulary = unigram(letters());
  CHECK(encode(vocabulary, " a  b ") == Ids{5, 1, 5, 5, 2, 5});
  vocabulary.add_space_prefix = true;
  CHECK(encode(vocabulary, "a b") == Ids{5, 1, 5, 2});
  vocabulary.remove_extra_spaces = true;
  CHECK(encode(vocabulary, "  a   b  ") == Ids{5, 1, 5, 2});
  CHECK(encode(vocabulary, "   ") == Ids{});
  CHECK(VocabularyTokenizer(vocabulary, {}).decode({6, 5, 1}, false) == "ab a");
}

TEST_CASE("A character map rewrites the longest prefix that it has") {
  const CharacterMap map(map_bytes(), "m.gguf");
  CHECK(map.front("Ax").text == "ab");
  CHECK(map.front("Ax").consumed == 1);
  CHECK(map.front("AAA").text == "");
  CHECK(map.front("AAA").consumed == 2);
  CHECK(map.front("xA").text == "x");
  CHECK(map.front("\xC3\xA9").consumed == 2);
  CHECK(map.front("\xFF").text == "\xEF\xBF\xBD");
  CHECK(CharacterMap().front("A").text == "A");
  Vocabulary vocabulary = unigram(letters());
  vocabulary.character_map = map_bytes();
  CHECK(encode(vocabulary, "bAAAb") == Ids{2, 3, 2});
}

TEST_CASE("A damaged character map is refused, or read without leaving its bounds") {
  const auto refused = [](const std::string& bytes, const std::string& detail) {
    CHECK_THROWS_WITH(
        CharacterMap(bytes, "m.gguf"),
        ContainsSubstring("m.gguf: tokenizer.ggml.precompiled_charsmap") && ContainsSubstring(detail));
  };
  refused("ab", "2 bytes");
  refused(number(5) + "abcdefgh", "5 bytes");
  refused(number(4) + "abc", "up to 3");
  refused(map_bytes() + "x", "0 byte");
  CHECK(CharacterMap(map_bytes(4), "m.gguf").front("AA").text ==
        "ab");  // outside the pool: the shorter match counts
  std::string wild = map_bytes();
  for (size_t at = 4; at < 4 + 4096; ++at) {
    const char whole = wild[at];
    wild[at] = static_cast<char>(0xFF);
    CHECK(CharacterMap(wild, "m.gguf").front("AAAA").consumed <= 4);
    wild[at] = whole;
  }
}

}  // namespace hearth::test
