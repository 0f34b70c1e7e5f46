// Which tokens a limit on thinking forces, and when.
#include "engine/constraint/thinking_budget.h"

#include <algorithm>
#include <string>

#include "tests/support/catch.h"

namespace hearth {
namespace {

/// Tokens 0 to 255 are bytes; the others are tags and parts of tags.
constexpr int32_t kOpenTag = 256, kCloseTag = 257, kHalfClose = 258, kBehindTag = 259;

std::shared_ptr<ThinkingBudget> budget_of(int n_tokens, bool begun = false) {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  for (const char* text : {"<think>", "</think>", "</th", "k>\n"}) pieces.emplace_back(text);
  auto budget = std::make_shared<ThinkingBudget>();
  budget->trie = std::make_shared<const TokenTrie>(std::move(pieces));
  budget->open = "<think>";
  budget->closes = {"</think>"};
  budget->begun = begun;
  budget->n_tokens = n_tokens;
  budget->ending = {'.', kCloseTag};
  return budget;
}

std::vector<int32_t> bytes(std::string_view text) {
  std::vector<int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

/// Feeds the tokens, and in place of a token the forced ones where there are any. Returns all tokens.
std::vector<int32_t> limited(ThinkingState& state, const std::vector<int32_t>& tokens) {
  std::vector<int32_t> out;
  const auto force = [&] {
    while (!state.forced().empty()) {
      REQUIRE(out.size() < 200);
      out.push_back(state.forced().front());
      state.accept(out.back());
    }
  };
  force();
  for (const int32_t token : tokens) {
    out.push_back(token);
    state.accept(token);
    force();
  }
  return out;
}

std::vector<int32_t> limited(int n_tokens, const std::vector<int32_t>& tokens, bool begun = false) {
  ThinkingState state(budget_of(n_tokens, begun));
  return limited(state, tokens);
}

std::vector<int32_t> joined(std::initializer_list<std::vector<int32_t>> parts) {
  std::vector<int32_t> all;
  for (const std::vector<int32_t>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace

TEST_CASE("thinking budget: the ending follows the last token that the limit allows") {
  const std::vector<int32_t> open = {kOpenTag}, ending = {'.', kCloseTag};
  for (int n = 0; n < 6; ++n) {
    INFO(n);
    const std::string before = std::string("abcdef").substr(0, static_cast<size_t>(n));
    const std::string behind = std::string("abcdef").substr(static_cast<size_t>(n));
    CHECK(limited(n, joined({open, bytes("abcdef")})) ==
          joined({open, bytes(before), ending, bytes(behind)}));
    CHECK(limited(n, bytes("abcdef"), true) == joined({bytes(before), ending, bytes(behind)}));
  }
}

TEST_CASE("thinking budget: thinking that ends by itself, and text without thinking, stay as they are") {
  const auto unchanged = [](const std::vector<int32_t>& tokens, bool begun) {
    return limited(3, tokens, begun) == tokens;
  };
  CHECK(unchanged(joined({{kOpenTag}, bytes("ab"), {kCloseTag}, bytes("a long answer")}), false));
  CHECK(unchanged(joined({bytes("ab"), {kCloseTag}, bytes("a long answer")}), true));
  CHECK(unchanged(bytes("a long answer"), false));
  CHECK(unchanged(joined({bytes("The tag "), {kOpenTag}, bytes(" opens thinking.")}), false));
  CHECK(unchanged(bytes("<thinking about it>"), false));
}

TEST_CASE("thinking budget: tags may be spelled by several tokens, with white space before them") {
  const std::vector<int32_t> ending = {'.', kCloseTag};
  CHECK(limited(2, joined({bytes(" \n<think>abcd")})) ==
        joined({bytes(" \n<think>ab"), ending, bytes("cd")}));
  // The token behind `<thin` has the end of the tag and a line feed, which belongs to the thinking.
  CHECK(limited(1, joined({bytes("<thin"), {kBehindTag}, bytes("ab")})) ==
        joined({bytes("<thin"), {kBehindTag}, bytes("a"), ending, bytes("b")}));
  const std::vector<int32_t> closed = joined({{kOpenTag}, bytes("</think>abcdefghijkl")});
  CHECK(limited(8, closed) == closed);
}

TEST_CASE("thinking budget: the ending waits for the end of a character, and of a tag that has begun") {
  const std::vector<int32_t> ending = {'.', kCloseTag};
  CHECK(limited(1, joined({{kOpenTag}, bytes("\xF0\x9F\x99\x82 and")})) ==
        joined({{kOpenTag}, bytes("\xF0\x9F\x99\x82"), ending, bytes(" and")}));
  const std::vector<int32_t> closes = joined({{kOpenTag}, bytes("a"), {kHalfClose}, bytes("ink> and")});
  CHECK(limited(2, closes) == closes);
  CHECK(limited(2, joined({{kOpenTag}, bytes("a"), {kHalfClose}, bytes("is and")})) ==
        joined({{kOpenTag}, bytes("a"), {kHalfClose}, bytes("is"), ending, bytes(" and")}));
}

TEST_CASE("thinking budget: the limit holds over all thinking of an answer") {
  const std::vector<int32_t> ending = {'.', kCloseTag};
  CHECK(limited(3, joined({{kOpenTag}, bytes("ab"), {kCloseTag, kOpenTag}, bytes("cd")})) ==
        joined({{kOpenTag}, bytes("ab"), {kCloseTag, kOpenTag}, ending, bytes("cd")}));
  CHECK(limited(0, joined({{kOpenTag}, {kOpenTag}, bytes("a")})) ==
        joined({{kOpenTag}, ending, {kOpenTag}, ending, bytes("a")}));
}

TEST_CASE("thinking budget: some formats open thinking anywhere, and end it in several ways") {
  auto budget = budget_of(2);
  budget->opens_anywhere = true;
  budget->closes = {"</think>", "<s>"};
  budget->ending = joined({bytes("<s>"), bytes("go")});
  const std::vector<int32_t> ending = budget->ending;
  ThinkingState state(budget);
  CHECK(limited(state, joined({bytes("First, "), {kOpenTag}, bytes("abc<think>d")})) ==
        joined({bytes("First, "), {kOpenTag}, bytes("ab"), ending, bytes("c<think>"), ending, bytes("d")}));
}

TEST_CASE("thinking budget: an ending must spell a closing tag") {
  auto budget = budget_of(2);
  CHECK(budget->ending_closes());
  budget->ending = bytes("a</think>b");
  CHECK(budget->ending_closes());
  budget->ending = bytes("</think");
  CHECK_FALSE(budget->ending_closes());
}

}  // namespace hearth
