// The tokens that may be drawn, and the filters that remove some of them.
//
// A filter leaves at least one candidate. Weights are not normalized: a filter that needs probabilities
// divides the weights by their sum, so each filter works on the result of the previous filter. The functions
// are pure; the candidates are scratch memory of the sampler.
#pragma once

#include <cstdint>
#include <vector>

namespace hearth {

struct Candidates {
  std::vector<int32_t> ids;
  // [ids.size()] exp((logit - max logit) / temperature), so the greatest weight is 1.
  std::vector<float> weights;

  double total() const;
};

/// Sorts by descending weight; ties go to the lowest id.
void sort_candidates(Candidates& candidates);

/// Locally typical sampling (Meister et al. 2022): keeps as many candidates as are needed for the probability
/// mass p, starting with those whose surprise -log p is nearest to the distribution's entropy. Ties go to the
/// more likely candidate. Leaves the candidates sorted by that distance.
void keep_typical(Candidates& candidates, double p);

/// Keeps as many of the most likely candidates as are needed for the probability mass p. REQUIRES: sorted by
/// sort_candidates().
void keep_top_mass(Candidates& candidates, double p);

/// Drops candidates with a weight below min_p times the greatest weight. Keeps the order of the candidates.
void drop_unlikely(Candidates& candidates, float min_p);

/// XTC: if two or more candidates have at least the probability `threshold`, drops all of these except the
/// least likely one (ties: keeps the highest id). Keeps the order.
void exclude_top_choices(Candidates& candidates, double threshold);

/// Mirostat 2: drops candidates whose surprise exceeds `most_bits` bits; the most likely candidate always
/// stays. REQUIRES: sorted by sort_candidates().
void drop_surprising(Candidates& candidates, double most_bits);

}  // namespace hearth
