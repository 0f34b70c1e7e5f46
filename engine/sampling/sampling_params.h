// How the next token is chosen: what a request can ask for, and the order in which it is applied.
//
// Defaults are OpenAI's: the model's own distribution, nothing filtered. The order:
//
//   1. logit_bias, then the tokens that a constraint or min_tokens forbids
//   2. penalties: repetition, presence, frequency; then DRY
//   3. temperature, which dynatemp may change from token to token; 0 means argmax (the lowest id wins a tie), and the
//      rest is skipped
//   4. filters, each on what the one before has left, renormalised: top_k, typical_p, top_p, min_p, XTC; or Mirostat
//      instead of all of them
//   5. the draw, by the seed and the token's index
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/constraint/token_mask.h"

namespace hearth {

/// "Don't repeat yourself" (p-e-w 2024): a token that would prolong a repetition of n tokens at the end of the text, n >=
/// allowed_length, loses multiplier * base^(n - allowed_length) of its logit.
struct DryParams {
  float multiplier = 0.0f;  // >= 0; 0: off
  float base = 1.75f;       // >= 1
  int allowed_length = 2;   // >= 0
  int last_n = -1;          // of prompt and generated tokens, the last ones that are searched; -1: all
  std::shared_ptr<const TokenMask> breakers;  // a repetition does not go on across one of these; null: none
};

struct SamplingParams {
  float temperature = 1.0f;         // >= 0
  int top_k = 0;                    // 0: all
  float typical_p = 1.0f;           // (0, 1]; locally typical sampling (Meister et al. 2022)
  float top_p = 1.0f;               // (0, 1]
  float min_p = 0.0f;               // [0, 1): keep tokens with p >= min_p * max p
  float repetition_penalty = 1.0f;  // > 0; over prompt and generated tokens (CTRL, Keskar 2019)
  int repetition_last_n = -1;       // of those, the last ones that it looks at; -1: all
  float presence_penalty = 0.0f;    // [-2, 2]; over generated tokens, as OpenAI defines it
  float frequency_penalty = 0.0f;   // [-2, 2]; likewise
  DryParams dry;
  // "Exclude top choices" (p-e-w 2024): with this probability, of the tokens with p >= threshold only the least likely
  // stays. 0: off.
  float xtc_probability = 0.0f;  // [0, 1]
  float xtc_threshold = 0.1f;    // [0, 1]; above 0.5 two tokens cannot reach it
  // The temperature is temperature - range where one token is certain and temperature + range where all are equally
  // likely; between them it follows (entropy / most entropy)^exponent. 0: off.
  float dynatemp_range = 0.0f;     // >= 0
  float dynatemp_exponent = 1.0f;  // > 0
  // Mirostat 2 (Basu et al. 2021): drops tokens whose surprise -log2 p exceeds a bound that follows the surprise of what
  // was drawn, at the rate eta, so that it stays near tau bits.
  bool mirostat = false;
  float mirostat_tau = 5.0f;  // >= 0
  float mirostat_eta = 0.1f;  // [0, 1]
  uint64_t seed = 0;          // the same seed gives the same tokens, alone or in a batch
  std::vector<std::pair<int32_t, float>> logit_bias;  // token, added to its logit; <= -100 bans it
};

}  // namespace hearth
