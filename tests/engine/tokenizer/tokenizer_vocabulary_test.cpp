// Reading vocabularies from model files: defaults, roles, and refusals that name the key.
#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/tokenizer/same_vocabulary.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"
#include "tests/support/catch.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

const std::string kMetaSpace = "\xE2\x96\x81";
using Strings = std::vector<std::string>;
using Types = std::vector<int32_t>;
using Keys = std::function<void(GgufWriter&)>;

Vocabulary read(const Keys& keys) {
  const TempFolder folder;
  GgufWriter writer;
  keys(writer);
  writer.write(folder / "m.gguf");
  return read_vocabulary(ModelFile::open(folder / "m.gguf"));
}

std::unique_ptr<const Tokenizer> load(const Keys& keys) {
  const TempFolder folder;
  GgufWriter writer;
  keys(writer);
  writer.write(folder / "m.gguf");
  return Tokenizer::from_model(ModelFile::open(folder / "m.gguf"));
}

GgufWriter& sentencepiece(GgufWriter& writer) {
  return writer.key("tokenizer.ggml.model", "llama")
      .array("tokenizer.ggml.tokens", Strings{"<unk>", "<s>", "</s>", "<0x0A>", kMetaSpace, "a"})
      .array("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, 0, -1, -2});
}

/// Twelve letters, the last a control token; merges of the first two.
GgufWriter& byte_level(GgufWriter& writer, const std::string& last = "<end>") {
  Strings tokens = {"a", "b", "ab"};
  for (char c = 'c'; tokens.size() < 11; ++c) tokens.push_back(std::string(1, c));
  tokens.push_back(last);
  Types types(12, 1);
  types[11] = 3;
  return writer.key("tokenizer.ggml.model", "gpt2")
      .array("tokenizer.ggml.tokens", tokens)
      .array("tokenizer.ggml.token_type", types)
      .array("tokenizer.ggml.merges", Strings{"a b"});
}

void refused(const Keys& keys, const std::string& key, const std::string& detail) {
  CHECK_THROWS_AS(load(keys), ModelFileError);
  CHECK_THROWS_WITH(load(keys),
                    ContainsSubstring("m.gguf") && ContainsSubstring(key) && ContainsSubstring(detail));
}

}  // namespace

TEST_CASE("A SentencePiece file without types or flags gets Llama's") {
  const Vocabulary vocabulary = read([](GgufWriter& w) { sentencepiece(w); });
  CHECK(vocabulary.kind == TokenizerKind::kSentencePiece);
  CHECK(vocabulary.bos == 1);
  CHECK(vocabulary.eos == 2);
  CHECK(vocabulary.unk == 0);
  CHECK(vocabulary.add_bos);
  CHECK_FALSE(vocabulary.add_eos);
  CHECK(vocabulary.add_space_prefix);
  CHECK(vocabulary.end_tokens == std::vector<int32_t>{2});
  CHECK(vocabulary.types[3] == TokenType::kByte);
  CHECK(vocabulary.decoded_bytes()[3] == "\n");
  CHECK(vocabulary.decoded_bytes()[4] == " ");

  const auto tokenizer = load([](GgufWriter& w) { sentencepiece(w); });
  CHECK(tokenizer->encode("a\n", true, false) == std::vector<int32_t>{1, 4, 5, 3});
  CHECK(tokenizer->strips_leading_space());
}

TEST_CASE("Flags and ids of the file override the defaults") {
  const Vocabulary vocabulary = read([](GgufWriter& w) {
    sentencepiece(w)
        .key("tokenizer.ggml.add_bos_token", false)
        .key("tokenizer.ggml.add_eos_token", true)
        .key("tokenizer.ggml.add_space_prefix", false)
        .key("tokenizer.ggml.bos_token_id", uint32_t{2})
        .key("tokenizer.ggml.eos_token_id", uint32_t{5})
        .key("tokenizer.ggml.eot_token_id", uint32_t{4})
        .key("tokenizer.ggml.unknown_token_id", uint32_t{0xFFFFFFFF});
  });
  CHECK_FALSE(vocabulary.add_bos);
  CHECK(vocabulary.add_eos);
  CHECK_FALSE(vocabulary.add_space_prefix);
  CHECK(vocabulary.bos == 2);
  CHECK(vocabulary.unk == -1);
  CHECK(vocabulary.end_tokens == std::vector<int32_t>{2, 4, 5});  // </s> too: a control token by its name
}

TEST_CASE("Byte-level BPE without ids has no special tokens, unless Falcon's id holds a control token") {
  const Vocabulary falcon = read([](GgufWriter& w) { byte_level(w); });
  CHECK(falcon.pre == "default");
  CHECK(falcon.bos == 11);
  CHECK(falcon.eos == 11);
  CHECK(falcon.unk == -1);
  CHECK_FALSE(falcon.add_bos);
  CHECK_FALSE(falcon.add_space_prefix);
  const Vocabulary plain = read([](GgufWriter& w) {
    w.key("tokenizer.ggml.model", "gpt2").array("tokenizer.ggml.tokens", Strings(12, "x"));
  });
  CHECK(plain.eos == -1);
  CHECK(plain.end_tokens.empty());
  CHECK(read([](GgufWriter& w) { byte_level(w).key("tokenizer.ggml.pre", "llama-bpe"); }).add_bos);
  CHECK(read([](GgufWriter& w) { byte_level(w).key("tokenizer.ggml.pre", "glm4"); }).bos == -1);
}

TEST_CASE("Files that name no pre-tokenizer get their architecture's, and opt's </s> on both ends") {
  const auto of = [](const std::string& architecture, const std::string& pre) {
    return read([&](GgufWriter& w) {
      w.key("tokenizer.ggml.model", "gpt2")
          .array("tokenizer.ggml.tokens", Strings{"<s>", "<pad>", "</s>", "a"});
      w.array("tokenizer.ggml.token_type", std::vector<int32_t>{3, 3, 3, 1});
      w.key("general.architecture", architecture);
      if (!pre.empty()) w.key("tokenizer.ggml.pre", pre);
    });
  };
  CHECK(of("falcon", "").pre == "falcon");
  CHECK_FALSE(of("falcon", "").add_bos);
  CHECK(of("opt", "").pre == "gpt-2");
  CHECK(of("opt", "").bos == 2);
  CHECK(of("opt", "").eos == 2);
  CHECK(of("opt", "").add_bos);
  CHECK(of("llama", "").pre == "default");
  // The file's own value takes precedence.
  CHECK(of("opt", "default").pre == "default");
  CHECK_FALSE(of("opt", "default").add_bos);
  CHECK(of("falcon", "llama-bpe").pre == "llama-bpe");
}

TEST_CASE("Tokens known to end a turn are end and control tokens, whatever the file says") {
  for (const std::string name : {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>",
                                 "<|endoftext|>", "<|end_of_text|>"}) {
    const Vocabulary vocabulary = read([&](GgufWriter& w) {
      w.key("tokenizer.ggml.model", "gpt2").array("tokenizer.ggml.tokens", Strings{"a", name, "</s>"});
    });
    CHECK(vocabulary.end_tokens == std::vector<int32_t>{1});
    CHECK(vocabulary.types[1] == TokenType::kControl);
  }
}

TEST_CASE("The last of several equal tokens is produced, and all are decoded") {
  const auto tokenizer = load([](GgufWriter& w) {
    w.key("tokenizer.ggml.model", "gpt2")
        .array("tokenizer.ggml.tokens", Strings{"a", "a", ""})
        .array("tokenizer.ggml.merges", Strings{});
  });
  CHECK(tokenizer->encode("a", false, false) == std::vector<int32_t>{1});
  CHECK(tokenizer->decode({0, 1, 2}, false) == "aa");
}

TEST_CASE("Names of tokens that end a turn count where the tokens are special") {
  const auto ends = [](const Strings& names, int32_t type) {
    Strings tokens = {"a", "b"};
    tokens.insert(tokens.end(), names.begin(), names.end());
    Types types(tokens.size(), type);
    types[0] = types[1] = 1;
    return read([&](GgufWriter& w) {
             w.key("tokenizer.ggml.model", "gpt2")
                 .array("tokenizer.ggml.tokens", tokens)
                 .array("tokenizer.ggml.token_type", types);
           })
        .end_tokens;
  };
  using Ends = std::vector<int32_t>;
  for (const std::string name :
       {"<turn|>", "<|tool_response>", "[EOT]", "[EOS]", "<|eot|>", "<|eom|>", "<|return|>", "<|call|>",
        "[e~[", "[|endofturn|]", "<|END_OF_TURN_TOKEN|>", "<eos>"}) {
    CAPTURE(name);
    CHECK(ends({name}, 3) == Ends{2});
    CHECK(ends({name}, 4) == Ends{2});
    CHECK(ends({name}, 1).empty());
  }
  CHECK(ends({"</s>"}, 3) == Ends{2});
  CHECK(ends({"</s>"}, 4).empty());  // HTML
  // gpt-oss: <|end|> ends a message, and another message of the same answer may follow.
  CHECK(ends({"<|end|>"}, 3) == Ends{2});
  CHECK(ends({"<|end|>", "<|return|>", "<|call|>"}, 3) == Ends{3, 4});
  CHECK(ends({"<|end|>", "<|return|>"}, 3) == Ends{2, 3});
  CHECK(ends({"<|flush|>", "<|calls|>", "<|end|>"}, 3) == Ends{2, 3});
  // GLM: the next speaker's token ends a turn; Phi also has a token for users, but ends turns with <|end|>.
  CHECK(ends({"<|user|>", "<|observation|>", "<|endoftext|>"}, 3) == Ends{2, 3, 4});
  CHECK(ends({"<|user|>", "<|end|>"}, 3) == Ends{3});
  CHECK(ends({"<|user|>", "<|observation|>"}, 1).empty());
}

TEST_CASE("A WordPiece file has BERT's tokens around texts, by its keys or by BERT's ids") {
  const auto bert = [](GgufWriter& w) -> GgufWriter& {
    Strings tokens(104, "x");
    tokens[100] = "[UNK]";
    tokens[101] = "[CLS]";
    tokens[102] = "[SEP]";
    return w.key("tokenizer.ggml.model", "bert").array("tokenizer.ggml.tokens", tokens);
  };
  const Vocabulary vocabulary =
      read([&](GgufWriter& w) { bert(w).key("tokenizer.ggml.add_eos_token", false); });
  CHECK(vocabulary.kind == TokenizerKind::kWordPiece);
  CHECK(vocabulary.bos == 101);
  CHECK(vocabulary.eos == 102);
  CHECK(vocabulary.unk == 100);
  CHECK(vocabulary.add_bos);
  CHECK(vocabulary.add_eos);
  CHECK(vocabulary.lower_case);
  CHECK(vocabulary.strip_accents);
  const Vocabulary cased = read([&](GgufWriter& w) {
    bert(w)
        .key("tokenizer.ggml.cls_token_id", uint32_t{3})
        .key("tokenizer.ggml.seperator_token_id", uint32_t{4})
        .key("tokenizer.ggml.normalizer.lowercase", false);
  });
  CHECK(cased.bos == 3);
  CHECK(cased.eos == 4);
  CHECK_FALSE(cased.lower_case);
  CHECK_FALSE(cased.strip_accents);
}

TEST_CASE(
    "A unigram file has T5's tokens by default, and its keys say what becomes of spaces and characters") {
  const auto t5 = [](GgufWriter& w) -> GgufWriter& {
    return w.key("tokenizer.ggml.model", "t5")
        .array("tokenizer.ggml.tokens", Strings{"<pad>", "</s>", "<unk>", kMetaSpace, "a"})
        .array("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -1, -2});
  };
  const Vocabulary vocabulary = read([&](GgufWriter& w) { t5(w); });
  CHECK(vocabulary.kind == TokenizerKind::kUnigram);
  CHECK(vocabulary.bos == -1);
  CHECK(vocabulary.eos == 1);
  CHECK(vocabulary.unk == 2);
  CHECK_FALSE(vocabulary.add_bos);
  CHECK(vocabulary.add_eos);
  CHECK_FALSE(vocabulary.add_space_prefix);
  CHECK_FALSE(vocabulary.remove_extra_spaces);
  CHECK(vocabulary.character_map.empty());
  const Vocabulary with_keys = read([&](GgufWriter& w) {
    t5(w)
        .key("tokenizer.ggml.add_space_prefix", true)
        .key("tokenizer.ggml.remove_extra_whitespaces", true)
        .array("tokenizer.ggml.precompiled_charsmap", std::vector<int8_t>{0, -1, 0, 0});
  });
  CHECK(with_keys.add_space_prefix);
  CHECK(with_keys.remove_extra_spaces);
  CHECK(with_keys.character_map == std::string("\0\xFF\0\0", 4));
  refused([&](GgufWriter& w) { t5(w).array("tokenizer.ggml.precompiled_charsmap", Types{256}); },
          "tokenizer.ggml.precompiled_charsmap", "256");
  refused(
      [&](GgufWriter& w) {
        t5(w).array("tokenizer.ggml.precompiled_charsmap", Types{9, 0, 0, 0});
      },
      "tokenizer.ggml.precompiled_charsmap", "9 bytes");
  refused(
      [](GgufWriter& w) { w.key("tokenizer.ggml.model", "t5").array("tokenizer.ggml.tokens", Strings{"a"}); },
      "tokenizer.ggml.scores", "missing");
}

TEST_CASE(
    "Gemma 4's kind is recognized by its model or pre-tokenizer, and texts always begin with its token") {
  const auto with = [](const std::string& model, const std::string& pre) {
    return read([&](GgufWriter& w) {
      w.key("tokenizer.ggml.model", model)
          .array("tokenizer.ggml.tokens", Strings{"<eos>", "<bos>", "a"})
          .array("tokenizer.ggml.token_type", Types{3, 3, 1})
          .key("tokenizer.ggml.bos_token_id", uint32_t{1})
          .key("tokenizer.ggml.add_bos_token", false);
      if (!pre.empty()) w.key("tokenizer.ggml.pre", pre);
    });
  };
  CHECK(with("gemma4", "").kind == TokenizerKind::kCharacterBpe);
  CHECK_THROWS_WITH(with("llama", "gemma4"), ContainsSubstring("tokenizer.ggml.pre is 'gemma4'"));
  CHECK(with("gemma4", "").add_bos);
  CHECK(with("gemma4", "").end_tokens == std::vector<int32_t>{0});
  CHECK(with("gpt2", "sarvam-moe").kind == TokenizerKind::kCharacterBpe);
  CHECK_FALSE(with("gpt2", "sarvam-moe").add_bos);
  CHECK(with("gpt2", "qwen2").kind == TokenizerKind::kByteLevelBpe);
}

TEST_CASE("Gemma 4's files type <eos> as a word, and it ends an answer all the same") {
  const auto ends = [](const std::string& model) {
    return read([&](GgufWriter& w) {
             w.key("tokenizer.ggml.model", model)
                 .array("tokenizer.ggml.tokens", Strings{"a", "<eos>", "</s>", "<turn|>"})
                 .array("tokenizer.ggml.token_type", Types{1, 1, 1, 4});
           })
        .end_tokens;
  };
  CHECK(ends("gemma4") == std::vector<int32_t>{1, 3});
  CHECK(ends("gpt2") == std::vector<int32_t>{3});
}

TEST_CASE("Tokens that must not be generated are those of the key, or Gemma 4's ends of images and sound") {
  const auto gemma4 = [](GgufWriter& writer) -> GgufWriter& {
    return writer.key("tokenizer.ggml.model", "gemma4")
        .array("tokenizer.ggml.tokens", Strings{"<image|>", "<bos>", "<audio|>", "<image|>", "a"})
        .array("tokenizer.ggml.token_type", Types{3, 3, 4, 1, 1})
        .array("tokenizer.ggml.merges", Strings{});
  };
  using Tokens = std::vector<int32_t>;
  CHECK(load([&](GgufWriter& writer) { gemma4(writer); })->suppressed_tokens() == Tokens{0, 2});
  CHECK(load([&](GgufWriter& writer) {
          gemma4(writer).array("tokenizer.ggml.suppress_tokens", Types{4, 1});
        })->suppressed_tokens() == Tokens{4, 1});
  CHECK(load([&](GgufWriter& writer) { gemma4(writer).array("tokenizer.ggml.suppress_tokens", Types{}); })
            ->suppressed_tokens()
            .empty());
  CHECK(load([](GgufWriter& writer) { sentencepiece(writer); })->suppressed_tokens().empty());
  for (const int32_t wrong : {-1, 6}) {
    refused(
        [wrong](GgufWriter& writer) {
          sentencepiece(writer).array("tokenizer.ggml.suppress_tokens", Types{5, wrong});
        },
        "tokenizer.ggml.suppress_tokens", "lists " + std::to_string(wrong) + ", expected tokens from 0 to 5");
  }
}

TEST_CASE("Unknown tokenizers are refused by name, with a list of the known ones") {
  refused([](GgufWriter& w) { w.key("tokenizer.ggml.model", "rwkv"); }, "tokenizer.ggml.model", R"("rwkv")");
  refused([](GgufWriter& w) { w.key("tokenizer.ggml.model", "rwkv"); }, "tokenizer.ggml.model", "gpt2");
  const auto new_one = [](GgufWriter& w) { byte_level(w).key("tokenizer.ggml.pre", "new-one"); };
  refused(new_one, "tokenizer.ggml.pre", R"("new-one")");
  refused(new_one, "tokenizer.ggml.pre", "docs/models.md");
  refused(new_one, "tokenizer.ggml.pre", "use a newer version");
  refused([](GgufWriter&) {}, "tokenizer.ggml.model", "");
}

TEST_CASE("Damaged vocabularies are refused with the wrong key") {
  const auto gpt2 = [](GgufWriter& w) -> GgufWriter& { return w.key("tokenizer.ggml.model", "gpt2"); };
  const auto llama = [](GgufWriter& w) -> GgufWriter& { return w.key("tokenizer.ggml.model", "llama"); };
  refused([&](GgufWriter& w) { gpt2(w); }, "tokenizer.ggml.tokens", "missing");
  refused([&](GgufWriter& w) { gpt2(w).array("tokenizer.ggml.tokens", Strings{}); }, "tokenizer.ggml.tokens",
          "empty");
  refused([&](GgufWriter& w) { gpt2(w).array("tokenizer.ggml.tokens", Strings{"a"}); },
          "tokenizer.ggml.merges", "missing");
  refused([&](GgufWriter& w) { llama(w).array("tokenizer.ggml.tokens", Strings{"a"}); },
          "tokenizer.ggml.scores", "missing");
  refused(
      [&](GgufWriter& w) {
        llama(w)
            .array("tokenizer.ggml.tokens", Strings{"a"})
            .array("tokenizer.ggml.scores", std::vector<float>{1, 2});
      },
      "tokenizer.ggml.scores", "2 entries, expected 1");
  refused(
      [&](GgufWriter& w) {
        llama(w)
            .array("tokenizer.ggml.tokens", Strings{"a"})
            .array("tokenizer.ggml.scores", std::vector<float>{NAN});
      },
      "tokenizer.ggml.scores[0]", "not a number");
  refused(
      [&](GgufWriter& w) {
        sentencepiece(w).array("tokenizer.ggml.token_type", Types{1, 1});
      },
      "tokenizer.ggml.token_type", "2 entries, expected 6");
  refused(
      [&](GgufWriter& w) {
        sentencepiece(w).array("tokenizer.ggml.token_type", Types{2, 3, 3, 6, 1, 7});
      },
      "tokenizer.ggml.token_type[5]", "7, expected 0 to 6");
  refused(
      [&](GgufWriter& w) {
        sentencepiece(w).array("tokenizer.ggml.token_type", Types{2, 3, 3, 6, 1, 6});
      },
      "tokenizer.ggml.token_type[5]", "'a'");
  refused([&](GgufWriter& w) { byte_level(w).key("tokenizer.ggml.bos_token_id", uint32_t{12}); },
          "tokenizer.ggml.bos_token_id", "12, expected a token from 0 to 11");
  refused([&](GgufWriter& w) { byte_level(w).key("tokenizer.ggml.eot_token_id", int32_t{-2}); },
          "tokenizer.ggml.eot_token_id", "-2");
  refused(
      [&](GgufWriter& w) {
        byte_level(w)
            .key("tokenizer.ggml.bos_token_id", int32_t{-1})
            .key("tokenizer.ggml.add_bos_token", true);
      },
      "tokenizer.ggml.add_bos_token", "names no token");
  refused([&](GgufWriter& w) { byte_level(w).key("tokenizer.ggml.eos_token_id", "x"); },
          "tokenizer.ggml.eos_token_id", "");
}

TEST_CASE("Fill-in-the-middle tokens are found by their texts, if they are control or user-defined tokens") {
  const auto with_texts = [](const Strings& texts, int32_t type) {
    Strings tokens = {"a", "b", "ab"};
    tokens.insert(tokens.end(), texts.begin(), texts.end());
    Types types(tokens.size(), 1);
    std::fill(types.begin() + 3, types.end(), type);
    return read([&](GgufWriter& w) {
             w.key("tokenizer.ggml.model", "gpt2")
                 .array("tokenizer.ggml.tokens", tokens)
                 .array("tokenizer.ggml.token_type", types)
                 .array("tokenizer.ggml.merges", Strings{"a b"});
           })
        .fim;
  };
  const Strings qwen = {"<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>",
                        "<|fim_pad|>",    "<|repo_name|>",  "<|file_sep|>"};
  const FimTokens found = with_texts(qwen, 3);
  CHECK(found.can_fill());
  CHECK(found.all() == std::vector<int32_t>{3, 4, 5, 6, 7, 8});
  CHECK(found.prefix == 3);
  CHECK(found.middle == 4);
  CHECK(found.file == 8);
  CHECK(with_texts(qwen, 4).can_fill());
  CHECK_FALSE(with_texts(qwen, 1).can_fill());
  CHECK_FALSE(with_texts({"<|fim_prefix|>", "<|fim_suffix|>"}, 3).can_fill());  // no middle
  CHECK(with_texts({"<PRE>", "<SUF>", "<MID>"}, 3).all() == std::vector<int32_t>{3, 4, 5});
  CHECK(with_texts({"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"}, 3).suffix == 4);
  const FimTokens codestral = with_texts({"[PREFIX]", "[MIDDLE]", "[SUFFIX]"}, 3);
  CHECK(codestral.can_fill());
  CHECK(codestral.suffix_first);
  CHECK(codestral.middle == -1);
  const FimTokens starcoder = with_texts(
      {"<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>", "<filename>", "<reponame>"}, 3);
  CHECK(starcoder.file == 7);
  CHECK(starcoder.repo == 8);
}

TEST_CASE("Fill-in-the-middle tokens are those that the file's keys name, older names included") {
  const FimTokens named = read([](GgufWriter& w) {
                            byte_level(w)
                                .key("tokenizer.ggml.fim_pre_token_id", uint32_t{3})
                                .key("tokenizer.ggml.suffix_token_id", uint32_t{4})
                                .key("tokenizer.ggml.fim_mid_token_id", uint32_t{5})
                                .key("tokenizer.ggml.middle_token_id", uint32_t{6});
                          }).fim;
  CHECK(named.prefix == 3);
  CHECK(named.suffix == 4);
  CHECK(named.middle == 5);
  CHECK(named.can_fill());
  CHECK_FALSE(read([](GgufWriter& w) { byte_level(w); }).fim.can_fill());
  refused([](GgufWriter& w) { byte_level(w).key("tokenizer.ggml.fim_pre_token_id", uint32_t{12}); },
          "tokenizer.ggml.fim_pre_token_id", "12");
}

TEST_CASE("Vocabularies that differ only in unused padding are equal, else the first difference is named") {
  const auto with = [](Strings texts, Types types = {}) {
    Vocabulary vocabulary;
    for (size_t i = 0; i < texts.size(); ++i)
      vocabulary.types.push_back(i < types.size() ? static_cast<TokenType>(types[i]) : TokenType::kNormal);
    vocabulary.texts = std::move(texts);
    vocabulary.bos = 0;
    vocabulary.eos = 1;
    return vocabulary;
  };
  const Vocabulary model = with({"<s>", "</s>", "a"});
  CHECK_FALSE(vocabulary_difference(model, model));
  const Vocabulary padded = with({"<s>", "</s>", "a", "[PAD3]", "[PAD4]"}, {3, 3, 1, 5, 5});
  CHECK_FALSE(vocabulary_difference(model, padded));
  CHECK_FALSE(vocabulary_difference(padded, model));
  CHECK_THAT(*vocabulary_difference(model, with({"<s>", "</s>", "b"})),
             ContainsSubstring("token 2 is \"b\" there and \"a\" in the model"));
  CHECK_THAT(*vocabulary_difference(model, with({"<s>", "</s>", "a", "b"})),
             ContainsSubstring("4 tokens there and 3 in the model"));
  Vocabulary other = model;
  other.bos = -1;
  CHECK_THAT(*vocabulary_difference(model, other), ContainsSubstring("begin token is none"));
  other = model;
  other.eos = 2;
  CHECK_THAT(*vocabulary_difference(model, other), ContainsSubstring("end token is 2 (\"a\")"));
}

}  // namespace hearth::test
