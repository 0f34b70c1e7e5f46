// Tokens that are not valid UTF-8 need a notation for their bytes, which differs between chat and text
// completions.
#include "server/api/openai/token_logprobs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/base/utf8.h"

namespace hearth {
namespace {

/// OpenAI's replacement for the log-probability of a banned token, which is minus infinity.
constexpr double kLeastLogprob = -9999.0;

double sendable(float logprob) {
  return std::isfinite(logprob) ? std::max<double>(logprob, kLeastLogprob) : kLeastLogprob;
}

/// Writes every byte that is not ASCII as \xNN, in lower case.
std::string escaped(const std::string& bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const unsigned byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

bool is_utf8(const std::string& bytes) { return utf8_valid_prefix(bytes) == bytes.size(); }

std::string legacy_name(const Tokenizer& tokenizer, int32_t token) {
  std::string bytes = token_bytes(tokenizer, token);
  return is_utf8(bytes) ? bytes : "bytes:" + escaped(bytes);
}

Json chat_token(const Tokenizer& tokenizer, int32_t token, float logprob) {
  const std::string bytes = token_bytes(tokenizer, token);
  Json numbers = Json::array();
  for (const char c : bytes) numbers.push_back(static_cast<unsigned char>(c));
  return {{"token", is_utf8(bytes) ? bytes : escaped(bytes)},
          {"logprob", sendable(logprob)},
          {"bytes", std::move(numbers)}};
}

}  // namespace

std::string token_bytes(const Tokenizer& tokenizer, int32_t token) {
  std::string bytes;
  if (token >= 0 && token < tokenizer.n_vocab()) tokenizer.append_bytes(token, true, bytes);
  return bytes;
}

Json chat_logprobs(const Tokenizer& tokenizer, std::span<const PlacedToken> tokens, int n_top) {
  Json content = Json::array();
  for (const PlacedToken& token : tokens) {
    Json entry = chat_token(tokenizer, token.event.token, token.event.logprob);
    Json top = Json::array();
    for (const TokenLogprob& other : token.event.top) {
      if (top.size() == static_cast<size_t>(n_top)) break;
      top.push_back(chat_token(tokenizer, other.token, other.logprob));
    }
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

LegacyLogprobs::LegacyLogprobs(const Tokenizer& tokenizer, int n_top)
    : tokenizer_(&tokenizer), n_top_(n_top) {}

void LegacyLogprobs::add_first(int32_t token, int64_t offset) {
  tokens_.push_back(legacy_name(*tokenizer_, token));
  logprobs_.push_back(nullptr);
  top_.push_back(nullptr);
  offsets_.push_back(offset);
}

void LegacyLogprobs::add(const TokenEvent& event, int64_t offset) {
  const std::string name = legacy_name(*tokenizer_, event.token);
  Json alternatives = Json::object();
  int n = 0;
  for (const TokenLogprob& other : event.top) {
    if (n++ == n_top_) break;
    // Several alternatives may have equal texts. The first one, which is the most likely, is listed.
    alternatives.emplace(legacy_name(*tokenizer_, other.token), sendable(other.logprob));
  }
  alternatives.emplace(name, sendable(event.logprob));
  tokens_.push_back(name);
  logprobs_.push_back(sendable(event.logprob));
  top_.push_back(std::move(alternatives));
  offsets_.push_back(offset);
}

Json LegacyLogprobs::take() {
  return {{"tokens", std::move(tokens_)},
          {"token_logprobs", std::move(logprobs_)},
          {"top_logprobs", std::move(top_)},
          {"text_offset", std::move(offsets_)}};
}

}  // namespace hearth
