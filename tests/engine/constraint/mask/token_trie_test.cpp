// Tries of vocabularies: which tokens they contain, and in which order.
#include "engine/constraint/mask/token_trie.h"

#include <map>

#include "engine/tokenizer/vocabulary_tokenizer.h"
#include "tests/engine/tokenizer/tokenizer_vocabularies.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

/// The tokens of a trie with their bytes, derived from depths alone. Checks the end of each subtree.
std::map<int32_t, std::string> read(const ByteTrie& trie) {
  std::map<int32_t, std::string> tokens;
  std::string path;
  for (uint32_t i = 0; i < trie.n_nodes(); ++i) {
    const ByteTrie::Node& node = trie.nodes[i];
    REQUIRE(node.depth <= path.size() + 1);
    path.resize(node.depth - size_t{1});
    path += static_cast<char>(node.byte);
    uint32_t end = i + 1;
    while (end < trie.n_nodes() && trie.nodes[end].depth > node.depth) ++end;
    REQUIRE(node.end == end);
    for (const int32_t token : trie.tokens_at(i)) tokens[token] = path;
  }
  return tokens;
}

TEST_CASE("token trie: every token is at the end of its bytes, equal ones together") {
  const TokenTrie trie({"b", "ab", "", "a", "abc", "ab", "\xFF", "ac", "a"});
  const std::map<int32_t, std::string> expected{{0, "b"},  {1, "ab"},   {3, "a"},  {4, "abc"},
                                                {5, "ab"}, {6, "\xFF"}, {7, "ac"}, {8, "a"}};
  CHECK(read(trie.short_tokens()) == expected);
  CHECK(trie.short_tokens().n_nodes() == 6);
  CHECK(trie.long_tokens().n_nodes() == 0);
  CHECK(trie.n_vocab() == 9);
}

TEST_CASE("token trie: long tokens have a trie of their own, and far too long ones none") {
  const std::string longest_short(TokenTrie::kShortBytes, 'x'), longest(TokenTrie::kMostBytes, 'x');
  const TokenTrie trie({longest_short, longest_short + "y", longest, longest + "x"});
  CHECK(read(trie.short_tokens()) == std::map<int32_t, std::string>{{0, longest_short}});
  CHECK(read(trie.long_tokens()) == std::map<int32_t, std::string>{{1, longest_short + "y"}, {2, longest}});
  CHECK(trie.bytes(3).empty());
}

TEST_CASE("token trie: bytes of tokens outside the vocabulary are empty") {
  const TokenTrie trie({"a"});
  CHECK(trie.bytes(0) == "a");
  CHECK(trie.bytes(1).empty());
  CHECK(trie.bytes(-1).empty());
}

TEST_CASE("token trie: an empty vocabulary has no nodes") {
  const TokenTrie trie({});
  CHECK(trie.short_tokens().n_nodes() == 0);
  CHECK(trie.long_tokens().n_nodes() == 0);
}

TEST_CASE("token trie: control, unknown and end tokens of a tokenizer are left out, spaces stay") {
  Vocabulary vocabulary = test::make_vocabulary(
      TokenizerKind::kSentencePiece,
      test::sentencepiece_rows({{"\xE2\x96\x81the"}, {"end"}, {"<tool>", TokenType::kUserDefined}}));
  const auto first = static_cast<int32_t>(vocabulary.texts.size()) - 3;
  vocabulary.add_space_prefix = true;
  vocabulary.eos = 2;
  vocabulary.end_tokens = {2, first + 1};
  const VocabularyTokenizer tokenizer(vocabulary, {});
  const auto trie = TokenTrie::from_tokenizer(tokenizer);
  CHECK(trie->n_vocab() == vocabulary.texts.size());
  CHECK(trie->bytes(0).empty());
  CHECK(trie->bytes(1).empty());
  CHECK(trie->bytes(2).empty());
  CHECK(trie->bytes(3) == std::string(1, '\0'));
  CHECK(trie->bytes(first) == " the");
  CHECK(trie->bytes(first + 1).empty());
  CHECK(trie->bytes(first + 2) == "<tool>");
}

}  // namespace
}  // namespace hearth
