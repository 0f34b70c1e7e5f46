// Stepping through UTF-8 and incremental detokenization: no split of the tokens may change the text or show
// half a character.
#include <algorithm>
#include <random>

#include "engine/text/byte_alphabet.h"
#include "kernels/base/utf8.h"
#include "tests/engine/tokenizer/tokenizer_vocabularies.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

const std::string kFffd = "\xEF\xBF\xBD";

/// Returns whether bytes are well-formed by Unicode's table 3-7. Unlike the code under test, decodes the
/// bytes first and then checks the result.
bool is_character(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])); };
  for (size_t i = 1; i < bytes.size(); ++i) {
    if ((at(i) & 0xC0) != 0x80) return false;
  }
  switch (bytes.size()) {
    case 1:
      return at(0) < 0x80;
    case 2:
      return at(0) >> 5 == 6 && (at(0) & 0x1F) >= 2;
    case 3: {
      const uint32_t code = (at(0) & 0xF) << 12 | (at(1) & 0x3F) << 6 | (at(2) & 0x3F);
      return at(0) >> 4 == 14 && code >= 0x800 && (code < 0xD800 || code > 0xDFFF);
    }
    case 4: {
      const uint32_t code = (at(0) & 7) << 18 | (at(1) & 0x3F) << 12 | (at(2) & 0x3F) << 6 | (at(3) & 0x3F);
      return at(0) >> 3 == 30 && code >= 0x10000 && code <= 0x10FFFF;
    }
  }
  return false;
}

/// Returns whether bytes can be completed to a character; tries every continuation that matters.
bool is_beginning(const std::string& bytes) {
  for (const char* tail : {"\x80", "\xBF"}) {
    std::string longer = bytes;
    for (size_t n = bytes.size(); n < 4; ++n) {
      longer += tail;
      if (is_character(longer)) return true;
    }
    for (const char second : {'\x80', '\x8F', '\x90', '\x9F', '\xA0', '\xBF'}) {
      if (bytes.size() != 1) continue;
      const std::string two = bytes + second;
      if (is_character(two) || is_character(two + tail) || is_character(two + tail + tail)) return true;
    }
  }
  return false;
}

/// Decodes UTF-8 with U+FFFD for each maximal subpart of an ill-formed sequence, as Unicode defines these.
std::string reference_decode(const std::string& bytes) {
  std::string out;
  for (size_t at = 0; at < bytes.size();) {
    size_t length = 0;
    for (size_t n = 1; n <= 4 && at + n <= bytes.size(); ++n) {
      if (is_character(bytes.substr(at, n))) length = n;
    }
    if (length > 0) {
      out += bytes.substr(at, length);
      at += length;
      continue;
    }
    length = 1;
    for (size_t n = 1; n <= 3 && at + n <= bytes.size(); ++n) {
      if (is_beginning(bytes.substr(at, n))) length = n;
    }
    out += kFffd;
    at += length;
  }
  return out;
}

/// Bytes that are likely to be near UTF-8's edges, in tokens split anywhere.
std::string random_bytes(std::mt19937& random) {
  const std::vector<std::string> parts = {
      "a",        "\xC3\xA9", "\xE4\xB8\xAD", "\xF0\x9F\x99\x82", "\xE2\x82",
      "\xF0\x9F", "\x80",     "\xFF",         "\xED\xA0\x80",     "\xC0\xAF",
      "\xF4\x90", "\xE0\x80", "\xF0\x80",     "\xF0\x9F\x99",     "\xC3"};
  std::string bytes;
  for (size_t n = random() % 12; n > 0; --n) bytes += parts[random() % parts.size()];
  if (random() % 4 == 0) bytes.push_back(static_cast<char>(random() % 256));
  return bytes;
}

/// Tokens are the rows' bytes; text is given as byte-level spelling.
VocabularyTokenizer tokenizer_of(const std::vector<std::string>& tokens) {
  std::vector<TokenRow> rows;
  for (const std::string& bytes : tokens) rows.push_back({spell_bytes(bytes)});
  return VocabularyTokenizer(make_vocabulary(TokenizerKind::kByteLevelBpe, rows), {});
}

}  // namespace

TEST_CASE("UTF-8 stepping handles every one-, two- and three-byte sequence") {
  for (uint32_t n = 0; n < 256 * 256; ++n) {
    for (const uint32_t third : {0x41U, 0x7FU, 0x80U, 0xBFU, 0xC0U}) {
      const std::string bytes = {static_cast<char>(n >> 8), static_cast<char>(n), static_cast<char>(third)};
      const Utf8Char front = utf8_front(bytes);
      bool whole = false;
      for (size_t length = 1; length <= 3; ++length) whole |= is_character(bytes.substr(0, length));
      REQUIRE((front.status == Utf8Status::kWhole) == whole);
      REQUIRE((front.status == Utf8Status::kIncomplete) == (!whole && is_beginning(bytes)));
      if (whole) REQUIRE(is_character(bytes.substr(0, front.length)));
    }
  }
}

TEST_CASE("The byte alphabet spells every byte and reads it back") {
  CHECK(spell_bytes(" \n") == "\xC4\xA0\xC4\x8A");  // Ġ, Ċ
  CHECK(spell_bytes("a!") == "a!");
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    CHECK(spelled_bytes(spell_bytes(one)) == one);
  }
  CHECK(spelled_bytes("\xEF\xBD\x9C") == "\xEF\xBD\x9C");  // a character outside of it stays
  CHECK(spelled_bytes("\xFF") == "\xFF");
}

TEST_CASE("Detokenizing gives the same text however the tokens cut the bytes") {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const std::string bytes = random_bytes(random);
    std::vector<std::string> tokens;
    for (size_t at = 0; at < bytes.size();) {
      const size_t length = std::min<size_t>(1 + random() % 5, bytes.size() - at);
      tokens.push_back(bytes.substr(at, length));
      at += length;
    }
    if (tokens.empty()) continue;
    const VocabularyTokenizer tokenizer = tokenizer_of(tokens);
    Detokenizer detokenizer(tokenizer, true);
    std::string text;
    for (int32_t token = 0; token < tokenizer.n_vocab(); ++token) {
      const std::string part = detokenizer.push(token);
      CHECK(utf8_valid_prefix(part) == part.size());
      text += part;
    }
    text += detokenizer.finish();
    CHECK(text == reference_decode(bytes));
  }
}

TEST_CASE("Detokenizing holds a character back until it is whole") {
  const VocabularyTokenizer tokenizer = tokenizer_of({"\xF0\x9F", "\x99", "\x82!", "a"});
  Detokenizer detokenizer(tokenizer, true);
  CHECK(detokenizer.push(0).empty());
  CHECK(detokenizer.push(1).empty());
  CHECK(detokenizer.push(2) == "\xF0\x9F\x99\x82!");
  CHECK(detokenizer.push(0).empty());
  CHECK(detokenizer.push(3) == kFffd + "a");
  CHECK(detokenizer.push(0).empty());
  CHECK(detokenizer.finish() == kFffd);
  CHECK(detokenizer.finish().empty());
}

TEST_CASE("Detokenizing strips SentencePiece's space once, at the start only") {
  Vocabulary vocabulary = make_vocabulary(TokenizerKind::kSentencePiece, {{"<s>", TokenType::kControl},
                                                                          {"\xE2\x96\x81hi"},
                                                                          {"\xE2\x96\x81\xE2\x96\x81x"},
                                                                          {"<0x20>", TokenType::kByte}});
  vocabulary.add_space_prefix = true;
  const VocabularyTokenizer tokenizer(vocabulary, {});
  CHECK(tokenizer.decode({1, 1}, false) == "hi hi");
  CHECK(tokenizer.decode({0, 1}, false) == "hi");     // a hidden token does not count as the first word
  CHECK(tokenizer.decode({0, 1}, true) == "<s> hi");  // a shown one does
  CHECK(tokenizer.decode({2}, false) == " x");        // one space, not all
  CHECK(tokenizer.decode({3, 1}, false) == " hi");
  Detokenizer continuing(tokenizer, false);
  CHECK(continuing.push(1) == " hi");

  vocabulary.add_space_prefix = false;
  CHECK(VocabularyTokenizer(vocabulary, {}).decode({1}, false) == " hi");
}

}  // namespace hearth::test
