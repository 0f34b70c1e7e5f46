// Constraints as the engine uses them: masks, ends, forced text, copies, and full caches.
#include "engine/constraint/constraint.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "engine/constraint/forced_tokens.h"
#include "engine/constraint/grammar/gbnf.h"
#include "engine/constraint/mask/token_trie.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

class Words {
 public:
  explicit Words(std::vector<std::string> pieces)
      : pieces_(std::move(pieces)), trie_(std::make_shared<const TokenTrie>(pieces_)) {}

  ConstraintState start(const std::string& grammar) const {
    return ConstraintState(Constraint::compile(parse_gbnf(grammar), trie_));
  }
  std::vector<std::string> allowed(ConstraintState& state) const {
    std::vector<std::string> words;
    for (size_t token = 0; token < pieces_.size(); ++token)
      if (state.mask().allows(static_cast<int32_t>(token))) words.push_back(pieces_[token]);
    return words;
  }
  const std::string& text(int32_t token) const { return pieces_[static_cast<size_t>(token)]; }
  int32_t operator[](const std::string& piece) const {
    for (size_t token = 0; token < pieces_.size(); ++token)
      if (pieces_[token] == piece) return static_cast<int32_t>(token);
    return -1;
  }

 private:
  std::vector<std::string> pieces_;
  std::shared_ptr<const TokenTrie> trie_;
};

using List = std::vector<std::string>;

const char* const kList = "root ::= \"[\" (item (\",\" item)*)? \"]\"\nitem ::= root | [0-9]+ | \"true\"";

TEST_CASE("constraint: a token can end one rule and begin another") {
  const Words words(
      {"[", "]", "[[", "]]", "],[", "1", "1]", "1]]", ",", "tr", "true,", "true]]]", "ue", ",,", "x", "[]"});
  ConstraintState state = words.start(kList);
  CHECK(words.allowed(state) == List{"[", "[[", "[]"});
  REQUIRE(state.accept(words["["]));
  CHECK(words.allowed(state) == List{"[", "]", "[[", "1", "1]", "tr", "true,", "[]"});
  REQUIRE(state.accept(words["["]));
  CHECK(words.allowed(state) == List{"[", "]", "[[", "]]", "],[", "1", "1]", "1]]", "tr", "true,", "[]"});
  REQUIRE(state.accept(words["tr"]));
  CHECK(words.allowed(state) == List{"ue"});
  CHECK(state.forced() == "ue");
  REQUIRE(state.accept(words["ue"]));
  CHECK(words.allowed(state) == List{"]", "]]", "],[", ","});
  REQUIRE(state.accept(words["]]"]));
  CHECK(state.must_end());
  CHECK(words.allowed(state).empty());
}

TEST_CASE("constraint: a token that is not allowed changes nothing") {
  const Words words({"a", "b", "", "ab"});
  ConstraintState state = words.start("root ::= \"ab\"");
  CHECK_FALSE(state.accept(words["b"]));
  CHECK_FALSE(state.accept(words[""]));
  CHECK_FALSE(state.accept(-1));
  CHECK_FALSE(state.accept(4));
  CHECK(state.forced() == "ab");
  CHECK(state.accept(words["ab"]));
}

TEST_CASE("constraint: the text may end, must end, or must go on") {
  const Words words({"a", "b"});
  ConstraintState state = words.start("root ::= \"a\" \"b\"? | ");
  CHECK(state.may_end());
  CHECK_FALSE(state.must_end());
  CHECK(state.forced().empty());
  REQUIRE(state.accept(words["a"]));
  CHECK(state.may_end());
  CHECK_FALSE(state.must_end());
  REQUIRE(state.accept(words["b"]));
  CHECK(state.may_end());
  CHECK(state.must_end());
  ConstraintState empty = words.start("root ::= ");
  CHECK(empty.must_end());
  CHECK(empty.mask().none());
}

TEST_CASE("constraint: forced text goes through calls and ends of rules, up to a choice or an end") {
  const Words words({"a"});
  CHECK(words.start("root ::= \"ab\" x \"f\" [gh]\nx ::= \"c\" y \"e\"\ny ::= \"d\" (\"q\" y)? | \"d\"")
            .forced() == "abcd");
  CHECK(words.start("root ::= \"ab\" \"c\"?").forced() == "ab");
  CHECK(words.start("root ::= \"abc\" | \"abd\"").forced() == "ab");
  CHECK(words.start("root ::= x | y\nx ::= \"ab\" (x | \"1\")\ny ::= \"ab\" (y | \"2\")").forced() == "ab");
}

TEST_CASE("constraint: forced tokens leave room for every token that could be sampled") {
  const Words words({"<", "|", "call", "_", "begin", "end", ">", "x", "<|call_begin>", "<|call_end>", "a",
                     "bc", "d", "abcdefghijklmnop"});
  const auto forced = [&](const std::string& grammar) {
    std::string text;
    for (const int32_t token : forced_tokens(words.start(grammar))) text += words.text(token) + " ";
    return text;
  };
  // Both tags begin alike; their letters must not be forced, because whole tags could be sampled.
  CHECK(forced("root ::= \"<|call_begin>\" | \"<|call_end>\"") == "");
  CHECK(forced("root ::= \"x\" (\"<|call_begin>\" | \"<|call_end>\")") == "x ");
  CHECK(forced("root ::= \"xabcd\" [xa]") == "x a bc ");  // the last token may be part of a longer one
  CHECK(forced("root ::= \"xabcd\"") == "x a bc d ");
  CHECK(forced("root ::= \"xabcdef\" [ghi]") == "");  // the vocabulary cannot spell it
  CHECK(forced("root ::= \"abc\" [dx]") == "a ");
  CHECK(forced("root ::= \"abc\" (\"d\" | \"defghijklmnop\")") == "");  // one token may be all of it
}

TEST_CASE("constraint: a vocabulary that lacks the bytes allows nothing") {
  const Words words({"a"});
  ConstraintState state = words.start("root ::= \"ab\"");
  REQUIRE(state.accept(words["a"]));
  CHECK(state.mask().none());
  CHECK_FALSE(state.may_end());
}

TEST_CASE("constraint: a character can be split over several tokens") {
  const Words words({"\xC3", "\xA9", "\xC3\xA9", "\xF0\x9F", "\x99\x82", "\x99\x82\xC3", "\x80", "e"});
  ConstraintState state = words.start("root ::= [^a-z]+");
  CHECK(words.allowed(state) == List{"\xC3", "\xC3\xA9", "\xF0\x9F"});
  REQUIRE(state.accept(words["\xF0\x9F"]));
  CHECK_FALSE(state.may_end());
  CHECK(words.allowed(state) == List{"\xA9", "\x99\x82", "\x99\x82\xC3", "\x80"});
}

TEST_CASE("constraint: tokens longer than a view are allowed to the byte") {
  const std::string fifteen(15, ' ');
  const Words words({fifteen, fifteen + " ", fifteen + "x", fifteen + "y", " "});
  ConstraintState state = words.start("root ::= \" \"{0,20} \"x\"");
  CHECK(words.allowed(state) == List{fifteen, fifteen + " ", fifteen + "x", " "});
  for (int i = 0; i < 5; ++i) REQUIRE(state.accept(words[" "]));
  CHECK(words.allowed(state) == List{fifteen, fifteen + "x", " "});
  REQUIRE(state.accept(words[" "]));
  CHECK(words.allowed(state) == List{" "});
}

TEST_CASE("constraint: copies go their own ways") {
  const Words words({"a", "b"});
  ConstraintState one = words.start("root ::= \"aa\" | \"bb\"");
  ConstraintState other = one;
  REQUIRE(one.accept(words["a"]));
  REQUIRE(other.accept(words["b"]));
  CHECK(words.allowed(one) == List{"a"});
  CHECK(words.allowed(other) == List{"b"});
  one = other;
  CHECK(words.allowed(one) == List{"b"});
}

TEST_CASE("constraint: a full cache is replaced, and nothing is lost") {
  // A mask of this vocabulary takes 250 KB, so a cache holds about 260.
  std::vector<std::string> pieces(2'000'000);
  pieces[7] = "(";
  pieces[8] = ")";
  pieces[9] = "x";
  pieces[10] = "))";
  const auto trie = std::make_shared<const TokenTrie>(std::move(pieces));
  const auto constraint = Constraint::compile(parse_gbnf("root ::= \"(\" root \")\" | \"x\""), trie);
  const auto first_cache = constraint->cache();
  ConstraintState state(constraint);
  const int depth = 400;
  for (int i = 0; i < depth; ++i) {
    REQUIRE(state.mask().allows(7));
    REQUIRE_FALSE(state.mask().allows(8));
    REQUIRE(state.accept(7));
  }
  CHECK(constraint->cache() != first_cache);
  REQUIRE(state.accept(9));
  CHECK(state.forced() == std::string(depth, ')'));
  for (int i = 0; i < depth; ++i) {
    REQUIRE(state.mask().allows(8));
    REQUIRE(state.mask().allows(10) == (i + 1 < depth));
    REQUIRE(state.accept(8));
  }
  CHECK(state.must_end());
}

TEST_CASE("constraint: threads can share a compiled constraint") {
  const Words words({"[", "]", "1", ",", "true"});
  const auto constraint = Constraint::compile(
      parse_gbnf(kList),
      std::make_shared<const TokenTrie>(std::vector<std::string>{"[", "]", "1", ",", "true"}));
  std::atomic<int> n_ended = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        ConstraintState state(constraint);
        bool ok = true;
        for (int i = 0; i <= 40 + t; ++i) ok = ok && state.mask().allows(0) && state.accept(0);
        ok = ok && state.accept(2);
        for (int i = 0; i <= 40 + t; ++i) ok = ok && state.mask().allows(1) && state.accept(1);
        if (ok && state.must_end()) ++n_ended;
      });
    }
  }
  CHECK(n_ended == 4);
}

}  // namespace
}  // namespace hearth
