// Log-probabilities of tokens in the two shapes OpenAI has for them: legacy (completions) and chat.
//
// Built by the HTTP thread from the engine's token events. Values are the engine's; -infinity, which JSON
// does not have, is sent as -9999.0, as OpenAI does.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/tokenizer/tokenizer.h"
#include "server/api/json_body.h"
#include "server/api/text_stream.h"

namespace hearth {

/// A token's bytes, control tokens as their text; empty for ids the vocabulary does not have.
std::string token_bytes(const Tokenizer& tokenizer, int32_t token);

/// {"content":[{"token","logprob","bytes","top_logprobs":[{"token","logprob","bytes"}]}],"refusal":null}; at
/// most n_top alternatives each. What is not UTF-8 in `token` is written \xNN; `bytes` has it exactly.
Json chat_logprobs(const Tokenizer& tokenizer, std::span<const PlacedToken> tokens, int n_top);

/// {"tokens","token_logprobs","top_logprobs","text_offset"}, arrays of equal length, filled token by token.
class LegacyLogprobs {
 public:
  /// n_top: the request's logprobs. Up to n_top + 1 alternatives are listed: the token itself always is.
  LegacyLogprobs(const Tokenizer& tokenizer, int n_top);

  /// The first token of an echoed prompt, which nothing predicted: null for both.
  void add_first(int32_t token, int64_t offset);
  /// offset: characters before the token in the choice's text.
  void add(const TokenEvent& event, int64_t offset);
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
