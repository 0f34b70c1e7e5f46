// Defines how the next token is chosen: the parameters of a request, and the order in which they apply.
//
// Defaults are OpenAI's: the model's own distribution without filters. The order:
//
//   1. logit_bias, then the tokens that the model's file, a constraint or min_tokens forbids
//   2. penalties: repetition, presence, frequency; then DRY
//   3. temperature, which dynatemp may change per token; 0 means argmax (ties go to the lowest id) and skips
//      the later steps
//   4. filters, each on the renormalized result of the previous filter: top_k, typical_p, top_p, min_p, XTC;
//      or Mirostat in place of all of them
//   5. the draw, which depends on the seed and on the token's index
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/constraint/token_mask.h"

namespace hearth {

/// "Don't repeat yourself" (p-e-w 2024): if a token would extend a repetition of n >= allowed_length tokens
/// at the end of the text, multiplier * base^(n - allowed_length) is subtracted from its logit.
struct DryParams {
  float multiplier = 0.0f;  // >= 0; 0: off
  float base = 1.75f;       // >= 1
  int allowed_length = 2;   // >= 0
  int last_n = -1;          // search this many of the last prompt and generated tokens; -1: all
  std::shared_ptr<const TokenMask> breakers;  // repetitions stop at these tokens; null: none
};

struct SamplingParams {
  float temperature = 1.0f;         // >= 0
  int top_k = 0;                    // 0: all
  float typical_p = 1.0f;           // (0, 1]; locally typical sampling (Meister et al. 2022)
  float top_p = 1.0f;               // (0, 1]
  float min_p = 0.0f;               // [0, 1): keep tokens with p >= min_p * max p
  float repetition_penalty = 1.0f;  // > 0; penalizes prompt and generated tokens (CTRL, Keskar 2019)
  int repetition_last_n = -1;       // number of last tokens that repetition_penalty applies to; -1: all
  float presence_penalty = 0.0f;    // [-2, 2]; penalizes generated tokens, as OpenAI defines it
  float frequency_penalty = 0.0f;   // [-2, 2]; like presence_penalty
  DryParams dry;
  // "Exclude top choices" (p-e-w 2024): with the probability xtc_probability, all tokens with p >=
  // xtc_threshold are dropped except the least likely of them. 0: off.
  float xtc_probability = 0.0f;  // [0, 1]
  float xtc_threshold = 0.1f;    // [0, 1]; above 0.5 it has no effect, because two tokens cannot reach it
  // The temperature is temperature - range if one token is certain, and temperature + range if all tokens are
  // equally likely. Between these extremes it rises with (entropy / maximum entropy)^exponent. 0: off.
  float dynatemp_range = 0.0f;     // >= 0
  float dynatemp_exponent = 1.0f;  // > 0
  // Mirostat 2 (Basu et al. 2021): drops tokens whose surprise -log2 p exceeds a bound. After each draw, the
  // bound moves at the rate eta so that the surprise of drawn tokens stays near tau bits.
  bool mirostat = false;
  float mirostat_tau = 5.0f;  // >= 0
  float mirostat_eta = 0.1f;  // [0, 1]
  uint64_t seed = 0;          // the same seed gives the same tokens, alone or in a batch
  std::vector<std::pair<int32_t, float>> logit_bias;  // (token, value added to its logit); <= -100 bans it
};

}  // namespace hearth
