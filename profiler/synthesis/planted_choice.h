// Which experts a mixture's routers choose for which token, without a model: by the law that synth plants (planted_routing.h), with
// its skew and reuse, or as often and as often again as was counted. Each layer has directions of its own. Always the same for
// the same token.
//
// A simulated device computes no logits, so the simulated host asks here instead of reading them; plans ask how many experts the
// tokens of a prompt's step choose. One thread.
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

class PlantedChoice {
 public:
  /// counts: of the model's experts; null or empty: nothing was counted. Of a model without experts nothing may be asked.
  explicit PlantedChoice(const ModelSpec& spec, const ActivityCounts* counts = nullptr);

  /// A step of these tokens begins, each of a sequence and at a position of it.
  void begin_step(std::span<const int32_t> sequences, std::span<const int32_t> positions);

  size_t n_layers() const { return layers_.size(); }  // that have experts
  /// The choice of the next layer that has experts, from the first one on. Valid until the next call. REQUIRES: the model has
  /// experts, and the step has not asked for all its layers.
  ExpertChoice next_layer();

 private:
  using Direction = ActivitySpace::Direction;

  const Direction& own(int32_t sequence, int32_t position);
  /// The direction of the part by which routers tell a token from others: its own and that of tokens before it.
  Direction varying_part(int32_t sequence, int32_t position);

  int n_used_;
  std::vector<std::vector<PlantedDirection>> layers_;  // of experts
  std::vector<double> recent_;  // by distance: how much the token there counts in this one's varying part
  std::unordered_map<uint64_t, Direction> own_;
  std::vector<Direction> tokens_;  // of the step
  size_t next_layer_ = 0;
  std::vector<int32_t> experts_;  // [n_tokens, n_used_]
  std::vector<float> weights_;
};

/// How many experts of a layer a step of n tokens of a prompt chooses, in the mean of some layers. REQUIRES: the model has
/// experts, and n > 0.
double mean_experts_chosen(const ModelSpec& spec, int n_tokens);

}  // namespace hearth
