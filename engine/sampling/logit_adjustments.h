// What a request adds to the model's logits before anything is drawn: bias, forbidden tokens, penalties.
//
// Pure functions over one row of logits; engine thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling/sampling_params.h"

namespace hearth {

/// Does anything here change a row of logits?
bool has_adjustments(const SamplingParams& params);

/// Adds logit_bias; a bias of -100 or less makes a logit -infinity, as OpenAI says it bans the token.
void add_bias(const SamplingParams& params, std::span<float> logits);

/// Makes every logit -infinity whose token is not allowed. REQUIRES: the mask is of this vocabulary.
void forbid_others(const TokenMask& allowed, std::span<float> logits);

/// Repetition, presence and frequency penalties. tokens: the sequence so far, its first n_prompt the prompt. counts:
/// scratch, [logits.size()], all zero before and after.
void subtract_penalties(const SamplingParams& params, std::span<const int32_t> tokens, size_t n_prompt,
                        std::vector<int32_t>& counts, std::span<float> logits);

/// DRY: in time linear in the tokens that are searched.
void subtract_dry(const DryParams& dry, std::span<const int32_t> tokens, std::span<float> logits);

}  // namespace hearth
