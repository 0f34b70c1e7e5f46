// The time that decoding takes in a replay, by the costs of a plan (engine/placement/layer_options.h).
//
// A layer takes the GPU's attention and router. If the GPU holds all experts, it computes those of the token.
// Otherwise it hands over, as the engine does in every layer that has missing experts, and the layer takes
// the longer of the GPU's experts and the CPU's. One expert at a time is copied over the link, and nothing
// waits for it. While it is copied, the CPU has only the rest of RAM's bandwidth. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/activity/expert_trace.h"
#include "engine/placement/layer_options.h"
#include "profiler/plan/plan_answer.h"
#include "profiler/replay/cache_policy.h"

namespace hearth {

/// Costs of a decoded token's parts.
struct DecodeCosts {
  /// By the number of a token's experts that are on the GPU [n_used + 1].
  using Layer = std::vector<MixtureSeconds>;
  std::vector<std::array<Layer, 3>> layers;  // those of the trace, by Held
  double other_s = 0;                        // other layers, output, step
  double link_bytes_per_s = 0;
  double cpu_share = 1;    // of its rate that the CPU has while the link copies
  double other_bytes = 0;  // of the GPU's memory besides experts

  const Layer& layer(size_t i, Held held) const { return layers[i][static_cast<size_t>(held)]; }
};

/// The question's model must be the trace's. REQUIRES: its machine has a GPU. Throws std::runtime_error (one
/// sentence) if no GPU can hold the model's experts.
DecodeCosts decode_costs(const PlanQuestion& question, const ExpertTrace& trace);

class DecodeClock {
 public:
  /// held: how many of each layer's experts the GPU holds. Costs and policy must outlive the clock.
  DecodeClock(const DecodeCosts& costs, Held held, CachePolicy& policy)
      : costs_(costs), held_(held), policy_(policy) {}

  /// Adds the time of a token in a layer, n_resident of whose experts the GPU has.
  void run_layer(size_t layer, int n_resident);
  /// Adds the rest of a token; returns the token's seconds.
  double end_token();

  double seconds() const { return now_; }
  uint64_t copied_bytes() const { return copied_bytes_; }
  uint64_t n_copied() const { return n_copied_; }

 private:
  void begin_copies();
  void advance(double until);
  double cpu_end(double begin, double work);

  const DecodeCosts& costs_;
  const Held held_;
  CachePolicy& policy_;
  double now_ = 0, token_begin_ = 0;
  std::optional<CachePolicy::Copy> copy_;  // under way
  double copy_end_ = 0;
  uint64_t copied_bytes_ = 0, n_copied_ = 0;
};

}  // namespace hearth
