// SentencePiece's BPE: scores, byte fallback, space prefix, unknown and unused tokens, hostile text.
#include <random>

#include "tests/engine/tokenizer/tokenizer_vocabularies.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

constexpr int32_t kByte0 = 3;    // id of <0x00>
constexpr int32_t kFirst = 259;  // id of the first given row

Vocabulary pieces(const std::vector<TokenRow>& rows, bool prefix = true) {
  Vocabulary vocabulary = make_vocabulary(TokenizerKind::kSentencePiece, sentencepiece_rows(rows));
  vocabulary.unk = 0;
  vocabulary.bos = 1;
  vocabulary.eos = 2;
  vocabulary.add_bos = true;
  vocabulary.add_space_prefix = prefix;
  return vocabulary;
}

/// By definition, over a whole text of ASCII letters and spaces, without words or queues.
Ids encode_by_definition(const Vocabulary& vocabulary, const std::string& text) {
  std::vector<std::string> symbols = {kSpace};
  for (const char c : text) symbols.push_back(c == ' ' ? kSpace : std::string(1, c));
  const auto find = [&](const std::string& piece) {
    for (int32_t i = kFirst; i < vocabulary.size(); ++i) {
      if (vocabulary.texts[i] == piece) return i;
    }
    return -1;
  };
  for (;;) {
    int best = -1;
    float best_score = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const int32_t token = find(symbols[i] + symbols[i + 1]);
      if (token >= 0 && (best < 0 || vocabulary.scores[token] > best_score)) {
        best = static_cast<int>(i);
        best_score = vocabulary.scores[token];
      }
    }
    if (best < 0) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + best + 1);
  }
  Ids ids;
  for (const std::string& symbol : symbols) {
    if (find(symbol) >= 0) {
      ids.push_back(find(symbol));
      continue;
    }
    for (const char c : symbol) ids.push_back(kByte0 + static_cast<uint8_t>(c));
  }
  return ids;
}

}  // namespace

TEST_CASE("SentencePiece merges by score and encodes the rest as bytes") {
  const Vocabulary vocabulary = pieces({{kSpace, TokenType::kNormal, -9},
                                        {"a", TokenType::kNormal, -9},
                                        {"b", TokenType::kNormal, -9},
                                        {kSpace + "a", TokenType::kNormal, -2},
                                        {"ab", TokenType::kNormal, -1}});
  CHECK(encode(vocabulary, "ab") == Ids{kFirst, kFirst + 4});
  CHECK(encode(vocabulary, "aab") == Ids{kFirst + 3, kFirst + 4});
  CHECK(encode(vocabulary, "a\xC3\xA9") == Ids{kFirst + 3, kByte0 + 0xC3, kByte0 + 0xA9});
  CHECK(encode(vocabulary, "a\xFF") == Ids{kFirst + 3, kByte0 + 0xFF});
  CHECK(encode(vocabulary, "").empty());
}

TEST_CASE("SentencePiece's space prefix goes before the text and after special tokens") {
  const std::vector<TokenRow> rows = {
      {kSpace}, {"a"}, {"<x>", TokenType::kControl}, {"<u>", TokenType::kUserDefined}};
  const Ids a = {kFirst, kFirst + 1};
  CHECK(encode(pieces(rows), "a") == a);
  CHECK(encode(pieces(rows, false), "a") == Ids{kFirst + 1});
  CHECK(encode(pieces(rows), "a<x>a", true) == Ids{kFirst, kFirst + 1, kFirst + 2, kFirst, kFirst + 1});
  CHECK(encode(pieces(rows), "<u>a", false) == Ids{kFirst + 3, kFirst, kFirst + 1});
  const VocabularyTokenizer tokenizer(pieces(rows), {});
  CHECK(tokenizer.encode("a", true, false) == Ids{1, kFirst, kFirst + 1});
  CHECK(tokenizer.encode("", true, false) == Ids{1});
}

TEST_CASE("Names of control and byte tokens in plain text are ordinary text") {
  const Vocabulary vocabulary = pieces({{kSpace}, {"<s"}, {"</s"}, {"<0x4"}});
  const VocabularyTokenizer tokenizer(vocabulary, {});
  for (const std::string text : {"<s>", "</s>", "<unk>", "<0x41>"}) {
    const Ids ids = tokenizer.encode(text, false, false);
    for (const int32_t id : ids) CHECK_FALSE(tokenizer.is_control(id));
    CHECK(tokenizer.decode(ids, false) == text);
  }
  CHECK(tokenizer.encode("</s>", false, true) == Ids{2});
}

TEST_CASE("Without byte tokens a run of unknown characters is one unknown token") {
  Vocabulary vocabulary =
      make_vocabulary(TokenizerKind::kSentencePiece, {{"<unk>", TokenType::kUnknown}, {"a"}, {"b"}});
  CHECK(encode(vocabulary, "axyb").empty() == false);
  vocabulary.unk = 0;
  CHECK(encode(vocabulary, "axyb\xC3\xA9") == Ids{1, 0, 2, 0});
  vocabulary.unk = -1;
  CHECK(encode(vocabulary, "axyb") == Ids{1, 2});
}

TEST_CASE("Unused tokens take part in merges but are not output") {
  const Vocabulary vocabulary =
      pieces({{"a"}, {"b"}, {"c"}, {"ab", TokenType::kUnused, -1}, {"abc", TokenType::kNormal, -2}}, false);
  CHECK(encode(vocabulary, "ab") == Ids{kFirst, kFirst + 1});
  CHECK(encode(vocabulary, "abc") == Ids{kFirst + 4});
}

TEST_CASE("Merging words one by one gives what merging the whole text does") {
  std::mt19937 random(5);
  for (const bool inner_spaces : {false, true}) {
    for (int round = 0; round < 100; ++round) {
      std::vector<TokenRow> rows = {{kSpace}, {"a"}, {"b"}};
      for (int n = 0; n < 25; ++n) {
        std::string text;
        for (size_t length = 2 + random() % 3; length > 0; --length) {
          const bool may_space = inner_spaces || text.find_first_not_of(kSpace) == std::string::npos;
          text += may_space && random() % 3 == 0 ? kSpace : std::string(1, random() % 2 ? 'a' : 'b');
        }
        // Few distinct scores, so that ties occur too.
        const float score = -static_cast<float>(random() % 6);
        bool is_new = true;
        for (const TokenRow& row : rows) is_new = is_new && row.text != text;
        if (is_new) rows.push_back({text, TokenType::kNormal, score});
      }
      const Vocabulary vocabulary = pieces(rows);
      for (int i = 0; i < 10; ++i) {
        std::string text;
        for (size_t length = 1 + random() % 30; length > 0; --length) text += "ab  "[random() % 4];
        REQUIRE(encode(vocabulary, text) == encode_by_definition(vocabulary, text));
      }
    }
  }
}

TEST_CASE("A megabyte without a break is encoded by SentencePiece's rules too") {
  const Vocabulary vocabulary = pieces({{kSpace},
                                        {"a"},
                                        {"aa", TokenType::kNormal, -1},
                                        {"aaaa", TokenType::kNormal, -2},
                                        {kSpace + kSpace, TokenType::kNormal, -3}},
                                       false);
  constexpr size_t kMegabyte = 1 << 20;
  CHECK(encode(vocabulary, std::string(kMegabyte, 'a')).size() == kMegabyte / 4);
  CHECK(encode(vocabulary, std::string(kMegabyte, ' ')).size() == kMegabyte / 2);
  CHECK(encode(vocabulary, std::string(kMegabyte, '\xFF')).size() == kMegabyte);
}

}  // namespace hearth::test
