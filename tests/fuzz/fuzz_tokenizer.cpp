// libFuzzer target: reads a small vocabulary and a text from the input. Any vocabulary must build, or be
// refused by ModelFileError. Then any text must be encoded to existing tokens, and plain text to no control
// token. If every byte has a token, the encoded text must decode to the same bytes.
//
// Built with the asan preset. Input: settings, the fields of the kind, number of rows, rows (type, score,
// length, text), merges (length, text), and the rest is the text. One thread.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/byte_alphabet.h"
#include "engine/tokenizer/vocabulary_tokenizer.h"
#include "kernels/base/utf8.h"

namespace {

using hearth::TokenizerKind;
using hearth::TokenType;

// One name for each kind of pattern.
constexpr std::string_view kPre[] = {"default",     "gpt-2",      "smollm",   "llama-bpe",  "qwen2",
                                     "tekken",      "gpt-4o",     "falcon",   "bloom",      "deepseek-llm",
                                     "deepseek-v3", "bailingmoe", "viking",   "seed-coder", "deepseek-coder",
                                     "qwen35",      "kimi-k2",    "tiny_aya", "afmoe",      "exaone-moe",
                                     "jais-2",      "youtu",      "chameleon"};

/// Reads numbers and strings from the front of the input. Returns zeros and empty strings when the input is
/// used up.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  uint8_t byte() {
    if (rest_.empty()) return 0;
    const uint8_t byte = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    return byte;
  }
  std::string_view text(size_t length) {
    const std::string_view text = rest_.substr(0, length);
    rest_.remove_prefix(text.size());
    return text;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

void add(hearth::Vocabulary& vocabulary, std::string text, TokenType type, float score) {
  vocabulary.texts.push_back(std::move(text));
  vocabulary.types.push_back(type);
  vocabulary.scores.push_back(score);
}

void add_all_bytes(hearth::Vocabulary& vocabulary) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    if (vocabulary.kind == TokenizerKind::kByteLevelBpe) {
      add(vocabulary, hearth::spell_bytes(std::string(1, static_cast<char>(byte))), TokenType::kNormal, 0);
    } else {
      add(vocabulary, std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">", TokenType::kByte,
          0);
    }
  }
}

TokenizerKind kind_of(uint8_t settings) {
  if ((settings & 32) == 0)
    return settings & 1 ? TokenizerKind::kSentencePiece : TokenizerKind::kByteLevelBpe;
  constexpr TokenizerKind kKinds[] = {TokenizerKind::kCharacterBpe, TokenizerKind::kWordPiece,
                                      TokenizerKind::kUnigram, TokenizerKind::kUnigram};
  return kKinds[settings >> 6];
}

/// A character map with parts from the input and correct lengths, because otherwise few would pass the
/// checks.
std::string read_character_map(Input& input) {
  const size_t n_units = input.byte();
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(4 * n_units >> shift & 0xFF));
  std::string units(input.text(4 * n_units));
  units.resize(4 * n_units);
  return bytes + units + std::string(input.text(input.byte() % 32)) + '\0';
}

bool has_merges(TokenizerKind kind) {
  return kind == TokenizerKind::kByteLevelBpe || kind == TokenizerKind::kCharacterBpe;
}

hearth::Vocabulary read_vocabulary(Input& input, uint8_t settings, bool all_bytes) {
  hearth::Vocabulary vocabulary;
  vocabulary.file = "fuzz";
  vocabulary.kind = kind_of(settings);
  if (vocabulary.kind == TokenizerKind::kByteLevelBpe) vocabulary.pre = kPre[input.byte() % std::size(kPre)];
  if (vocabulary.kind == TokenizerKind::kUnigram && settings >> 6 == 3)
    vocabulary.character_map = read_character_map(input);
  if (all_bytes) add_all_bytes(vocabulary);
  for (int rows = input.byte() % 32; rows > 0; --rows) {
    const uint8_t head = input.byte();
    const float score = static_cast<float>(static_cast<int8_t>(input.byte()));
    // add_all_bytes adds byte tokens: other ones are refused when a file is read.
    const TokenType type = static_cast<TokenType>(head % 6);
    add(vocabulary, std::string(input.text(head >> 3)), type, score);
  }
  if (vocabulary.texts.empty()) add(vocabulary, "a", TokenType::kNormal, 0);
  vocabulary.unk = settings & 4 ? 0 : -1;
  vocabulary.bos = settings & 8 ? vocabulary.size() - 1 : -1;
  vocabulary.add_bos = vocabulary.bos >= 0;
  const bool unigram = vocabulary.kind == TokenizerKind::kUnigram;
  vocabulary.add_space_prefix =
      (unigram || vocabulary.kind == TokenizerKind::kSentencePiece) && (settings & 16);
  vocabulary.remove_extra_spaces = unigram && (settings & 1);
  vocabulary.lower_case = settings & 1;
  vocabulary.strip_accents = settings & 16;
  return vocabulary;
}

void require(bool holds) {
  if (!holds) std::abort();
}

void check_text(const hearth::Tokenizer& tokenizer, std::string_view text, bool round_trip) {
  for (const bool parse_special : {false, true}) {
    const std::vector<int32_t> ids = tokenizer.encode(text, false, parse_special);
    std::string bytes;
    for (const int32_t id : ids) {
      require(id >= 0 && id < tokenizer.n_vocab());
      require(parse_special || !tokenizer.is_control(id));
      tokenizer.append_bytes(id, true, bytes);
    }
    if (round_trip) require(bytes == text);
    const std::string shown = tokenizer.decode(ids, true);
    require(hearth::utf8_valid_prefix(shown) == shown.size());
  }
  tokenizer.encode(text, true, true);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const uint8_t settings = input.byte();
  const bool all_bytes = settings & 2;
  hearth::Vocabulary vocabulary = read_vocabulary(input, settings, all_bytes);
  const bool byte_level = vocabulary.kind == TokenizerKind::kByteLevelBpe;
  const bool characters = vocabulary.kind == TokenizerKind::kCharacterBpe;
  // SentencePiece reads U+2581 as a space, writes unk (a control token) for what it lacks, and adds a prefix.
  if (vocabulary.kind == TokenizerKind::kWordPiece || (!byte_level && !all_bytes)) vocabulary.unk = -1;
  std::vector<std::string_view> merges;
  if (has_merges(vocabulary.kind)) {
    for (int n = input.byte() % 32; n > 0; --n) merges.push_back(input.text(input.byte() % 16));
  }
  try {
    const hearth::VocabularyTokenizer tokenizer(std::move(vocabulary), merges);
    // BPE over characters writes spaces as U+2581, which becomes a space again only where a token contains it
    // whole.
    const bool has_spaces = input.rest().find(' ') != std::string_view::npos ||
                            input.rest().find("\xE2\x96\x81") != std::string_view::npos;
    check_text(tokenizer, input.rest(), all_bytes && (byte_level || (characters && !has_spaces)));
  } catch (const hearth::ModelFileError&) {
  }
  return 0;
}
