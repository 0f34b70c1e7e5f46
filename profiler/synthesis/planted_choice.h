// Decides without a model which experts a mixture's routers choose for a token. How often each expert is
// chosen, and how often the next token chooses it again, comes from counts of the model's experts. Without
// counts, both frequencies are those of synthetic models. The choice depends on random directions: each token
// has a direction, and so does each expert of each layer (planted_routing.h). A given token always chooses
// the same experts.
//
// A simulated device computes no logits, so a simulation derives them from these choices (PlantedActivity).
// Plans use the number of experts that the tokens of a prompt's step choose. Planted traces store all
// choices. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/activity/activity_counts.h"
#include "engine/model/model_spec.h"
#include "kernels/experts.h"
#include "profiler/synthesis/planted_routing.h"

namespace hearth {

/// The frequencies with which experts are chosen, and chosen again by the next token.
struct ChoiceLaw {
  ChoiceLaw();   // the law of synthetic models
  double skew;   // exponent of the power law of how often experts are chosen
  double reuse;  // share of a token's experts that the previous token chose too
  /// The number of tokens after which the topic changes; 0: there are no topics. Each topic has a direction,
  /// which is added to the directions of all its tokens. These tokens therefore choose similar experts, and
  /// each topic has its own hot experts.
  int topic_tokens = 0;
  uint64_t seed = 0;
};

class PlantedChoice {
 public:
  /// counts: counts of the model's experts; null or empty if nothing was counted. If the model has no
  /// experts, next_layer() must not be called.
  explicit PlantedChoice(const ModelSpec& spec, const ActivityCounts* counts = nullptr);
  PlantedChoice(const ModelSpec& spec, const ChoiceLaw& law, const ActivityCounts* counts = nullptr);

  /// Begins a step with these tokens; token i has position positions[i] in sequence sequences[i].
  void begin_step(std::span<const int32_t> sequences, std::span<const int32_t> positions);

  size_t n_layers() const { return layers_.size(); }  // layers with experts
  /// Returns the choice in the next layer with experts; the first call in a step is for the first such layer.
  /// Valid until the next call. REQUIRES: the model has experts, and the step has such a layer left.
  ExpertChoice next_layer();
  /// Returns the result of the last call of next_layer().
  ExpertChoice current() const {
    return {static_cast<int>(tokens_.size()), n_used_, experts_.data(), weights_.data()};
  }

 private:
  using Direction = ActivitySpace::Direction;

  uint64_t key(uint64_t stream) const;
  const Direction& own(int32_t sequence, int32_t position);
  /// Adds the direction of the topic at this position to the token's direction `to`.
  void add_topic(int32_t position, Direction& to) const;
  /// Returns the direction by which routers distinguish tokens: the token's own direction, mixed with those
  /// of previous tokens.
  Direction varying_part(int32_t sequence, int32_t position);

  const ChoiceLaw law_;
  int n_used_;
  std::vector<std::vector<PlantedDirection>> layers_;  // [layers with experts][n_experts]
  std::vector<double> recent_;  // [distance]: weight of the token at that distance in a token's varying part
  std::unordered_map<uint64_t, Direction> own_;
  std::vector<Direction> tokens_;  // the varying parts of the step's tokens
  size_t next_layer_ = 0;
  std::vector<int32_t> experts_;  // [n_tokens, n_used_]
  std::vector<float> weights_;
};

/// Returns the number of experts that a layer reads in a step of n_tokens prompt tokens, averaged over some
/// layers. REQUIRES: the model has experts; n_tokens > 0.
double mean_experts_chosen(const ModelSpec& spec, int n_tokens);

}  // namespace hearth
