// See the header.
#include "profiler/replay/prefetch_policy.h"

#include <algorithm>
#include <utility>

namespace hearth {
namespace {

constexpr int32_t kBuffer = -1;  // in place of a row of the cache
// Wrong predictions are experts that the current token did not choose, but one of this many tokens before it.
constexpr uint64_t kRecent = 64;
// If this many draws find no wrong expert, because all these tokens chose the same experts, a right expert is
// predicted instead.
constexpr int kDraws = 16;

}  // namespace

int best_prefetch(const DecodeCosts& costs, Held held, size_t layer, double expert_bytes, double accuracy) {
  const DecodeCosts::Layer& of_layer = costs.layer(layer, held);
  const double copy_s = expert_bytes / costs.link_bytes_per_s, idle_s = costs.attention_seconds(layer, held);
  const auto n_used = static_cast<int>(of_layer.size()) - 1;
  int best = 0;
  double most_saved = 0;
  for (int n = 1; n <= n_used; ++n) {
    // The copies that do not fit in the time in which the CPU is idle slow the CPU down.
    const double lost = std::max(0.0, n * copy_s - idle_s) * (1 - costs.cpu_share);
    const double saved = accuracy * (of_layer[0].host - of_layer[static_cast<size_t>(n)].host) - lost;
    if (saved <= most_saved) continue;
    most_saved = saved;
    best = n;
  }
  return best;
}

PrefetchPolicy::PrefetchPolicy(std::unique_ptr<CachePolicy> exchanges, const ExpertTrace& trace,
                               const DecodeCosts& costs, Held held, double accuracy)
    : exchanges_(std::move(exchanges)), trace_(trace), accuracy_(accuracy) {
  for (size_t layer = 0; layer < trace.layers.size(); ++layer) {
    const auto bytes = static_cast<double>(trace.layers[layer].expert_bytes);
    most_.push_back(best_prefetch(costs, held, layer, bytes, accuracy));
  }
}

void PrefetchPolicy::predict(uint64_t token, size_t layer) {
  const std::span<const uint16_t> chosen = trace_.chosen(token, layer);
  const uint64_t n_recent = std::min(token, kRecent);
  predicted_layer_ = layer;
  predicted_.clear();
  for (uint16_t expert : chosen) {
    const bool wrong = std::generate_canonical<double, 32>(random_) >= accuracy_;
    for (int i = 0; wrong && i < kDraws; ++i) {
      expert = trace_.chosen(token - random_() % (n_recent + 1), layer)[random_() % chosen.size()];
      if (std::ranges::find(chosen, expert) == chosen.end()) break;
    }
    predicted_.push_back(expert);
  }
}

void PrefetchPolicy::begin_prefetch(int n_in_time) {
  n_allowed_ = std::min(n_in_time, static_cast<int>(queue_.size()));
}

std::optional<CachePolicy::Copy> PrefetchPolicy::next_copy() {
  if (std::optional<Copy> exchange = exchanges_->next_copy()) return exchange;
  if (n_allowed_ <= 0) return std::nullopt;
  const uint16_t expert = queue_.front();
  queue_.pop_front();
  --n_allowed_;
  return Copy{layer_, expert, kBuffer, trace_.layers[layer_].expert_bytes};
}

void PrefetchPolicy::arrived(const Copy& copy) {
  if (copy.row != kBuffer) return exchanges_->arrived(copy);
  if (copy.layer == layer_) there_.push_back(static_cast<uint16_t>(copy.expert));
}

int PrefetchPolicy::take_prefetched(size_t layer, std::span<const uint16_t> experts) {
  const auto is_missing = [this](size_t of, uint16_t expert) {
    return exchanges_->n_resident(of, std::span(&expert, 1)) == 0;
  };
  const auto n_taken = std::ranges::count_if(experts, [&](uint16_t expert) {
    return std::ranges::find(there_, expert) != there_.end() && is_missing(layer, expert);
  });
  // Begin with the predicted layer.
  layer_ = predicted_layer_;
  there_.clear();
  queue_.clear();
  n_allowed_ = 0;
  for (const uint16_t expert : std::exchange(predicted_, {})) {
    if (static_cast<int>(queue_.size()) < most_[layer_] && is_missing(layer_, expert))
      queue_.push_back(expert);
  }
  return static_cast<int>(n_taken);
}

}  // namespace hearth
