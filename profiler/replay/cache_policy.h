// The policies by which a replay decides which experts a GPU holds.
//
// A policy is told what tokens used, and is asked for the next expert to copy whenever the link is free. One
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/activity/expert_trace.h"

namespace hearth {

enum class ReplayPolicy : uint8_t {
  kNone,      // the CPU computes all experts
  kStatic,    // the most used experts of the training data, never exchanged
  kLru,       // every missed expert is copied, and replaces the one that was not used for the longest time
  kLfu,       // a missed expert replaces the least used one if it was used more often
  kDecay,     // like kLfu, but older uses count less
  kLearned,   // engine/residency/expert_cache.h: what the engine does
  kPrefetch,  // like kLearned, and experts of the next layer are prefetched (prefetch_policy.h)
  kOptimum,   // Belady's, which knows the future (optimum.h)
};
/// "none", "static", "lru", "lfu", "decay", "learned", "prefetch", "optimum".
std::string_view policy_name(ReplayPolicy policy);

/// How often a trace's experts were used before the replay.
struct KnownUse {
  /// [layers][n_experts] uses per token, in the order of ExpertTrace::layers.
  std::vector<std::vector<double>> per_token;
};

/// Returns, for each layer of a trace, the experts that fill a budget of bytes: those with the most uses per
/// byte. If they are equal, the lower layer and the lower expert take precedence.
std::vector<std::vector<int32_t>> hottest_experts(const ExpertTrace& trace, const KnownUse& known,
                                                  double budget_bytes);

class CachePolicy {
 public:
  struct Copy {
    size_t layer = 0;
    int32_t expert = 0, row = 0;
    uint64_t bytes = 0;
  };
  struct Prefetch {
    int n_experts = 0;
    uint64_t bytes = 0;  // of each expert
  };

  virtual ~CachePolicy() = default;
  /// Returns how many of these experts of a layer are in the GPU's cache.
  virtual int n_resident(size_t layer, std::span<const uint16_t> experts) const = 0;
  /// Records that a token used these experts of a layer.
  virtual void use(size_t layer, std::span<const uint16_t> experts) = 0;
  /// Reports the end of a token, which took this many seconds.
  virtual void end_token(double seconds) = 0;
  /// Returns the next copy to begin, after making room for it, or nullopt if nothing is to be copied. Called
  /// when the link is free.
  virtual std::optional<Copy> next_copy() = 0;
  /// Reports that a copy has ended.
  virtual void arrived(const Copy& copy) = 0;

  // -- for a policy that prefetches, in each layer, in this order --

  /// The layer's router has chosen these experts. Returns how many of them have been prefetched.
  virtual int take_prefetched(size_t /*layer*/, std::span<const uint16_t> /*experts*/) { return 0; }
  /// The experts of the next layer to prefetch.
  virtual Prefetch to_prefetch() const { return {}; }
  /// From now on, next_copy() may return the first n_in_time of these experts.
  virtual void begin_prefetch(int /*n_in_time*/) {}
};

/// Makes a policy. When the replay begins, the GPU's cache contains the experts that hottest_experts()
/// returns; with kNone, the cache stays empty. link_bytes_per_s: the rate of copies. The trace must outlive
/// the policy. REQUIRES: policy is neither kPrefetch nor kOptimum.
std::unique_ptr<CachePolicy> make_policy(ReplayPolicy policy, const ExpertTrace& trace, const KnownUse& known,
                                         double budget_bytes, double link_bytes_per_s);

}  // namespace hearth
