// Reads the tokenizer.ggml.* keys of a model file: see the header.
#include "engine/tokenizer/vocabulary.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "engine/text/byte_alphabet.h"
#include "engine/text/pre_tokenizer.h"
#include "engine/text/space_sign.h"
#include "engine/tokenizer/end_tokens.h"
#include "kernels/base/file_error.h"

namespace hearth {
namespace {

constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr const char* kScores = "tokenizer.ggml.scores";
constexpr const char* kTypes = "tokenizer.ggml.token_type";

// Maximum number of tokens. Ids are int32, and BPE gives its intermediate symbols the numbers after the token
// ids. The largest known vocabularies have 2^18 tokens.
constexpr size_t kMostTokens = size_t{1} << 27;

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  file_error::fail(file_error::file_label(file), what);
}

void check_length(const Vocabulary& vocabulary, const char* key, size_t found) {
  if (found == vocabulary.texts.size()) return;
  refuse(vocabulary.file, std::string(key) + " has " + std::to_string(found) + " entries, expected " +
                              std::to_string(vocabulary.texts.size()) + ", one for each of " + kTokens +
                              "; the file is damaged");
}

struct KindName {
  std::string_view model;
  TokenizerKind kind;
};
constexpr std::array kKindNames = {
    KindName{"llama", TokenizerKind::kSentencePiece}, KindName{"gpt2", TokenizerKind::kByteLevelBpe},
    KindName{"gemma4", TokenizerKind::kCharacterBpe}, KindName{"bert", TokenizerKind::kWordPiece},
    KindName{"t5", TokenizerKind::kUnigram},
};
/// Files with these pre-tokenizer names use BPE over characters, although they name the tokenizer model
/// "gpt2".
constexpr std::array<std::string_view, 3> kCharacterBpeNames = {"gemma4", "granite-embed-multi-311m",
                                                                "sarvam-moe"};

TokenizerKind read_kind(const ModelFile& file) {
  const std::string_view model = file.get_string("tokenizer.ggml.model");
  const std::string_view pre = file.find_string("tokenizer.ggml.pre").value_or("");
  if (model == "gpt2" &&
      std::find(kCharacterBpeNames.begin(), kCharacterBpeNames.end(), pre) != kCharacterBpeNames.end())
    return TokenizerKind::kCharacterBpe;
  if (model == "llama" && pre == "gemma4") {
    refuse(file.path().string(),
           "tokenizer.ggml.model is 'llama' (SentencePiece), but tokenizer.ggml.pre is 'gemma4' (BPE over "
           "characters); take a file that another program converted");
  }
  const auto row = std::find_if(kKindNames.begin(), kKindNames.end(),
                                [&](const KindName& name) { return name.model == model; });
  if (row != kKindNames.end()) return row->kind;
  refuse(file.path().string(),
         "tokenizer.ggml.model is " + file_error::quoted(model) +
             ", which is not supported; supported are 'llama' (SentencePiece), 'gpt2' (byte-level "
             "BPE), 'gemma4' (BPE over characters), 'bert' (WordPiece) and 't5' (unigram)");
}

/// The defaults of an architecture for files older than the key tokenizer.ggml.pre.
struct OldFile {
  std::string_view architecture;
  std::string_view pre;
  int32_t end = -1;  // the token that begins and ends texts; -1: the default of newer files
};
constexpr std::array kOldFiles = {
    OldFile{"falcon", "falcon"},
    OldFile{"opt", "gpt-2", 2},
};

/// Returns the row of the file's architecture if the file does not name its pre-tokenizer. Returns null if
/// the file names one, or if the architecture has no row.
const OldFile* old_file(const ModelFile& file) {
  if (!file.find_string("tokenizer.ggml.pre").value_or("").empty()) return nullptr;
  const std::string_view architecture = file.find_string("general.architecture").value_or("");
  const auto row = std::find_if(kOldFiles.begin(), kOldFiles.end(),
                                [&](const OldFile& old) { return old.architecture == architecture; });
  return row == kOldFiles.end() ? nullptr : &*row;
}

std::string read_pre(const ModelFile& file) {
  const std::string name(file.find_string("tokenizer.ggml.pre").value_or(""));
  if (name.empty()) {
    const OldFile* old = old_file(file);
    return std::string(old != nullptr ? old->pre : "default");
  }
  if (PreTokenizer::knows(name)) return name;
  refuse(file.path().string(),
         "tokenizer.ggml.pre is " + file_error::quoted(name) +
             ", a pre-tokenizer that this version of Hearth does not know; use a newer version, or write "
             "the name of a "
             "known one that cuts text alike into the file (docs/models.md lists them and says how)");
}

void read_texts(const ModelFile& file, Vocabulary& vocabulary) {
  const auto texts = file.find_strings(kTokens);
  if (!texts) refuse(vocabulary.file, std::string(kTokens) + " is missing, so the model has no vocabulary");
  if (texts->empty()) refuse(vocabulary.file, std::string(kTokens) + " is empty, expected the vocabulary");
  if (texts->size() > kMostTokens) {
    refuse(vocabulary.file, std::string(kTokens) + " has " + std::to_string(texts->size()) +
                                " entries, expected at most " + std::to_string(kMostTokens));
  }
  vocabulary.texts.assign(texts->begin(), texts->end());
}

void read_scores(const ModelFile& file, Vocabulary& vocabulary) {
  std::optional<std::vector<float>> scores = file.find_floats(kScores);
  if (!scores) {
    if (vocabulary.kind == TokenizerKind::kSentencePiece || vocabulary.kind == TokenizerKind::kUnigram) {
      refuse(vocabulary.file, std::string(kScores) + " is missing, expected one score for each token");
    }
    scores.emplace(vocabulary.texts.size(), 0.0F);
  }
  check_length(vocabulary, kScores, scores->size());
  const auto nan =
      std::find_if(scores->begin(), scores->end(), [](float score) { return std::isnan(score); });
  if (nan != scores->end()) {
    refuse(vocabulary.file, std::string(kScores) + "[" + std::to_string(nan - scores->begin()) +
                                "] is not a number; the file is damaged");
  }
  vocabulary.scores = std::move(*scores);
}

/// Returns the byte named by a token such as "<0x0A>"; nullopt for other texts.
std::optional<uint8_t> named_byte(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  uint8_t byte = 0;
  const char* end = text.data() + 5;
  const auto [stop, error] = std::from_chars(text.data() + 3, end, byte, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return byte;
}

/// Guesses a token's type if the file has no types, from the names that SentencePiece and BERT use.
TokenType guess_type(std::string_view text) {
  constexpr std::array<std::string_view, 7> kControls = {"<s>",   "</s>",  "<pad>", "[CLS]",
                                                         "[SEP]", "[PAD]", "[MASK]"};
  if (named_byte(text)) return TokenType::kByte;
  if (text == "<unk>" || text == "[UNK]") return TokenType::kUnknown;
  const bool is_control = std::find(kControls.begin(), kControls.end(), text) != kControls.end();
  return is_control ? TokenType::kControl : TokenType::kNormal;
}

void read_types(const ModelFile& file, Vocabulary& vocabulary) {
  const auto types = file.find_ints(kTypes);
  if (!types) {
    for (const std::string& text : vocabulary.texts) {
      vocabulary.types.push_back(vocabulary.spells_spaces() ? guess_type(text) : TokenType::kNormal);
    }
    return;
  }
  check_length(vocabulary, kTypes, types->size());
  for (size_t i = 0; i < types->size(); ++i) {
    const int64_t type = (*types)[i];
    const std::string where = std::string(kTypes) + "[" + std::to_string(i) + "] is " + std::to_string(type);
    if (type < 0 || type > static_cast<int64_t>(TokenType::kByte)) {
      refuse(vocabulary.file, where + ", expected 0 to 6; the file is damaged");
    }
    vocabulary.types.push_back(static_cast<TokenType>(type));
    if (vocabulary.spells_spaces() && vocabulary.types[i] == TokenType::kByte &&
        !named_byte(vocabulary.texts[i])) {
      refuse(vocabulary.file, where + " (a byte), but the token is '" + vocabulary.texts[i].substr(0, 80) +
                                  "', expected one like '<0x0A>'; the file is damaged");
    }
  }
}

/// The values that a kind of tokenizer uses for absent keys, as in llama.cpp. An id of -1 means that there is
/// no such token.
struct Defaults {
  int32_t bos = -1;
  int32_t eos = -1;
  int32_t unk = -1;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;
};

Defaults byte_level_defaults(const ModelFile& file, const std::string& pre) {
  const PreTokenizer::Habits habits = PreTokenizer::habits(pre);
  const OldFile* old = old_file(file);
  const bool one_end = old != nullptr && old->end >= 0;
  const int32_t end = one_end ? old->end : 11;  // 11: Falcon's end token
  return {.bos = habits.has_bos ? end : -1, .eos = end, .add_bos = habits.add_bos || one_end};
}

Defaults defaults_of(const ModelFile& file, const Vocabulary& vocabulary) {
  switch (vocabulary.kind) {
    case TokenizerKind::kSentencePiece:
      return {.bos = 1, .eos = 2, .unk = 0, .add_bos = true, .add_space_prefix = true};
    case TokenizerKind::kByteLevelBpe:
      return byte_level_defaults(file, vocabulary.pre);
    case TokenizerKind::kCharacterBpe:
      return {.add_bos = true};
    case TokenizerKind::kWordPiece:
      return {.bos = 101, .eos = 102, .unk = 100, .add_bos = true, .add_eos = true};
    case TokenizerKind::kUnigram:
      return {.eos = 1, .unk = 2, .add_eos = true};
  }
  return {};
}

/// Reads the tokens that BERT puts before and after a text. Their ids have separate keys. All BERT models add
/// both tokens, so this ignores the add_bos and add_eos flags, which converters copy from other tokenizers'
/// settings.
void read_bert_roles(const ModelFile& file, const Defaults& defaults, Vocabulary& vocabulary) {
  const auto read = [&](const char* key, const char* other, int32_t by_default) {
    const int32_t found = read_token_id(file, vocabulary, key, -1);
    return found >= 0 ? found : read_token_id(file, vocabulary, other, by_default);
  };
  vocabulary.bos = read("tokenizer.ggml.bos_token_id", "tokenizer.ggml.cls_token_id", defaults.bos);
  vocabulary.eos =
      read("tokenizer.ggml.seperator_token_id", "tokenizer.ggml.eos_token_id", defaults.eos);  // spelled this
                                                                                               // way in GGUF
  vocabulary.add_bos = vocabulary.bos >= 0;
  vocabulary.add_eos = vocabulary.eos >= 0;
  vocabulary.lower_case = file.find_bool("tokenizer.ggml.normalizer.lowercase").value_or(true);
  vocabulary.strip_accents =
      file.find_bool("tokenizer.ggml.normalizer.strip_accents").value_or(vocabulary.lower_case);
}

void read_roles(const ModelFile& file, Vocabulary& vocabulary) {
  const Defaults defaults = defaults_of(file, vocabulary);
  vocabulary.unk = read_token_id(file, vocabulary, "tokenizer.ggml.unknown_token_id", defaults.unk);
  if (vocabulary.kind == TokenizerKind::kWordPiece) {
    read_bert_roles(file, defaults, vocabulary);
    return;
  }
  vocabulary.bos = read_token_id(file, vocabulary, "tokenizer.ggml.bos_token_id", defaults.bos);
  vocabulary.eos = read_token_id(file, vocabulary, "tokenizer.ggml.eos_token_id", defaults.eos);
  const auto add_bos = file.find_bool("tokenizer.ggml.add_bos_token");
  const auto add_eos = file.find_bool("tokenizer.ggml.add_eos_token");
  if (add_bos.value_or(false) && vocabulary.bos < 0) {
    refuse(vocabulary.file,
           "tokenizer.ggml.add_bos_token is true, but tokenizer.ggml.bos_token_id names no token");
  }
  if (add_eos.value_or(false) && vocabulary.eos < 0) {
    refuse(vocabulary.file,
           "tokenizer.ggml.add_eos_token is true, but tokenizer.ggml.eos_token_id names no token");
  }
  vocabulary.add_bos = add_bos.value_or(defaults.add_bos && vocabulary.bos >= 0);
  vocabulary.add_eos = add_eos.value_or(defaults.add_eos && vocabulary.eos >= 0);
  // Without its begin token, Gemma 4 answers nonsense. The first files of Gemma 4 set add_bos_token to false,
  // so this key is ignored.
  if (file.get_string("tokenizer.ggml.model") == "gemma4") vocabulary.add_bos = vocabulary.bos >= 0;
  const bool may_prefix =
      vocabulary.kind == TokenizerKind::kSentencePiece || vocabulary.kind == TokenizerKind::kUnigram;
  vocabulary.add_space_prefix =
      may_prefix && file.find_bool("tokenizer.ggml.add_space_prefix").value_or(defaults.add_space_prefix);
}

/// Reads the tokens that must not be generated. Gemma 4's first files lack the key, so its ends of images and
/// sound are found by their texts.
void read_suppressed(const ModelFile& file, Vocabulary& vocabulary) {
  constexpr const char* kSuppressed = "tokenizer.ggml.suppress_tokens";
  constexpr std::array<std::string_view, 2> kGemma4Ends = {"<image|>", "<audio|>"};
  if (const auto listed = file.find_ints(kSuppressed)) {
    for (const int64_t token : *listed) {
      if (token < 0 || token >= vocabulary.size()) {
        refuse(vocabulary.file, std::string(kSuppressed) + " lists " + std::to_string(token) +
                                    ", expected tokens from 0 to " + std::to_string(vocabulary.size() - 1) +
                                    "; the file is damaged");
      }
      vocabulary.suppressed_tokens.push_back(static_cast<int32_t>(token));
    }
    return;
  }
  if (file.get_string("tokenizer.ggml.model") != "gemma4") return;
  for (int32_t token = 0; token < vocabulary.size(); ++token) {
    if (vocabulary.types[token] != TokenType::kControl && vocabulary.types[token] != TokenType::kUserDefined)
      continue;
    if (std::ranges::find(kGemma4Ends, vocabulary.texts[token]) != kGemma4Ends.end())
      vocabulary.suppressed_tokens.push_back(token);
  }
}

void read_unigram(const ModelFile& file, Vocabulary& vocabulary) {
  constexpr const char* kMap = "tokenizer.ggml.precompiled_charsmap";
  vocabulary.remove_extra_spaces = file.find_bool("tokenizer.ggml.remove_extra_whitespaces").value_or(false);
  const auto bytes = file.find_ints(kMap);
  if (!bytes) return;
  for (const int64_t byte : *bytes) {
    if (byte < -128 || byte > 255) {
      refuse(vocabulary.file,
             std::string(kMap) + " holds " + std::to_string(byte) + ", expected bytes; the file is damaged");
    }
    vocabulary.character_map.push_back(static_cast<char>(byte));
  }
}

std::string with_spaces(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool is_space = text.substr(at, kSpaceSign.size()) == kSpaceSign;
    out.push_back(is_space ? ' ' : text[at]);
    at += is_space ? kSpaceSign.size() : 1;
  }
  return out;
}

}  // namespace

bool Vocabulary::is_plain(int32_t token) const {
  const TokenType type = types[token];
  return type == TokenType::kNormal || type == TokenType::kUndefined || type == TokenType::kUnused;
}

int32_t read_token_id(const ModelFile& file, const Vocabulary& vocabulary, const char* key,
                      int32_t by_default) {
  // Some converters write the largest unsigned number as the id of a token that the model does not have.
  constexpr int64_t kWrittenNone = 0xFFFFFFFF;
  const auto id = file.find_int(key);
  if (id && (*id == kWrittenNone || *id == -1)) return -1;
  if (id && (*id < 0 || *id >= vocabulary.size())) {
    refuse(vocabulary.file, std::string(key) + " is " + std::to_string(*id) +
                                ", expected a token from 0 to " + std::to_string(vocabulary.size() - 1) +
                                "; the file is damaged");
  }
  if (id) return static_cast<int32_t>(*id);
  if (by_default < 0 || by_default >= vocabulary.size()) return -1;
  const TokenType type = vocabulary.types[by_default];
  return type == TokenType::kControl || type == TokenType::kUnknown ? by_default : -1;
}

std::vector<std::string> Vocabulary::decoded_bytes() const {
  std::vector<std::string> decoded;
  decoded.reserve(texts.size());
  for (int32_t token = 0; token < size(); ++token) {
    const std::string& text = texts[token];
    const std::optional<uint8_t> byte =
        types[token] == TokenType::kByte ? named_byte(text) : std::optional<uint8_t>();
    if (byte) {
      decoded.emplace_back(1, static_cast<char>(*byte));
    } else if (!is_plain(token)) {
      decoded.push_back(text);
    } else {
      decoded.push_back(spells_spaces() ? with_spaces(text) : spelled_bytes(text));
    }
  }
  return decoded;
}

Vocabulary read_vocabulary(const ModelFile& file) {
  Vocabulary vocabulary;
  vocabulary.file = file.path().string();
  vocabulary.kind = read_kind(file);
  if (vocabulary.kind == TokenizerKind::kByteLevelBpe) vocabulary.pre = read_pre(file);
  read_texts(file, vocabulary);
  read_scores(file, vocabulary);
  read_types(file, vocabulary);
  read_roles(file, vocabulary);
  read_suppressed(file, vocabulary);
  if (vocabulary.kind == TokenizerKind::kUnigram) read_unigram(file, vocabulary);
  find_end_tokens(file, vocabulary);
  vocabulary.fim = find_fim_tokens(file, vocabulary);
  return vocabulary;
}

}  // namespace hearth
