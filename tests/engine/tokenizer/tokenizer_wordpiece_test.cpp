// WordPiece: normalization, words, unknown words and decoding. test_tokenizer_oracle.py compares it with
// PyPI's tokenizers.
#include "tests/engine/tokenizer/tokenizer_vocabularies.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

const std::string kStart = "\xE2\x96\x81";  // U+2581

/// [CLS] 0, [SEP] 1, [UNK] 2, then words and their continuations.
Vocabulary bert() {
  Vocabulary vocabulary = make_vocabulary(TokenizerKind::kWordPiece, {{"[CLS]", TokenType::kControl},
                                                                      {"[SEP]", TokenType::kControl},
                                                                      {"[UNK]", TokenType::kControl},
                                                                      {kStart + "token"},
                                                                      {"token"},
                                                                      {"ize"},
                                                                      {"izer"},
                                                                      {"s"},
                                                                      {kStart + "cafe"},
                                                                      {kStart + "Cafe"},
                                                                      {kStart + "\xE4\xB8\xAD"},
                                                                      {kStart + "!"},
                                                                      {kStart + "a"},
                                                                      {"a"}});
  vocabulary.bos = 0;
  vocabulary.eos = 1;
  vocabulary.unk = 2;
  vocabulary.add_bos = vocabulary.add_eos = true;
  vocabulary.lower_case = vocabulary.strip_accents = true;
  return vocabulary;
}

}  // namespace

TEST_CASE("WordPiece takes the longest token at a word's start, then the longest continuations") {
  CHECK(encode(bert(), "tokenizers") == Ids{3, 6, 7});
  CHECK(encode(bert(), "tokenize tokens") == Ids{3, 5, 3, 7});
  CHECK(encode(bert(), "tokentoken") == Ids{3, 4});
  CHECK(encode(bert(), "") == Ids{});
  CHECK(encode(bert(), " \t\r\n") == Ids{});
}

TEST_CASE("A word that WordPiece's tokens do not cover is one unknown token") {
  CHECK(encode(bert(), "tokenx token") == Ids{2, 3});
  CHECK(encode(bert(), "izer") == Ids{2});  // only continues words
  CHECK(encode(bert(), std::string(100, 'a')) == Ids([] {
          Ids ids(100, 13);
          ids[0] = 12;
          return ids;
        }()));
  CHECK(encode(bert(), std::string(101, 'a')) == Ids{2});
  Vocabulary without = bert();
  without.unk = -1;
  CHECK(encode(without, "tokenx token") == Ids{3});
}

TEST_CASE("WordPiece's text is lower case, without accents and control characters, as the model has it") {
  CHECK(encode(bert(), "CAF\xC3\x89") == Ids{8});
  CHECK(encode(bert(), "cafe\xCC\x81") == Ids{8});
  CHECK(encode(bert(), std::string_view("c\0a\xE2\x80\x8B\xEF\xBF\xBD\x07"
                                        "fe",
                                        12)) == Ids{8});
  CHECK(encode(bert(),
               "ca\xFF"
               "fe") == Ids{8});  // not UTF-8
  Vocabulary cased = bert();
  cased.lower_case = cased.strip_accents = false;
  CHECK(encode(cased, "Cafe cafe CAFE caf\xC3\xA9") == Ids{9, 8, 2, 2});
}

TEST_CASE("Punctuation and ideographs are words of their own to WordPiece") {
  CHECK(encode(bert(), "token!!cafe") == Ids{3, 11, 11, 8});
  CHECK(encode(bert(),
               "\xE4\xB8\xAD\xE4\xB8\xAD"
               "a") == Ids{10, 10, 12});
}

TEST_CASE("WordPiece puts its tokens around texts, and decodes with spaces between words") {
  const VocabularyTokenizer tokenizer(bert(), {});
  CHECK(tokenizer.encode("token", true, false) == Ids{0, 3, 1});
  CHECK(tokenizer.encode("[SEP] token", false, true) == Ids{1, 3});
  CHECK(tokenizer.encode("[SEP]", false, false) == Ids{2, 2, 2});
  CHECK(tokenizer.decode({0, 3, 6, 7, 8, 11, 1}, false) == "tokenizers cafe !");
}

}  // namespace hearth::test
