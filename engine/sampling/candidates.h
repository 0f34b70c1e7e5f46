// The tokens that may be drawn, and the filters that take some of them away.
//
// A filter leaves at least one candidate. Weights are not normalised; a filter that needs probabilities divides by their
// sum, so each works on what the one before has left. Pure functions of the candidates; the sampler's scratch.
#pragma once

#include <cstdint>
#include <vector>

namespace hearth {

struct Candidates {
  std::vector<int32_t> ids;
  std::vector<float> weights;  // as long as ids; exp((logit - max logit) / temperature), so the greatest is 1

  double total() const;
};

/// Most likely first, the lowest id first among equals.
void sort_candidates(Candidates& candidates);

/// Keeps those whose surprise -log p is nearest to the distribution's entropy, as many as it takes for mass p (Meister et
/// al. 2022). Among equally near ones the more likely stays. Leaves them sorted by that nearness.
void keep_typical(Candidates& candidates, double p);

/// Keeps the most likely ones, as many as it takes for mass p. REQUIRES: sorted.
void keep_top_mass(Candidates& candidates, double p);

/// Drops those lighter than min_p times the heaviest. Keeps the order.
void drop_unlikely(Candidates& candidates, float min_p);

/// XTC: if two or more reach the probability `threshold`, drops all of these but the least likely (the highest id among
/// equals). Keeps the order.
void exclude_top_choices(Candidates& candidates, double threshold);

/// Mirostat 2: drops those whose surprise, in bits, exceeds `most_bits`; the most likely one always stays. REQUIRES: sorted.
void drop_surprising(Candidates& candidates, double most_bits);

}  // namespace hearth
