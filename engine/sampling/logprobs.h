// Log-probabilities of tokens under a row of raw logits, and selection of its largest entries.
//
// PieceResults and TokenChooser call these functions for log-probabilities that clients request. The sampler
// calls them too. All run on the engine thread. Rows have n_vocab entries (up to 256k), so nothing here sorts
// a whole row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hearth {

/// A natural log-probability under the model's unmodified distribution: log-softmax of the raw logits over
/// the whole vocabulary, without bias, penalties, temperature and filters.
struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0f;
};

struct TokenEvent {
  int32_t token = 0;
  float logprob = 0.0f;           // meaningful if n_top_logprobs >= 0
  std::vector<TokenLogprob> top;  // n_top_logprobs entries, most likely first
};

/// Returns the largest logit. Returns NaN if the row is not a distribution: if it has a NaN or +infinity, or
/// if all its logits are -infinity. REQUIRES: logits not empty.
float checked_max(std::span<const float> logits);

/// Returns log(sum(exp(logits))) over the whole row, summed in double, with an error of at most 3e-7. Returns
/// NaN if checked_max() does.
double log_sum_exp(std::span<const float> logits);

/// Sets `ids` to the ids of the k largest logits, most likely first; ties go to the lowest id. REQUIRES: 0 <=
/// k <= logits.size(); no NaN.
void select_top(std::span<const float> logits, int k, std::vector<int32_t>& ids);

/// Sets event.logprob to the log-probability of event.token, and event.top to the n_top most likely tokens:
/// none if n_top <= 0, at most the whole vocabulary. Returns false and leaves the event unchanged if the row
/// is not a distribution. `scratch` is memory that callers reuse between calls.
bool add_logprobs(std::span<const float> logits, int n_top, TokenEvent& event, std::vector<int32_t>& scratch);

}  // namespace hearth
