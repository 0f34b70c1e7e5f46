// See the header.
#include "profiler/replay/optimum.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

namespace hearth {
namespace {

constexpr uint64_t kNoUse = std::numeric_limits<uint64_t>::max();

/// Passes over the trace in order. A moment is one layer of one token.
class Sweep {
 public:
  Sweep(const ExpertTrace& trace, uint64_t first_token, uint64_t capacity)
      : trace_(trace),
        first_token_(first_token),
        n_moments_((trace.n_tokens() - first_token) * trace.layers.size()),
        capacity_(capacity),
        kept_(trace.layers.size() * static_cast<size_t>(trace.model.n_experts)) {}

  OptimalHits run() {
    find_next_uses();
    OptimalHits found;
    found.hits.resize(n_moments_);
    for (uint64_t moment = 0; moment < n_moments_; ++moment) {
      for (const uint16_t expert : chosen(moment)) {
        Kept& kept = kept_[item(moment, expert)];
        if (kept.until != moment) continue;
        ++found.hits[moment];
        found.n_brought += kept.was_brought ? 1 : 0;
        kept_until_now(kept);
      }
      size_t i = 0;
      for (const uint16_t expert : chosen(moment)) {
        const bool was_hit = std::exchange(kept_[item(moment, expert)].was_hit, false);
        keep(item(moment, expert), next_use_[moment * n_used() + i++], !was_hit);
      }
    }
    return found;
  }

 private:
  struct Kept {
    uint64_t until = kNoUse;   // it is in the cache until this moment, its next use; kNoUse: it is not
    bool was_brought = false;  // it was not in the cache before
    bool was_hit = false;      // the use at this moment found it in the cache
  };

  size_t n_used() const { return static_cast<size_t>(trace_.n_used); }
  std::span<const uint16_t> chosen(uint64_t moment) const {
    return trace_.chosen(first_token_ + moment / trace_.layers.size(), moment % trace_.layers.size());
  }
  size_t item(uint64_t moment, uint16_t expert) const {
    return moment % trace_.layers.size() * static_cast<size_t>(trace_.model.n_experts) + expert;
  }

  /// Sets next_use_. Fills the cache with the experts whose first uses come earliest.
  void find_next_uses() {
    std::vector<uint64_t> next(kept_.size(), kNoUse);
    next_use_.resize(n_moments_ * n_used());
    for (uint64_t moment = n_moments_; moment-- > 0;) {
      size_t i = 0;
      for (const uint16_t expert : chosen(moment))
        next_use_[moment * n_used() + i++] = std::exchange(next[item(moment, expert)], moment);
    }
    for (size_t i = 0; i < next.size(); ++i) keep(i, next[i], false);
  }

  void kept_until_now(Kept& kept) {
    kept = {.until = kNoUse, .was_brought = false, .was_hit = true};
    --n_kept_;
  }

  /// Keeps an item in the cache for its use at `until`. If there are too many items then, drops the one whose
  /// next use is the latest.
  void keep(size_t item, uint64_t until, bool brought) {
    if (until == kNoUse) return;
    kept_[item].until = until;
    kept_[item].was_brought = brought;
    ends_.emplace(until, item);
    if (++n_kept_ <= capacity_) return;
    // Some entries are obsolete, because their item is no longer kept for that use. Remove these first.
    while (kept_[ends_.top().second].until != ends_.top().first) ends_.pop();
    kept_[ends_.top().second].until = kNoUse;
    ends_.pop();
    --n_kept_;
  }

  const ExpertTrace& trace_;
  const uint64_t first_token_, n_moments_, capacity_;
  std::vector<uint64_t> next_use_;  // [moments, n_used] moment of the expert's next use
  std::vector<Kept> kept_;          // [layers * n_experts]
  uint64_t n_kept_ = 0;
  std::priority_queue<std::pair<uint64_t, size_t>> ends_;  // next uses of kept items, the latest first
};

}  // namespace

bool has_exact_optimum(const ExpertTrace& trace) {
  const auto [least, most] = std::ranges::minmax(trace.layers, {}, &TracedLayer::expert_bytes);
  return least.expert_bytes == most.expert_bytes;
}

OptimalHits optimal_hits(const ExpertTrace& trace, uint64_t first_token, double budget_bytes) {
  const uint64_t least = std::ranges::min(trace.layers, {}, &TracedLayer::expert_bytes).expert_bytes;
  const auto bytes = static_cast<double>(std::max<uint64_t>(1, least));
  OptimalHits found = Sweep(trace, first_token, static_cast<uint64_t>(budget_bytes / bytes)).run();
  found.exact = has_exact_optimum(trace);
  return found;
}

}  // namespace hearth
