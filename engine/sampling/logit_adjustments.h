// Changes the model's logits as a request specifies, before a token is drawn: bias, forbidden tokens,
// penalties.
//
// These are pure functions over one row of logits; engine thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling/sampling_params.h"

namespace hearth {

/// Whether the parameters change any logit.
bool has_adjustments(const SamplingParams& params);

/// Adds logit_bias. A bias of -100 or less makes the logit -infinity, because OpenAI documents it as a ban.
void add_bias(const SamplingParams& params, std::span<float> logits);

/// Sets the logits of all tokens that are not allowed to -infinity. REQUIRES: the mask has the size of the
/// vocabulary.
void forbid_others(const TokenMask& allowed, std::span<float> logits);

/// Subtracts the repetition, presence and frequency penalties. tokens: the sequence so far; its first
/// n_prompt tokens are the prompt. counts: scratch memory [logits.size()], all zero before and after the
/// call.
void subtract_penalties(const SamplingParams& params, std::span<const int32_t> tokens, size_t n_prompt,
                        std::vector<int32_t>& counts, std::span<float> logits);

/// Subtracts the DRY penalties. Takes time linear in the number of tokens searched.
void subtract_dry(const DryParams& dry, std::span<const int32_t> tokens, std::span<float> logits);

}  // namespace hearth
