// tokenizer.model: pieces, the normalizer's settings, and damage.
#include "profiler/convert/sentencepiece_file.h"

#include <cstring>

#include "engine/model/model_file.h"
#include "kernels/base/base64.h"
#include "tests/support/catch.h"

namespace hearth::convert {
namespace {

std::string field(int number, int kind, const std::string& payload) {
  std::string out(1, static_cast<char>(number << 3 | kind));
  if (kind == 2) out += static_cast<char>(payload.size());
  return out + payload;
}

std::string piece(const std::string& text, float score, int type) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &score, 4);
  return field(1, 2,
               field(1, 2, text) + field(2, 5, bytes) + field(3, 0, std::string(1, static_cast<char>(type))));
}

}  // namespace

TEST_CASE("sentencepiece_file: pieces and settings are read, other fields skipped", "[sentencepiece_file]") {
  const std::string bytes = piece("<unk>", 0.0f, 2) + field(9, 2, "other") +
                            piece("\xE2\x96\x81the", -1.5f, 1) + field(2, 2, field(3, 0, "\x02")) +
                            field(3, 2, field(2, 2, "map") + field(3, 0, std::string(1, '\0')));
  const SentencePieceFile file = read_sentencepiece_file(bytes, "tokenizer.model");
  REQUIRE(file.pieces.size() == 2);
  CHECK(file.pieces[0].type == 2);
  CHECK(file.pieces[1].text == "\xE2\x96\x81the");
  CHECK(file.pieces[1].score == -1.5f);
  CHECK_FALSE(file.unigram);
  CHECK_FALSE(file.add_dummy_prefix);
  CHECK(file.remove_extra_whitespaces);
  CHECK(file.character_map == "map");
}

TEST_CASE("sentencepiece_file: damaged files are refused", "[sentencepiece_file]") {
  const std::string whole = piece("abc", 1.0f, 1);
  for (size_t n = 0; n < whole.size(); ++n) {
    INFO(n);
    CHECK_THROWS_AS(read_sentencepiece_file(whole.substr(0, n), "t"), ModelFileError);
  }
  CHECK_THROWS_AS(read_sentencepiece_file("\x0b", "t"), ModelFileError);  // an invalid kind of field
  CHECK_THROWS_AS(read_sentencepiece_file(std::string(11, '\xff'), "t"),
                  ModelFileError);  // an endless number
}

TEST_CASE("base64: bytes of any number", "[base64]") {
  CHECK(decoded_base64("") == "");
  CHECK(decoded_base64("TQ==") == "M");
  CHECK(decoded_base64("TWE=") == "Ma");
  CHECK(decoded_base64("TWFu") == "Man");
  CHECK(decoded_base64("TWFuTQ") == "ManM");
  CHECK(decoded_base64("/+8=") == "\xff\xef");
  CHECK_FALSE(decoded_base64("T"));
  CHECK_FALSE(decoded_base64("TW F"));
}

}  // namespace hearth::convert
