// Planted routing: which experts a synthetic mixture's routers choose how often, and how many of a token's experts the
// next token chooses again.
//
// Why: what a cache of experts saves, and how many experts a step of many tokens reads, follows from these two.
//
// Skew. The router's row of expert e is a gate row of planted activity (synth_activity.h) that would fire with the
// probability p_e, so the router's n_used best are about those that fire, and expert e is chosen about p_e times a token.
// p is a power law over the experts' ranks r from 0 to 1, (r + 0.1)^-skew, whose sum is n_used. With skew 1, the hottest
// quarter of the experts gets 52 % of the choices; OLMoE's do too.
//
// Reuse. Routers see the part w of a token that varies (synth_activity.h). In one early layer attention adds to it the
// mean of the w of recent tokens, so that w changes slowly: w' = own + B sum_i k_i own_{t-i}. All queries and keys of the
// model are one vector, so scores depend on the distance i alone, by RoPE: the vector is 0 in those pairs of
// dimensions that turn faster than kFastest, which makes k flat over some tokens and a power law behind them. B follows
// from the correlation of w' from token to token, and this from the wanted share of reused experts, which sampling gives.
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

/// An expert of a layer, or a neuron: fires where the cosine of `direction` and a token's w is above `cosine`.
struct PlantedDirection {
  ActivitySpace::Direction direction;
  double cosine;
};

/// Directions that fire with these probabilities, in random order.
std::vector<PlantedDirection> plant_directions(std::span<const double> probabilities, uint64_t seed);

/// The experts that a token with this w chooses, the best first, as many as `chosen` has room for.
void choose_experts(std::span<const PlantedDirection> experts, const ActivitySpace::Direction& w,
                    std::span<int32_t> chosen);

/// The attention that depends on the distance alone.
struct RecentAttention {
  int first_pair = 0;  // queries and keys are 0 in the pairs of dimensions before it, and equal in the others
  double score = 0;    // of a token with itself
  std::vector<double> weights;  // by distance, from 0; their sum is 1
};
RecentAttention recent_attention(const RopeSpec& rope);

/// How the varying part of a token is made of its own and that of recent tokens.
struct RecentMix {
  double own = 1;     // length of a token's own, if w' is to have the length 1
  double recent = 0;  // B
};
/// The mix whose w' of neighbouring tokens correlate so much, or as much as this attention allows.
RecentMix mix_for_correlation(std::span<const double> weights, double correlation);

/// The correlation of neighbouring tokens' w for which a token chooses `reuse` of the experts that the token before it
/// chose; 0 if unrelated tokens share as many.
double correlation_for_reuse(std::span<const PlantedDirection> experts, int n_used, double reuse);

}  // namespace hearth
