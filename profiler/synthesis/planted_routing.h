// Planted routing: makes the routers of a synthetic mixture choose each expert with a known frequency, and
// choose a known share of a token's experts again for the next token.
//
// Why: these two properties decide how much a cache of experts saves, and how many experts a step of many
// tokens reads.
//
// Skew. The router's row of expert e is made like the gate row of a neuron that fires with the probability
// p_e (synth_activity.h), so the logit of expert e is positive for the share p_e of the tokens. The router
// chooses the n_used experts with the highest logits, which are roughly the experts with positive logits.
// Expert e is therefore chosen for about the share p_e of the tokens. p_e is proportional to (r + 0.1)^-skew,
// where r is the expert's rank, scaled to the range from 0 to 1. The p_e of all experts add up to n_used.
// With skew 1, the hottest quarter of the experts gets 52 % of the choices, as in OLMoE.
//
// Reuse. A router's choice depends on the varying part w of a token (synth_activity.h). At first, token t has
// its own part, w = own_t. In one early layer, attention adds a weighted mean of the w of recent tokens, so
// that w changes slowly from token to token: token t gets w' = own_t + B sum_i k_i own_{t-i}. All queries and
// keys of the model are the same vector, so with RoPE, an attention score depends only on the distance i, and
// k_i are the attention weights. The vector is 0 in pairs of dimensions that rotate faster than kFastest.
// Therefore k_i is nearly constant for small distances i, and follows a power law for larger ones. B is
// computed from the wanted correlation between the w' of neighboring tokens. Sampling finds the correlation
// that gives the wanted share of reused experts.
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

/// Fills `chosen` with the experts that a token with this w chooses, the best first. The size of `chosen` is
/// the number of experts to choose.
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
