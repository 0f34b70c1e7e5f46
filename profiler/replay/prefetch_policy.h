// A cache policy that exchanges experts as the engine does, and also prefetches experts of the next layer.
//
// After a layer's router has chosen, the next layer's router, applied to the same input, predicts the experts
// that the next layer will probably use. Those that the GPU does not hold are copied to a buffer, but only if
// no exchange wants the link. If such an expert has arrived when its layer's router has chosen it, the GPU
// computes it for this token. Then the buffer is used for the next layer. A copy that is under way continues
// to its end, even if it is too late.
//
// A copy takes as much of RAM's bandwidth as the CPU would need for the expert. So prefetching saves time
// only as far as it copies while the CPU waits for the GPU. The policy chooses how many experts of a layer it
// prefetches, by the costs of the replay, and chooses none if they save no time. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "profiler/replay/cache_policy.h"
#include "profiler/replay/decode_clock.h"

namespace hearth {

class PrefetchPolicy final : public CachePolicy {
 public:
  /// exchanges: the policy that exchanges experts. accuracy: the share of a layer's experts that the previous
  /// layer's input predicts. Trace and costs must outlive the policy.
  PrefetchPolicy(std::unique_ptr<CachePolicy> exchanges, const ExpertTrace& trace, const DecodeCosts& costs,
                 Held held, double accuracy);

  /// Predicts the experts that a token of the trace uses in a layer: each of them with a probability of
  /// `accuracy`, and in place of the others, wrong ones that recent tokens chose. Call it before the previous
  /// layer runs.
  void predict(uint64_t token, size_t layer);

  int n_resident(size_t layer, std::span<const uint16_t> experts) const override {
    return exchanges_->n_resident(layer, experts);
  }
  void use(size_t layer, std::span<const uint16_t> experts) override { exchanges_->use(layer, experts); }
  void end_token(double seconds) override { exchanges_->end_token(seconds); }
  std::optional<Copy> next_copy() override;
  void arrived(const Copy& copy) override;

  Prefetch to_prefetch() const override {
    return {static_cast<int>(queue_.size()), trace_.layers[layer_].expert_bytes};
  }
  void begin_prefetch(int n_in_time) override;
  int take_prefetched(size_t layer, std::span<const uint16_t> experts) override;

 private:
  const std::unique_ptr<CachePolicy> exchanges_;
  const ExpertTrace& trace_;
  const double accuracy_;
  std::vector<int> most_;      // [layers] experts that are prefetched at most
  std::mt19937_64 random_{1};  // of the predictions
  size_t predicted_layer_ = 0;
  std::vector<uint16_t> predicted_;
  size_t layer_ = 0;             // whose experts are prefetched now
  std::deque<uint16_t> queue_;   // experts to prefetch
  int n_allowed_ = 0;            // of the queue, that may be copied now
  std::vector<uint16_t> there_;  // experts in the buffer
};

/// The number of experts of a layer whose prefetch saves the most time, by the costs of a replay. They are
/// copied so that the last of them arrives when the layer's router has chosen. REQUIRES: the costs have the
/// layer.
int best_prefetch(const DecodeCosts& costs, Held held, size_t layer, double expert_bytes, double accuracy);

}  // namespace hearth
