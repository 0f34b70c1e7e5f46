// The JSON of log-probabilities of tokens, in OpenAI's formats for chat and text completions.
//
// Pure functions, called on the HTTP thread. JSON has no -infinity; -9999.0 is sent instead, as in OpenAI's
// API.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/tokenizer/tokenizer.h"
#include "server/api/answer/token_text.h"
#include "server/json/json.h"

namespace hearth {

/// Returns a token's bytes, or the name of a control token. Empty for ids outside the vocabulary.
std::string token_bytes(const Tokenizer& tokenizer, int32_t token);

/// Returns the log-probabilities for a chat completion:
/// {"content":[{"token","logprob","bytes","top_logprobs":[{"token","logprob","bytes"}]}], "refusal":null}.
/// n_top: the maximum number of alternatives per token. In `token`, bytes that are not valid UTF-8 are
/// written as \xNN; `bytes` contains them unchanged.
Json chat_logprobs(const Tokenizer& tokenizer, std::span<const PlacedToken> tokens, int n_top);

/// The log-probabilities of a text completion: {"tokens","token_logprobs","top_logprobs","text_offset"},
/// which are arrays of equal length.
class LegacyLogprobs {
 public:
  /// n_top: the request's `logprobs`. A token that is not among its n_top alternatives is listed in addition
  /// to them. The tokenizer must outlive this object.
  LegacyLogprobs(const Tokenizer& tokenizer, int n_top);

  /// Adds the first token of an echoed prompt. Its log-probability and alternatives are null, because no
  /// token precedes it.
  void add_first(int32_t token, int64_t offset);
  /// offset: position of the token in the choice's text, in characters.
  void add(const TokenEvent& event, int64_t offset);
  /// Returns the JSON object. Call once.
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
