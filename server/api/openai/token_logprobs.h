// Log-probabilities of tokens in the shapes of OpenAI's two endpoints.
//
// Pure functions of plain data, called by shapes of answers on the HTTP thread. The numbers are the engine's; -infinity, which
// JSON does not have, is sent as -9999.0, as OpenAI does.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/tokenizer/tokenizer.h"
#include "server/api/answer/token_text.h"
#include "server/json/json.h"

namespace hearth {

/// A token's bytes; for a control token those of its name. Empty for ids that the vocabulary does not have.
std::string token_bytes(const Tokenizer& tokenizer, int32_t token);

/// Log-probabilities of a chat:
/// {"content":[{"token","logprob","bytes","top_logprobs":[{"token","logprob","bytes"}]}], "refusal":null},
/// with at most n_top alternatives for each token. Bytes of `token` that are not UTF-8 are written \xNN;
/// `bytes` has them exactly.
Json chat_logprobs(const Tokenizer& tokenizer, std::span<const PlacedToken> tokens, int n_top);

/// Log-probabilities of a completion: {"tokens","token_logprobs","top_logprobs","text_offset"}, arrays of
/// equal length that are filled token by token.
class LegacyLogprobs {
 public:
  /// n_top: the request's `logprobs`. A token that is not among its n_top alternatives is listed beside them.
  /// The tokenizer must outlive this.
  LegacyLogprobs(const Tokenizer& tokenizer, int n_top);

  /// The first token of an echoed prompt. Nothing predicted it, so its log-probability and alternatives are
  /// null.
  void add_first(int32_t token, int64_t offset);
  /// offset: characters before the token in the choice's text.
  void add(const TokenEvent& event, int64_t offset);
  /// The finished object. Call once.
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
