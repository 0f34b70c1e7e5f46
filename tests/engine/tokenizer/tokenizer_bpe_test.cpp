// Byte-level BPE: order of merges, odd vocabularies, hostile text.
#include <algorithm>
#include <random>
#include <thread>

#include "engine/tokenizer/bpe_merge.h"
#include "tests/engine/tokenizer/tokenizer_vocabularies.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

using Merges = std::vector<std::string_view>;

VocabularyTokenizer bpe(const std::vector<TokenRow>& rows, const Merges& merges,
                        const std::string& pre = "gpt-2") {
  Vocabulary vocabulary = make_vocabulary(TokenizerKind::kByteLevelBpe, byte_level_rows(rows));
  vocabulary.pre = pre;
  return VocabularyTokenizer(std::move(vocabulary), merges);
}

/// By definition: merges the best-ranked pair, the leftmost of equal ones, until none is left.
std::vector<int32_t> merge_by_definition(const MergeTable& merges, std::vector<int32_t> symbols) {
  for (;;) {
    MergeTable::Merge best;
    size_t where = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const MergeTable::Merge merge = merges.find(symbols[i], symbols[i + 1]);
      if (merge.rank < best.rank) {
        best = merge;
        where = i;
      }
    }
    if (best.rank == MergeTable::kNoRank) return symbols;
    symbols[where] = best.result;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(where) + 1);
  }
}

}  // namespace

TEST_CASE("The merge table keeps the first of two merges of one pair and finds no others") {
  MergeTable table(4);
  table.insert(1, 2, {7, 3});
  table.insert(1, 2, {8, 4});
  table.insert(2, 1, {9, 5});
  CHECK(table.find(1, 2).rank == 7);
  CHECK(table.find(1, 2).result == 3);
  CHECK(table.find(2, 1).rank == 9);
  CHECK(table.find(1, 1).rank == MergeTable::kNoRank);
}

TEST_CASE("Merging short and long words follows the definition") {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    // Symbols 0 to 3, and merges of random pairs into new ones; few symbols give many equal pairs.
    MergeTable merges(40);
    int32_t n_symbols = 4;
    for (uint32_t rank = 0; rank < 40; ++rank) {
      const int32_t left = static_cast<int32_t>(random() % n_symbols);
      const int32_t right = static_cast<int32_t>(random() % n_symbols);
      if (merges.find(left, right).rank == MergeTable::kNoRank)
        merges.insert(left, right, {rank, n_symbols++});
    }
    for (const size_t length : {0, 1, 2, 3, 17, 63, 64, 65, 66, 300}) {
      std::vector<int32_t> symbols;
      for (size_t i = 0; i < length; ++i)
        symbols.push_back(static_cast<int32_t>(random() % (1 + random() % 4)));
      const std::vector<int32_t> expected = merge_by_definition(merges, symbols);
      bpe_merge(merges, symbols);
      REQUIRE(symbols == expected);
    }
  }
}

TEST_CASE("BPE merges by rank, not from the left") {
  const VocabularyTokenizer tokenizer = bpe({{"bc"}, {"ab"}, {"abc"}}, {"b c", "a b", "ab c"});
  CHECK(tokenizer.encode("abc", false, false) == Ids{'a', 256});
  CHECK(tokenizer.encode("ab", false, false) == Ids{257});
  CHECK(tokenizer.decode({'a', 256}, false) == "abc");
}

TEST_CASE("A word that is a token is found by merging, unless the model ignores merges") {
  const std::vector<TokenRow> rows = {{"ab"}, {"abc"}};
  const Merges merges = {"a b"};  // no merge makes abc
  CHECK(bpe(rows, merges).encode("abc", false, false) == Ids{256, 'c'});
  CHECK(bpe(rows, merges, "llama-bpe").encode("abc", false, false) == Ids{257});
}

TEST_CASE("Merge steps that are not tokens and missing bytes leave no ids") {
  // "ab" is only an intermediate step; "abd" exists. Then a vocabulary without the byte 'c'.
  const VocabularyTokenizer tokenizer = bpe({{"abd"}}, {"a b", "ab d"});
  CHECK(tokenizer.encode("abd", false, false) == Ids{256});
  CHECK(tokenizer.encode("abx", false, false) == Ids{'a', 'b', 'x'});
  const VocabularyTokenizer few(make_vocabulary(TokenizerKind::kByteLevelBpe, {{"a"}, {"b"}}), {});
  CHECK(few.encode("acb", false, false) == Ids{0, 1});
}

TEST_CASE("Text gives a control token only where special tokens are parsed") {
  const std::vector<TokenRow> rows = {
      {"<|x|>", TokenType::kControl}, {"<|", TokenType::kNormal}, {"user", TokenType::kUserDefined}};
  const Merges merges = {"< |", "| >", "<| x", "<|x |>"};
  for (const std::string pre : {"gpt-2", "llama-bpe", "default"}) {
    const VocabularyTokenizer tokenizer = bpe(rows, merges, pre);
    CHECK(tokenizer.encode("<|x|>", false, true) == Ids{256});
    const Ids plain = tokenizer.encode("<|x|>user", false, false);
    CHECK(std::count(plain.begin(), plain.end(), 256) == 0);
    CHECK(plain.back() == 258);
    CHECK(tokenizer.decode(plain, false) == "<|x|>user");
    CHECK(tokenizer.is_control(256));
    CHECK_FALSE(tokenizer.is_control(258));
    CHECK(tokenizer.decode({256, 'a'}, false) == "a");
    CHECK(tokenizer.decode({256, 'a'}, true) == "<|x|>a");
  }
}

TEST_CASE("Begin and end tokens are put where the model asks, on request") {
  Vocabulary vocabulary =
      make_vocabulary(TokenizerKind::kByteLevelBpe, byte_level_rows({{"<b>", TokenType::kControl}}));
  vocabulary.bos = vocabulary.eos = 256;
  vocabulary.add_bos = vocabulary.add_eos = true;
  const VocabularyTokenizer tokenizer(vocabulary, {});
  CHECK(tokenizer.encode("a", true, false) == Ids{256, 'a', 256});
  CHECK(tokenizer.encode("", true, false) == Ids{256, 256});
  CHECK(tokenizer.encode("a", false, false) == Ids{'a'});
  CHECK(tokenizer.encode("", false, false).empty());
}

TEST_CASE("Damaged merges are refused by key and number") {
  for (const std::string_view merge : {"ab", "a ", "", " ", "  "}) {
    CHECK_THROWS_WITH(bpe({}, {"a b", merge}), ContainsSubstring("tokenizer.ggml.merges[1]"));
  }
}

TEST_CASE("Any bytes are encoded and decoded unchanged") {
  const VocabularyTokenizer tokenizer = bpe({{"ab"}}, {"a b"});
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::string bytes;
    for (size_t n = random() % 40; n > 0; --n) {
      bytes += random() % 3 ? std::string(1, static_cast<char>(random() % 256)) : "ab \xE4\xB8\xAD";
    }
    std::string back;
    for (const int32_t id : tokenizer.encode(bytes, false, true)) tokenizer.append_bytes(id, true, back);
    CHECK(back == bytes);
  }
}

TEST_CASE("A megabyte without a break is encoded in time that grows with n log n") {
  const Merges merges = {"a a", "aa aa", "\xC4\xA0 \xC4\xA0"};
  const VocabularyTokenizer tokenizer = bpe({{"aa"}, {"aaaa"}, {"\xC4\xA0\xC4\xA0"}}, merges);
  constexpr size_t kMegabyte = 1 << 20;
  CHECK(tokenizer.encode(std::string(kMegabyte, 'a'), false, true).size() == kMegabyte / 4);
  CHECK(tokenizer.encode(std::string(kMegabyte, ' '), false, true).size() == kMegabyte / 2);
  CHECK(tokenizer.encode(std::string(kMegabyte, '\xFF'), false, true).size() == kMegabyte);
}

TEST_CASE("One tokenizer serves many threads") {
  const VocabularyTokenizer tokenizer = bpe({{"ab"}}, {"a b"});
  const std::string text = "ab abc, 12 ab\n";
  const Ids expected = tokenizer.encode(text, false, true);
  std::vector<int> wrong(4, 0);
  {
    std::vector<std::jthread> threads;
    for (int& count : wrong) {
      threads.emplace_back([&] {
        for (int i = 0; i < 200; ++i) count += tokenizer.encode(text, false, true) != expected;
      });
    }
  }
  CHECK(wrong == std::vector<int>(4, 0));
}

}  // namespace hearth::test
