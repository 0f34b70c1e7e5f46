// Log-probabilities of tokens under a row of raw logits, and the selection of its largest entries.
//
// Called on the engine thread: by the Engine for what clients ask to see, and by the sampler. Rows have
// n_vocab (up to 256k) entries, so nothing here sorts a whole row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/serving/request.h"

namespace hearth {

/// The largest logit, or NaN if the row holds a NaN, +infinity, or nothing above -infinity: such a row is no
/// distribution. REQUIRES: logits not empty.
float checked_max(std::span<const float> logits);

/// log(sum(exp(logits))) over the whole row, summed in double, to within 3e-7. NaN if checked_max() is.
double log_sum_exp(std::span<const float> logits);

/// Puts the ids of the k largest logits into `ids`, most likely first, the lowest id first among equals.
/// REQUIRES: 0 <= k <= logits.size(); no NaN.
void select_top(std::span<const float> logits, int k, std::vector<int32_t>& ids);

/// Fills event.logprob for event.token and event.top with the n_top most likely tokens (none if n_top <= 0,
/// the whole vocabulary at most). Returns false, event untouched, if the row is no distribution. `scratch`
/// saves an allocation.
bool add_logprobs(std::span<const float> logits, int n_top, TokenEvent& event, std::vector<int32_t>& scratch);

}  // namespace hearth
