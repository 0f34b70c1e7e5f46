// Text and tokens of a sequence: nothing is lost or sent early, and tokens are sent with their text.
#include "server/api/answer/token_text.h"

#include <random>
#include <string>
#include <vector>

#include "tests/server/api/api_vocabulary.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

TokenEvent event_of(int32_t token) { return {.token = token, .logprob = -0.5F, .top = {}}; }

struct Collected {
  std::string text;
  std::vector<PlacedToken> tokens;
};

void add(Collected& all, TextPiece piece) {
  all.text += piece.text;
  for (PlacedToken& token : piece.tokens) all.tokens.push_back(std::move(token));
}

Collected run(TextStream& stream, const std::vector<int32_t>& tokens) {
  Collected all;
  for (const int32_t token : tokens) {
    add(all, stream.push(event_of(token)));
    if (stream.stopped()) return all;
  }
  add(all, stream.finish());
  return all;
}

TEST_CASE("characters are emitted whole and tokens go with them") {
  const ApiVocabulary vocabulary;
  TextStream stream(vocabulary, false, {}, true);
  CHECK(stream.push(event_of('a')).tokens.size() == 1);
  const std::string euro = "€";
  for (size_t i = 0; i < 2; ++i) {
    const TextPiece piece = stream.push(event_of(static_cast<unsigned char>(euro[i])));
    CHECK(piece.text.empty());
    CHECK(piece.tokens.empty());
  }
  const TextPiece piece = stream.push(event_of(static_cast<unsigned char>(euro[2])));
  CHECK(piece.text == euro);
  REQUIRE(piece.tokens.size() == 3);
  for (const PlacedToken& token : piece.tokens) CHECK(token.offset == 1);
  CHECK(stream.push(event_of('b')).tokens.at(0).offset == 2);
}

TEST_CASE("an incomplete character at the end becomes U+FFFD and its tokens come out") {
  const ApiVocabulary vocabulary;
  TextStream stream(vocabulary, false, {"never"}, true);
  const Collected all = run(stream, {'o', 'k', 0xF0, 0x9F});
  CHECK(all.text == "ok\xEF\xBF\xBD");
  CHECK(all.tokens.size() == 4);
}

TEST_CASE("text withheld for a stop string is sent when the tokens run out") {
  const ApiVocabulary vocabulary;
  TextStream stream(vocabulary, false, {"\n\n\n"}, true);
  const Collected all = run(stream, bytes_of("end\n\n"));
  CHECK(all.text == "end\n\n");
  CHECK(all.tokens.size() == 5);
  CHECK_FALSE(stream.stopped());
}

TEST_CASE("a stop string inside a token cuts the text and keeps the token that spans the cut") {
  const ApiVocabulary vocabulary({"one. Two", "xyz"});
  constexpr int32_t kWord = ApiVocabulary::kFirstWord;
  TextStream stream(vocabulary, false, {". T"}, true);
  Collected all;
  add(all, stream.push(event_of('>')));
  add(all, stream.push(event_of(kWord)));
  CHECK(stream.stopped());
  CHECK(all.text == ">one");
  REQUIRE(all.tokens.size() == 2);
  CHECK(all.tokens[1].event.token == kWord);
  CHECK(stream.n_tokens() == 2);
  CHECK(stream.finish().text.empty());
}

TEST_CASE("tokens of a stop string are dropped with it") {
  const ApiVocabulary vocabulary;
  TextStream stream(vocabulary, false, {"STOP"}, true);
  const Collected all = run(stream, bytes_of("goSTOPmore"));
  CHECK(all.text == "go");
  CHECK(all.tokens.size() == 2);
  CHECK(stream.n_tokens() == 6);  // they were generated nevertheless
  CHECK(stream.sum_logprob() == Approx(-3.0));
}

TEST_CASE("control tokens and ids beyond the vocabulary have no text") {
  const ApiVocabulary vocabulary;
  TextStream stream(vocabulary, false, {}, true);
  const Collected all = run(stream, {'a', ApiVocabulary::kTurn, vocabulary.n_vocab() + 7, 'b'});
  CHECK(all.text == "ab");
  CHECK(all.tokens.size() == 4);
}

TEST_CASE("the space before the first word is removed only at the start of a text") {
  const ApiVocabulary vocabulary({" Yes"}, false, true);
  TextStream at_start(vocabulary, true, {}, false);
  CHECK(at_start.push(event_of(ApiVocabulary::kFirstWord)).text == "Yes");
  CHECK(at_start.push(event_of(ApiVocabulary::kFirstWord)).text == " Yes");
  TextStream continuing(vocabulary, false, {}, false);
  CHECK(continuing.push(event_of(ApiVocabulary::kFirstWord)).text == " Yes");
}

TEST_CASE("the pieces of any tokens join to the whole text, and every token's offset is right") {
  const ApiVocabulary vocabulary({"ab", "é", "ba\n", "\xC3", "aé"});
  std::mt19937 random(7);
  for (int round = 0; round < 5000; ++round) {
    std::vector<int32_t> tokens;
    for (size_t i = 0, n = random() % 12; i < n; ++i) {
      const int32_t kinds[] = {'a',
                               'b',
                               0xC3,
                               0xA9,
                               ApiVocabulary::kTurn,
                               static_cast<int32_t>(ApiVocabulary::kFirstWord + random() % 5)};
      tokens.push_back(kinds[random() % 6]);
    }
    TextStream stream(vocabulary, false, {"ab", "éé\n"}, true);
    Collected all;
    for (const int32_t token : tokens) {
      TextPiece piece = stream.push(event_of(token));
      add(all, std::move(piece));
      // Once part of a token's text is shown, the token cannot be held back longer than its own text.
      for (const PlacedToken& placed : all.tokens) REQUIRE(placed.offset <= count_characters(all.text));
      if (stream.stopped()) break;
    }
    if (!stream.stopped()) add(all, stream.finish());
    const std::string whole = vocabulary.decode(tokens, false);
    REQUIRE(whole.compare(0, all.text.size(), all.text) == 0);
    if (!stream.stopped()) {
      REQUIRE(all.text == whole);
      REQUIRE(all.tokens.size() == tokens.size());
    }
    int64_t last = 0;
    for (size_t i = 0; i < all.tokens.size(); ++i) {
      REQUIRE(all.tokens[i].event.token == tokens[i]);
      REQUIRE(all.tokens[i].offset >= last);
      last = all.tokens[i].offset;
      if (stream.stopped()) REQUIRE(last < count_characters(all.text));
    }
  }
}

}  // namespace
}  // namespace hearth
