// The tokenizer.ggml.* keys of a model file: see the header.
#include "engine/tokenizer/vocabulary.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "engine/tokenizer/byte_alphabet.h"
#include "engine/tokenizer/pre_tokenizer.h"

namespace hearth {
namespace {

constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr const char* kScores = "tokenizer.ggml.scores";
constexpr const char* kTypes = "tokenizer.ggml.token_type";

// Ids are int32, and BPE numbers its intermediate symbols beyond them; the largest vocabularies have 2^18
// tokens.
constexpr size_t kMostTokens = size_t{1} << 27;

// Tokens that end a turn or a text, known by name because files often forget their ids. If such a token has
// another type than control, the converter was wrong.
constexpr std::array kEndNames = {
    std::string_view("<|im_end|>"),      std::string_view("<|eot_id|>"),
    std::string_view("<|eom_id|>"),      std::string_view("<|end|>"),
    std::string_view("<|end_of_text|>"), std::string_view("<|endoftext|>"),
    std::string_view("<end_of_turn>"),   std::string_view("<end_of_utterance>"),
    std::string_view("<EOT>"),           std::string_view("<｜end▁of▁sentence｜>"),
};
// Ends a text only where it is a control token: byte-level vocabularies may hold it as HTML.
constexpr std::string_view kSentencePieceEnd = "</s>";

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  throw ModelFileError(file + ": " + what);
}

void check_length(const Vocabulary& vocabulary, const char* key, size_t found) {
  if (found == vocabulary.texts.size()) return;
  refuse(vocabulary.file, std::string(key) + " has " + std::to_string(found) + " entries, expected " +
                              std::to_string(vocabulary.texts.size()) + ", one for each of " + kTokens +
                              "; the file is damaged");
}

TokenizerKind read_kind(const ModelFile& file) {
  const std::string_view model = file.get_string("tokenizer.ggml.model");
  if (model == "llama") return TokenizerKind::kSentencePiece;
  if (model == "gpt2") return TokenizerKind::kByteLevelBpe;
  refuse(file.path().string(),
         "tokenizer.ggml.model is '" + std::string(model.substr(0, 80)) +
             "', which is not supported; supported are 'llama' (SentencePiece) and 'gpt2' "
             "(byte-level BPE)");
}

/// Defaults of an architecture for files older than tokenizer.ggml.pre.
struct OldFile {
  std::string_view architecture;
  std::string_view pre;
  int32_t end = -1;  // the token that begins and ends texts; -1: as other files
};
constexpr std::array kOldFiles = {
    OldFile{"falcon", "falcon"},
    OldFile{"opt", "gpt-2", 2},
};

/// Finds the row for a file that does not name its pre-tokenizer; null for other files and architectures.
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
  refuse(file.path().string(), "tokenizer.ggml.pre is '" + name.substr(0, 80) +
                                   "', which is not supported; supported are " + PreTokenizer::known_names());
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
    if (vocabulary.kind == TokenizerKind::kSentencePiece) {
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

/// The byte that a token like "<0x0A>" stands for.
std::optional<uint8_t> named_byte(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  uint8_t byte = 0;
  const char* end = text.data() + 5;
  const auto [stop, error] = std::from_chars(text.data() + 3, end, byte, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return byte;
}

/// Types for a SentencePiece file without them, from the names that SentencePiece gives.
TokenType guess_type(std::string_view text) {
  if (named_byte(text)) return TokenType::kByte;
  if (text == "<unk>") return TokenType::kUnknown;
  if (text == "<s>" || text == kSentencePieceEnd) return TokenType::kControl;
  return TokenType::kNormal;
}

void read_types(const ModelFile& file, Vocabulary& vocabulary) {
  const auto types = file.find_ints(kTypes);
  if (!types) {
    for (const std::string& text : vocabulary.texts) {
      const bool guess = vocabulary.kind == TokenizerKind::kSentencePiece;
      vocabulary.types.push_back(guess ? guess_type(text) : TokenType::kNormal);
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
    if (vocabulary.kind == TokenizerKind::kSentencePiece && vocabulary.types[i] == TokenType::kByte &&
        !named_byte(vocabulary.texts[i])) {
      refuse(vocabulary.file, where + " (a byte), but the token is '" + vocabulary.texts[i].substr(0, 80) +
                                  "', expected one like '<0x0A>'; the file is damaged");
    }
  }
}

void read_roles(const ModelFile& file, Vocabulary& vocabulary) {
  const bool sentencepiece = vocabulary.kind == TokenizerKind::kSentencePiece;
  const PreTokenizer::Habits habits =
      sentencepiece ? PreTokenizer::Habits{} : PreTokenizer::habits(vocabulary.pre);
  const OldFile* old = sentencepiece ? nullptr : old_file(file);
  const bool one_end = old != nullptr && old->end >= 0;
  // llama.cpp's defaults: Llama 2's ids, and Falcon's 11.
  const int32_t bpe_end = one_end ? old->end : 11;
  const int32_t bos_default = sentencepiece ? 1 : habits.has_bos ? bpe_end : -1;
  vocabulary.bos = read_token_id(file, vocabulary, "tokenizer.ggml.bos_token_id", bos_default);
  vocabulary.eos =
      read_token_id(file, vocabulary, "tokenizer.ggml.eos_token_id", sentencepiece ? 2 : bpe_end);
  vocabulary.unk = read_token_id(file, vocabulary, "tokenizer.ggml.unknown_token_id", sentencepiece ? 0 : -1);

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
  vocabulary.add_bos = add_bos.value_or((sentencepiece || habits.add_bos || one_end) && vocabulary.bos >= 0);
  vocabulary.add_eos = add_eos.value_or(false);
  vocabulary.add_space_prefix =
      sentencepiece && file.find_bool("tokenizer.ggml.add_space_prefix").value_or(true);
}

void find_end_tokens(const ModelFile& file, Vocabulary& vocabulary) {
  std::vector<int32_t>& ends = vocabulary.end_tokens;
  ends = {vocabulary.eos, read_token_id(file, vocabulary, "tokenizer.ggml.eot_token_id", -1),
          read_token_id(file, vocabulary, "tokenizer.ggml.eom_token_id", -1)};
  for (int32_t token = 0; token < vocabulary.size(); ++token) {
    const std::string& text = vocabulary.texts[token];
    if (std::find(kEndNames.begin(), kEndNames.end(), text) != kEndNames.end()) {
      vocabulary.types[token] = TokenType::kControl;
      ends.push_back(token);
    } else if (text == kSentencePieceEnd && vocabulary.types[token] == TokenType::kControl) {
      ends.push_back(token);
    }
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  if (ends.front() < 0) ends.erase(ends.begin());
}

std::string with_spaces(std::string_view text) {
  constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool is_space = text.substr(at, kSpace.size()) == kSpace;
    out.push_back(is_space ? ' ' : text[at]);
    at += is_space ? kSpace.size() : 1;
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
  // Some converters write "none" as the largest unsigned number.
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
      decoded.push_back(kind == TokenizerKind::kSentencePiece ? with_spaces(text) : spelled_bytes(text));
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
  find_end_tokens(file, vocabulary);
  vocabulary.fim = find_fim_tokens(file, vocabulary);
  return vocabulary;
}

}  // namespace hearth
