// Lists the texts of known end tokens. In some model families the text alone does not decide whether a token
// ends a generation; this file handles them too. See the header.
#include "engine/tokenizer/end_tokens.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

namespace hearth {
namespace {

using std::string_view_literals::operator""sv;

// Tokens with these texts always end a generation. If a file does not mark such a token as a control token,
// the converter that wrote the file was wrong.
constexpr std::array kAlwaysEnd = {
    "<|im_end|>"sv,    "<|eot_id|>"sv,         "<|eom_id|>"sv, "<|end|>"sv,
    "<|endoftext|>"sv, "<|end_of_text|>"sv,    "<EOT>"sv,      "<｜end▁of▁sentence｜>"sv,
    "<end_of_turn>"sv, "<end_of_utterance>"sv,
};
// These texts could be ordinary words of a vocabulary, so tokens with them end a generation only if they are
// control or user-defined tokens.
constexpr std::array kEndIfSpecial = {
    "<|return|>"sv,
    "<|call|>"sv,  // gpt-oss
    "<|flush|>"sv,
    "<|calls|>"sv,  // Solar Open
    "<|eot|>"sv,
    "<|eom|>"sv,  // Llama 4
    "<turn|>"sv,
    "<|tool_response>"sv,  // Gemma 4; <|tool_response> requests a tool's answer
    "[EOT]"sv,
    "[EOS]"sv,                  // Kimi K2
    "[e~["sv,                   // MiniMax M2
    "[|endofturn|]"sv,          // EXAONE
    "<|end_of_turn|>"sv,        // OpenChat
    "<|endofturn|>"sv,          // HyperCLOVA
    "<|END_OF_TURN_TOKEN|>"sv,  // Command R
    "▁<EOT>"sv,                 // Code Llama
    "<eos>"sv,
};
// A token with this text ends a generation only if it is a control token, because some vocabularies contain
// the text as an HTML tag.
constexpr std::string_view kSentencePieceEnd = "</s>";

/// Two tokens that identify a model family if the vocabulary has both.
struct Pair {
  std::string_view one, other;
};
// If the vocabulary has both tokens of one of these pairs, <|end|> ends only one message of an answer, not
// the whole answer.
constexpr std::array kEndsOfMessages = {Pair{"<|return|>", "<|call|>"}, Pair{"<|flush|>", "<|calls|>"}};
// GLM has no end-of-turn token: the next speaker's token ends the turn.
constexpr Pair kNextSpeakers{"<|user|>", "<|observation|>"};

template <size_t n>
bool contains(const std::array<std::string_view, n>& names, std::string_view text) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

class EndTokens {
 public:
  /// ends_at_eos: a token <eos> ends a generation whatever its type. Gemma 4's files type it as a word.
  EndTokens(Vocabulary& vocabulary, bool ends_at_eos) : vocabulary_(vocabulary), ends_at_eos_(ends_at_eos) {
    for (int32_t token = 0; token < vocabulary.size(); ++token) read(token);
  }

  void add_to(std::vector<int32_t>& ends) const {
    const bool has_messages = std::any_of(kEndsOfMessages.begin(), kEndsOfMessages.end(),
                                          [this](const Pair& pair) { return has(pair); });
    for (const auto& [name, token] : named_) {
      const bool speaker = name == kNextSpeakers.one || name == kNextSpeakers.other;
      if (speaker ? has(kNextSpeakers) : !(has_messages && name == "<|end|>")) ends.push_back(token);
    }
  }

 private:
  void read(int32_t token) {
    const std::string_view text = vocabulary_.texts[token];
    TokenType& type = vocabulary_.types[token];
    const bool always_ends = contains(kAlwaysEnd, text) || (ends_at_eos_ && text == "<eos>");
    if (always_ends) type = TokenType::kControl;
    const bool control = type == TokenType::kControl;
    const bool special = control || type == TokenType::kUserDefined;
    const bool may_end =
        contains(kEndIfSpecial, text) || text == kNextSpeakers.one || text == kNextSpeakers.other;
    if (always_ends || (special && may_end) || (control && text == kSentencePieceEnd))
      named_.emplace(text, token);
  }

  bool has(const Pair& pair) const { return named_.count(pair.one) > 0 && named_.count(pair.other) > 0; }

  Vocabulary& vocabulary_;
  bool ends_at_eos_;
  std::unordered_multimap<std::string_view, int32_t> named_;
};

}  // namespace

void find_end_tokens(const ModelFile& file, Vocabulary& vocabulary) {
  std::vector<int32_t>& ends = vocabulary.end_tokens;
  ends = {vocabulary.eos, read_token_id(file, vocabulary, "tokenizer.ggml.eot_token_id", -1),
          read_token_id(file, vocabulary, "tokenizer.ggml.eom_token_id", -1)};
  EndTokens(vocabulary, file.get_string("tokenizer.ggml.model") == "gemma4").add_to(ends);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  if (ends.front() < 0) ends.erase(ends.begin());
}

}  // namespace hearth
