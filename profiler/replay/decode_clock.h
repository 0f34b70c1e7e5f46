// The time that decoding takes in a replay, by the costs of a plan (engine/placement/layer_options.h).
//
// In each layer, the GPU computes attention and the router. If it holds all of the layer's experts, it
// computes those of the token. Otherwise it hands the layer over to the CPU, as the engine does in every
// layer that has missing experts. The GPU and the CPU then compute their experts at the same time, and the
// longer time counts. One expert at a time is copied over the link, and nothing waits for it. While it is
// copied, the CPU has only the rest of RAM's bandwidth. Experts of the next layer are prefetched as late as
// possible, so that the CPU is idle during most of these copies. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/activity/expert_trace.h"
#include "engine/placement/layer_options.h"
#include "profiler/plan/plan_answer.h"
#include "profiler/replay/cache_policy.h"

namespace hearth {

/// Costs of a decoded token's parts.
struct DecodeCosts {
  /// Element i [n_used + 1] is the cost of the layer if i of the token's experts are on the GPU.
  using Layer = std::vector<MixtureSeconds>;
  std::vector<std::array<Layer, 3>> layers;  // layers of the trace; index: Held
  double other_s = 0;                        // other layers, output, step
  double link_bytes_per_s = 0;
  double cpu_share = 1;    // the share of the CPU's speed that remains during copies
  double other_bytes = 0;  // of the GPU's memory besides experts

  const Layer& layer(size_t i, Held held) const { return layers[i][static_cast<size_t>(held)]; }
  /// Seconds from the layer's begin until its router has chosen. The CPU is idle then.
  double attention_seconds(size_t i, Held held) const {
    return layer(i, held).front().whole + layer(i, held).front().kernels;
  }
};

/// `question` must be about the trace's model. REQUIRES: question.machine has a GPU. Throws
/// std::runtime_error (one sentence) if no GPU can hold the model's experts.
DecodeCosts decode_costs(const PlanQuestion& question, const ExpertTrace& trace);

class DecodeClock {
 public:
  /// held: how many of each layer's experts the GPU holds. Costs and policy must outlive the clock.
  DecodeClock(const DecodeCosts& costs, Held held, CachePolicy& policy)
      : costs_(costs), held_(held), policy_(policy) {}

  /// Adds the time that a token takes in a layer. Returns how many of the chosen experts are on the GPU.
  int run_layer(size_t layer, std::span<const uint16_t> chosen);
  /// Adds the time that a token takes outside of these layers. Returns the seconds that the whole token took.
  double end_token();

  double seconds() const { return now_; }
  uint64_t copied_bytes() const { return copied_bytes_; }
  uint64_t n_copied() const { return n_copied_; }

 private:
  void begin_copies();
  void advance(double until);
  double cpu_end(double begin, double work);
  double cpu_end_with_prefetch(size_t layer, double begin, double work);

  const DecodeCosts& costs_;
  const Held held_;
  CachePolicy& policy_;
  double now_ = 0, token_begin_ = 0;
  std::optional<CachePolicy::Copy> copy_;  // under way
  double copy_end_ = 0;
  uint64_t copied_bytes_ = 0, n_copied_ = 0;
};

}  // namespace hearth
