// The JSON of tokens' log-probabilities, in the formats of OpenAI's chats and completions.
//
// Pure functions of plain data, called by answer shapes on the HTTP thread. The engine computes the numbers.
// JSON has no -infinity, so -9999.0 is sent for it, as OpenAI does.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/tokenizer/tokenizer.h"
#include "server/api/answer/token_text.h"
#include "server/json/json.h"

namespace hearth {

/// Returns a token's bytes, or a control token's name. Empty for ids outside the vocabulary.
std::string token_bytes(const Tokenizer& tokenizer, int32_t token);

/// Returns the log-probabilities of a chat:
/// {"content":[{"token","logprob","bytes","top_logprobs":[{"token","logprob","bytes"}]}], "refusal":null},
/// with at most n_top alternatives per token. In `token`, bytes that are not UTF-8 are written as \xNN;
/// `bytes` contains them unchanged.
Json chat_logprobs(const Tokenizer& tokenizer, std::span<const PlacedToken> tokens, int n_top);

/// Log-probabilities of a completion: {"tokens","token_logprobs","top_logprobs","text_offset"}, arrays of
/// equal length, filled token by token.
class LegacyLogprobs {
 public:
  /// n_top: the request's `logprobs`. If a token is not among its n_top alternatives, it is listed in
  /// addition to them. The tokenizer must outlive this object.
  LegacyLogprobs(const Tokenizer& tokenizer, int n_top);

  /// Adds the first token of an echoed prompt. Its log-probability and alternatives are null, because nothing
  /// predicted it.
  void add_first(int32_t token, int64_t offset);
  /// offset: number of characters that precede the token in the choice's text.
  void add(const TokenEvent& event, int64_t offset);
  /// Returns the finished object. Call once.
  Json take();

 private:
  const Tokenizer* tokenizer_;
  int n_top_;
  Json tokens_ = Json::array();
  Json logprobs_ = Json::array();
  Json top_ = Json::array();
  Json offsets_ = Json::array();
};

}  // namespace hearth
