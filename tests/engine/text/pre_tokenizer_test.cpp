// The pre-tokenizers by name: how they split text, and that no text is lost or takes too long.
#include "engine/text/pre_tokenizer.h"

#include <fstream>
#include <iterator>

#include "engine/text/special_tokens.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

using Words = std::vector<std::string>;

Words split(std::string_view name, const std::string& text) {
  Words words;
  for (const Piece& piece : PreTokenizer(name).split(text))
    words.push_back(text.substr(piece.begin, piece.length));
  return words;
}

std::vector<std::string> all_names() {
  const std::vector<std::string_view> names = PreTokenizer::known_names();
  return {names.begin(), names.end()};
}

}  // namespace

TEST_CASE("Pre-tokenizers split words, numbers and white space as their models do") {
  const std::string text = "I'll don'T  see 1234,\n\n ok";
  CHECK(split("gpt-2", text) ==
        Words{"I", "'ll", " don", "'", "T", " ", " see", " 1234", ",", "\n\n", " ok"});
  CHECK(split("smollm", text) ==
        Words{"I", "'ll", " don", "'", "T", " ", " see", " ", "1", "2", "3", "4", ",", "\n\n", " ok"});
  CHECK(split("llama-bpe", text) ==
        Words{"I", "'ll", " don", "'T", " ", " see", " ", "123", "4", ",\n\n", " ok"});
  CHECK(split("qwen2", text) ==
        Words{"I", "'ll", " don", "'T", " ", " see", " ", "1", "2", "3", "4", ",\n\n", " ok"});
  CHECK(split("falcon", text) ==
        Words{"I", "'", "ll", " don", "'", "T", " ", " see", " ", "123", "4", ",", "\n\n", " ok"});
  CHECK(split("gpt-4o", "helloWorld's a/b\n") == Words{"hello", "World's", " a", "/b", "\n"});
  CHECK(split("tekken", "helloWorld 12") == Words{"hello", "World", " ", "1", "2"});
  CHECK(split("deepseek-llm", "ab \xE4\xB8\xAD\xE6\x96\x87 12  \n") ==
        Words{"ab", " ", "\xE4\xB8\xAD\xE6\x96\x87", " ", "12", "  ", "\n"});
  CHECK(split("deepseek-coder", "x =12;") == Words{"x", " =", "1", "2", ";"});
  CHECK(split("deepseek-v3", "a.b 1234") == Words{"a", ".b", " ", "123", "4"});
  CHECK(split("bloom", "Hi, you. 12") == Words{"Hi", ",", " you", ".", " 12"});
  CHECK(split("viking", "Hi 12") == Words{"Hi", " ", "1", "2"});
  CHECK(split("qwen35", "e\xCC\x81t 12") == Words{"e\xCC\x81t", " ", "1", "2"});
  CHECK(split("kimi-k2",
              "ab\xE4\xB8\xAD\xE6\x96\x87"
              "cd 1234") == Words{"ab", "\xE4\xB8\xAD\xE6\x96\x87", "cd", " ", "123", "4"});
  CHECK(split("exaone-moe", "two words  12") == Words{"two words", " ", " ", "1", "2"});
  CHECK(split("jais-2", "a" + std::string(7, ' ')) == Words{"a", "    ", "  ", " "});
  CHECK(split("chameleon", "IMGIMGABZ 12.") == Words{"IMGIMGABZ", " ", "1", "2", "."});
}

TEST_CASE("Numbers are cut in threes from the right for the models that do so") {
  for (const std::string name : {"tiny_aya", "cohere2moe", "afmoe"}) {
    CAPTURE(name);
    CHECK(split(name, "12") == Words{"12"});
    CHECK(split(name, "123") == Words{"123"});
    CHECK(split(name, "1234") == Words{"1", "234"});
    CHECK(split(name, "12345678.9") == Words{"12", "345", "678", ".", "9"});
  }
  // No word ends within "1234a", so Tiny Aya's pattern counts from the left there.
  CHECK(split("tiny_aya", "1234a") == Words{"123", "4", "a"});
  CHECK(split("gpt-4o", "1234") == Words{"123", "4"});
}

TEST_CASE("White space is what Unicode defines") {
  CHECK(split("gpt-2", "a\xC2\x85") == Words{"a", "\xC2\x85"});  // NEL is white space
  CHECK(split("gpt-2", "a,\xC2\xA0\xE2\x80\x89") == Words{"a", ",", "\xC2\xA0\xE2\x80\x89"});
  // U+180E is not white space, since Unicode 6.3
  CHECK(split("gpt-2", ",\xE1\xA0\x8E,") == Words{",\xE1\xA0\x8E,"});
}

TEST_CASE("Every pre-tokenizer compiles and keeps every byte of any text") {
  const std::vector<std::string> texts = {
      "",
      " ",
      "a",
      "\xFF",
      "ab\xFF\xFE"
      "cd",
      "\xE2\x82",
      "a\xED\xA0\x80z \x80",
      "Hello,  world!\r\n\t12345 \xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x99\x82\xE2\x80\x8D caf\xC3\xA9 "
      "\xD8\xA7\xD9\x84 "
      "\xE0\xA4\xB9\xE0\xA4\xBF def f(x):\n    return x**2 # ok\n\n\n   "};
  REQUIRE(all_names().size() > 40);
  for (const std::string& name : all_names()) {
    CAPTURE(name);
    REQUIRE(PreTokenizer::knows(name));
    for (const std::string& text : texts) {
      std::string joined;
      for (const std::string& word : split(name, text)) {
        CHECK_FALSE(word.empty());
        joined += word;
      }
      CHECK(joined == text);
    }
  }
  CHECK_FALSE(PreTokenizer::knows("no-such"));
}

TEST_CASE("The documentation names every pre-tokenizer") {
  std::ifstream in(std::string(testing::source_dir()) + "/docs/models.md");
  const std::string page(std::istreambuf_iterator<char>(in), {});
  REQUIRE_FALSE(page.empty());
  for (const std::string& name : all_names()) {
    CAPTURE(name);
    CHECK(page.find("`" + name + "`") != std::string::npos);
  }
}

TEST_CASE("No pre-tokenizer is quadratic in runs of a character") {
  constexpr size_t kBytes = 1 << 18;
  for (const std::string& name : all_names()) {
    CAPTURE(name);
    const PreTokenizer pre(name);
    for (const std::string unit :
         {" ", "\n", "a", "A", "7", "!", "\t\n", "\xC3\xA9", "\xE4\xB8\xAD", "\xCC\x81", "'"}) {
      std::string text;
      while (text.size() < kBytes) text += unit;
      text += "b";
      size_t bytes = 0;
      for (const Piece& piece : pre.split(text)) bytes += piece.length;
      REQUIRE(bytes == text.size());
    }
  }
}

TEST_CASE("Special tokens are found leftmost, then longest") {
  SpecialTokens tokens;
  CHECK(tokens.find("abc", 0).token == -1);
  tokens.add("", 9);
  tokens.add("<a", 1);
  tokens.add("<a><b>", 2);
  tokens.add("a><", 3);
  tokens.add("x", 4);
  const auto found = [&](std::string_view text, size_t from) {
    const SpecialTokens::Match match = tokens.find(text, from);
    return std::vector<size_t>{match.begin, match.length, static_cast<size_t>(match.token)};
  };
  CHECK(found("..<a><b>", 0) == std::vector<size_t>{2, 6, 2});
  CHECK(found("..<a><c>", 0) == std::vector<size_t>{2, 2, 1});  // not a><, which begins later
  CHECK(found("..<a><c>", 3) == std::vector<size_t>{3, 3, 3});
  CHECK(found("<", 0)[1] == 0);
  CHECK(found("", 0)[1] == 0);
  CHECK(found("<x", 0) == std::vector<size_t>{1, 1, 4});
  tokens.add("x", 5);
  CHECK(tokens.find("x", 0).token == 5);
}

}  // namespace hearth
