// Planted routing: makes the routers of a synthetic mixture choose each expert with a known frequency. They
// also choose a known share of a token's experts again for the next token.
//
// Why: these two properties decide how much a cache of experts saves, and how many experts a step of many
// tokens reads.
//
// Skew. The router's row of expert e is a gate row of planted activity (synth_activity.h) that would fire
// with the probability p_e. The n_used experts with the highest logits are roughly those that would fire, so
// expert e is chosen for about the share p_e of the tokens. p_e is proportional to (r + 0.1)^-skew, where r
// is the expert's rank, scaled to the range from 0 to 1. The p_e of all experts add up to n_used. With skew
// 1, the hottest quarter of the experts gets 52 % of the choices, as in OLMoE.
//
// Reuse. A router's choice depends on the varying part w of a token (synth_activity.h). In one early layer,
// attention adds the mean of recent tokens' w to it, so that w changes slowly: token t gets w' = own_t + B
// sum_i k_i own_{t-i}. All queries and keys of the model are the same vector, so with RoPE, an attention
// score depends only on the distance i, and k_i are the attention weights. The vector is 0 in pairs of
// dimensions that rotate faster than kFastest. Therefore k is flat over some tokens, and follows a power law
// beyond them. B is computed from the wanted correlation of w' between neighboring tokens. Sampling finds the
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

/// Returns directions that fire with these probabilities, in random order.
std::vector<PlantedDirection> plant_directions(std::span<const double> probabilities, uint64_t seed);

/// Stores the experts that a token with this w chooses in `chosen`, the best first, until it is full.
void choose_experts(std::span<const PlantedDirection> experts, const ActivitySpace::Direction& w,
                    std::span<int32_t> chosen);

/// Attention that depends only on the distance between tokens.
struct RecentAttention {
  int first_pair = 0;           // first pair of dimensions in which queries and keys are not 0
  double score = 0;             // score of a token with itself
  std::vector<double> weights;  // [distance] attention weights from distance 0 on; their sum is 1
};
RecentAttention recent_attention(const RopeSpec& rope);

/// Factors that mix a token's own varying part with those of recent tokens.
struct RecentMix {
  double own = 1;     // factor on the token's own part; makes the length of w' 1
  double recent = 0;  // B
};
/// Returns the mix with which the varying parts w' of neighboring tokens have this correlation, or the
/// largest correlation that these weights allow.
RecentMix mix_for_correlation(std::span<const double> weights, double correlation);

/// Returns the correlation of neighboring tokens' w with which a token chooses the share `reuse` of the
/// previous token's experts again. Returns 0 if even unrelated tokens share that many experts.
double correlation_for_reuse(std::span<const PlantedDirection> experts, int n_used, double reuse);

}  // namespace hearth
