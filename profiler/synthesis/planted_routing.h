// Planted routing: makes a synthetic mixture's routers choose each expert with a known frequency, and choose
// a known share of a token's experts again for the next token.
//
// Why: these two decide how much a cache of experts saves, and how many experts a step of many tokens reads.
//
// Skew. The router's row of expert e is a gate row of planted activity (synth_activity.h) that would fire
// with the probability p_e. So the router's n_used best experts are roughly those that fire, and expert e is
// chosen for about the share p_e of tokens. p is a power law over the experts' ranks r from 0 to 1, (r +
// 0.1)^-skew, scaled to the sum n_used. With skew 1, the hottest quarter of the experts gets 52 % of the
// choices, as in OLMoE.
//
// Reuse. Routers see the varying part w of a token (synth_activity.h). In one early layer attention adds to
// it the mean of recent tokens' w, so that w changes slowly: w' = own + B sum_i k_i own_{t-i}. All queries
// and keys of the model are one vector, so RoPE makes scores depend only on the distance i. The vector is 0
// in pairs of dimensions that turn faster than kFastest, which makes k flat over some tokens and a power law
// after them. B follows from the correlation of w' between neighboring tokens, and sampling finds the
// correlation that gives the wanted share of reused experts.
//
// Const after construction, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/model_spec.h"
#include "profiler/synthesis/shapes.h"
#include "profiler/synthesis/synth_activity.h"

namespace hearth {

/// An expert of a layer, or a neuron. It fires if the cosine between `direction` and a token's w is above
/// `cosine`.
struct PlantedDirection {
  ActivitySpace::Direction direction;
  double cosine;
};

/// Directions that fire with these probabilities, in random order.
std::vector<PlantedDirection> plant_directions(std::span<const double> probabilities, uint64_t seed);

/// The experts that a token with this w chooses, the best first, as many as `chosen` has room for.
void choose_experts(std::span<const PlantedDirection> experts, const ActivitySpace::Direction& w,
                    std::span<int32_t> chosen);

/// Attention that depends only on the distance between tokens.
struct RecentAttention {
  int first_pair = 0;  // queries and keys are 0 in the pairs of dimensions before it, and equal in the others
  double score = 0;    // score of a token with itself
  std::vector<double> weights;  // by distance, from 0; their sum is 1
};
RecentAttention recent_attention(const RopeSpec& rope);

/// Factors that mix a token's varying part from its own and those of recent tokens.
struct RecentMix {
  double own = 1;     // length of the token's own part, for w' of length 1
  double recent = 0;  // B
};
/// The mix for which neighboring tokens' w' have this correlation, or as much as this attention allows.
RecentMix mix_for_correlation(std::span<const double> weights, double correlation);

/// The correlation of neighboring tokens' w for which a token chooses the share `reuse` of the previous
/// token's experts again; 0 if unrelated tokens share as many.
double correlation_for_reuse(std::span<const PlantedDirection> experts, int n_used, double reuse);

}  // namespace hearth
