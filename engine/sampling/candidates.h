// The tokens that may be drawn, and the filters that remove some of them.
//
// A filter leaves at least one candidate. Weights are not normalized; a filter that needs probabilities
// divides by their sum, so each filter works on the result of the one before. Pure functions of the
// candidates, which are the sampler's scratch.
#pragma once

#include <cstdint>
#include <vector>

namespace hearth {

struct Candidates {
  std::vector<int32_t> ids;
  std::vector<float> weights;  // as long as ids; exp((logit - max logit) / temperature), so the greatest is 1

  double total() const;
};

/// Sorts by falling weight; ties go to the lowest id.
void sort_candidates(Candidates& candidates);

/// Locally typical sampling (Meister et al. 2022): keeps the candidates whose surprise -log p is nearest to
/// the distribution's entropy, as many as needed for mass p. Ties go to the more likely one. Leaves them
/// sorted by that distance.
void keep_typical(Candidates& candidates, double p);

/// Keeps the most likely candidates, as many as needed for mass p. REQUIRES: sorted.
void keep_top_mass(Candidates& candidates, double p);

/// Drops candidates with a weight below min_p times the greatest. Keeps the order.
void drop_unlikely(Candidates& candidates, float min_p);

/// XTC: if two or more candidates reach the probability `threshold`, drops all of those but the least likely
/// (ties: keeps the highest id). Keeps the order.
void exclude_top_choices(Candidates& candidates, double threshold);

/// Mirostat 2: drops candidates whose surprise in bits exceeds `most_bits`; the most likely one always stays.
/// REQUIRES: sorted.
void drop_surprising(Candidates& candidates, double most_bits);

}  // namespace hearth
