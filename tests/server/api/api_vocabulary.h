// A small vocabulary for tests of the API: every byte is a token, so that every text can be written token by
// token, and there are a few words and control tokens. The api_*_test files use it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace hearth {

class ApiVocabulary final : public Tokenizer {
 public:
  static constexpr int32_t kBos = 256;        // "<s>"
  static constexpr int32_t kEos = 257;        // "</s>"
  static constexpr int32_t kEndOfText = 258;  // "<|endoftext|>"
  static constexpr int32_t kTurn = 259;       // "<|turn|>"
  static constexpr int32_t kFirstWord = 260;

  /// words: further tokens, from kFirstWord on. adds_bos: encode() prepends <s> if special tokens are
  /// requested.
  explicit ApiVocabulary(std::vector<std::string> words = {}, bool adds_bos = false,
                         bool strips_space = false)
      : adds_bos_(adds_bos), strips_space_(strips_space) {
    for (int byte = 0; byte < 256; ++byte) texts_.emplace_back(1, static_cast<char>(byte));
    for (const char* control : {"<s>", "</s>", "<|endoftext|>", "<|turn|>"}) texts_.emplace_back(control);
    for (std::string& word : words) texts_.push_back(std::move(word));
  }

  std::vector<int32_t> encode(std::string_view text, bool add_special, bool parse_special) const override {
    std::vector<int32_t> tokens;
    if (add_special && adds_bos_) tokens.push_back(kBos);
    while (!text.empty()) {
      int32_t best = static_cast<unsigned char>(text.front());
      for (int32_t token = kBos; token < n_vocab(); ++token) {
        const std::string& candidate = texts_[static_cast<size_t>(token)];
        if ((is_control(token) && !parse_special) || text.substr(0, candidate.size()) != candidate) continue;
        if (candidate.size() > texts_[static_cast<size_t>(best)].size()) best = token;
      }
      tokens.push_back(best);
      text.remove_prefix(texts_[static_cast<size_t>(best)].size());
    }
    return tokens;
  }

  void append_bytes(int32_t token, bool with_special, std::string& out) const override {
    if (with_special || !is_control(token)) out += texts_.at(static_cast<size_t>(token));
  }

  int n_vocab() const override { return static_cast<int>(texts_.size()); }
  int32_t bos() const override { return kBos; }
  int32_t eos() const override { return kEos; }
  const std::vector<int32_t>& end_tokens() const override { return end_tokens_; }
  const std::vector<int32_t>& suppressed_tokens() const override { return suppressed_; }
  bool is_control(int32_t token) const override { return token >= kBos && token < kFirstWord; }
  bool strips_leading_space() const override { return strips_space_; }
  std::string_view spelling(int32_t token) const override { return texts_.at(static_cast<size_t>(token)); }
  const FimTokens& fim() const override { return fim_; }

  /// Sets the tokens that the model must not generate.
  void set_suppressed(std::vector<int32_t> tokens) { suppressed_ = std::move(tokens); }
  /// Sets the model's tokens for filling in a middle.
  void set_fim(const FimTokens& fim) { fim_ = fim; }

 private:
  bool adds_bos_, strips_space_;
  std::vector<std::string> texts_;
  std::vector<int32_t> end_tokens_{kEos}, suppressed_;
  FimTokens fim_;
};

/// Returns the tokens of a text without words and control tokens.
inline std::vector<int32_t> bytes_of(std::string_view text) {
  std::vector<int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

}  // namespace hearth
