// See the header.
#include "profiler/replay/replay.h"

#include <algorithm>
#include <memory>

#include "profiler/replay/optimum.h"
#include "profiler/replay/prefetch_policy.h"

namespace hearth {
namespace {

/// Reports the hits that optimal_hits() found, and copies nothing.
class OptimalPolicy final : public CachePolicy {
 public:
  explicit OptimalPolicy(const OptimalHits& optimal) : optimal_(optimal) {}

  int n_resident(size_t, std::span<const uint16_t>) const override { return optimal_.hits[next_]; }
  void use(size_t, std::span<const uint16_t>) override { ++next_; }
  void end_token(double) override {}
  std::optional<Copy> next_copy() override { return std::nullopt; }
  void arrived(const Copy&) override {}

 private:
  const OptimalHits& optimal_;
  size_t next_ = 0;
};

/// How many of a layer's experts the GPU holds with this budget.
Held held_by(ReplayPolicy policy, const ExpertTrace& trace, double budget_bytes) {
  const uint64_t least = std::ranges::min(trace.layers, {}, &TracedLayer::expert_bytes).expert_bytes;
  if (policy == ReplayPolicy::kNone || budget_bytes < static_cast<double>(least)) return Held::kNone;
  return budget_bytes < all_expert_bytes(trace) ? Held::kSome : Held::kAll;
}

}  // namespace

ExpertTrace decoded_part(const ExpertTrace& trace, bool prompts) {
  ExpertTrace part{
      .model = trace.model, .n_used = trace.n_used, .layers = trace.layers, .runs = {}, .experts = {}};
  size_t begin = 0;
  for (const TraceRun& run : trace.runs) {
    const size_t n = run.n_tokens * trace.token_experts();
    if (prompts || run.text == TraceText::kGenerated)
      part.add_run(TraceText::kGenerated, true, std::span(trace.experts).subspan(begin, n));
    begin += n;
  }
  return part;
}

KnownUse use_in_trace(const ExpertTrace& trace, uint64_t begin, uint64_t end) {
  KnownUse known;
  const double one = end == begin ? 0 : 1 / static_cast<double>(end - begin);
  for (size_t layer = 0; layer < trace.layers.size(); ++layer) {
    std::vector<double>& of_layer = known.per_token.emplace_back(static_cast<size_t>(trace.model.n_experts));
    for (uint64_t token = begin; token < end; ++token)
      for (const uint16_t expert : trace.chosen(token, layer)) of_layer[expert] += one;
  }
  return known;
}

KnownUse use_in_counts(const ExpertTrace& trace, const ActivityCounts& counts) {
  KnownUse known;
  for (const TracedLayer& layer : trace.layers) {
    std::vector<double>& of_layer = known.per_token.emplace_back(static_cast<size_t>(trace.model.n_experts));
    for (size_t e = 0; e < of_layer.size() && !counts.empty(); ++e) {
      of_layer[e] = static_cast<double>(counts.active[counts.index(layer.number, static_cast<int64_t>(e))]) /
                    counts.n_tokens;
    }
  }
  return known;
}

PolicyResult replay(ReplayPolicy policy, const ExpertTrace& trace, uint64_t first_token,
                    const KnownUse& known, double budget_bytes, const DecodeCosts& costs,
                    const std::function<void(double)>& progress, double prefetch_accuracy) {
  const Held held = held_by(policy, trace, budget_bytes);
  OptimalHits optimal;
  std::unique_ptr<CachePolicy> cache;
  PrefetchPolicy* prefetch = nullptr;
  if (policy == ReplayPolicy::kOptimum) {
    optimal = optimal_hits(trace, first_token, budget_bytes);
    cache = std::make_unique<OptimalPolicy>(optimal);
  } else if (policy == ReplayPolicy::kPrefetch) {
    auto prefetching = std::make_unique<PrefetchPolicy>(
        make_policy(ReplayPolicy::kLearned, trace, known, budget_bytes, costs.link_bytes_per_s), trace, costs,
        held, prefetch_accuracy);
    prefetch = prefetching.get();
    cache = std::move(prefetching);
  } else {
    cache = make_policy(policy, trace, known, budget_bytes, costs.link_bytes_per_s);
  }
  PolicyResult result{.policy = policy};
  DecodeClock clock(costs, held, *cache);
  for (uint64_t token = first_token; token < trace.n_tokens(); ++token) {
    for (size_t layer = 0; layer < trace.layers.size(); ++layer) {
      const std::span<const uint16_t> chosen = trace.chosen(token, layer);
      if (prefetch != nullptr && layer + 1 < trace.layers.size()) prefetch->predict(token, layer + 1);
      result.n_hits += static_cast<uint64_t>(clock.run_layer(layer, chosen));
      result.n_choices += chosen.size();
      cache->use(layer, chosen);
    }
    cache->end_token(clock.end_token());
    ++result.n_tokens;
    if (progress && token % 64 == 0)
      progress(static_cast<double>(token - first_token) /
               static_cast<double>(trace.n_tokens() - first_token));
  }
  result.seconds = clock.seconds();
  result.n_copied = clock.n_copied();
  result.copied_bytes = clock.copied_bytes();
  if (policy == ReplayPolicy::kOptimum) {
    result.n_copied = optimal.n_brought;
    result.copied_bytes =
        static_cast<uint64_t>(static_cast<double>(optimal.n_brought) * all_expert_bytes(trace) /
                              static_cast<double>(trace.layers.size()) / trace.model.n_experts);
  }
  return result;
}

double all_expert_bytes(const ExpertTrace& trace) {
  double bytes = 0;
  for (const TracedLayer& layer : trace.layers)
    bytes += static_cast<double>(layer.expert_bytes) * trace.model.n_experts;
  return bytes;
}

}  // namespace hearth
