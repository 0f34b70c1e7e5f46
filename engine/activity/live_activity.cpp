// See the header.
#include "engine/activity/live_activity.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace hearth {
namespace {

/// Returns the share n / all as a level from 0 to kFullLevel, rounded up, so that only n = 0 gives level 0.
uint8_t level_of(uint64_t n, uint64_t all) {
  return static_cast<uint8_t>((n * LiveActivity::kFullLevel + all - 1) / all);
}

template <class Function>
void for_each_bit(std::span<const uint64_t> bits, const Function& call) {
  for (size_t w = 0; w < bits.size(); ++w) {
    for (uint64_t left = bits[w]; left != 0; left &= left - 1) {
      call(w * 64 + static_cast<size_t>(std::countr_zero(left)));
    }
  }
}

}  // namespace

LiveActivity::LiveActivity(const Shape& shape, std::chrono::milliseconds interval, Clock now)
    : shape_(shape),
      interval_(interval),
      now_(std::move(now)),
      n_buckets_(static_cast<size_t>(std::min(shape.n_units, kMaxBuckets))),
      words_((static_cast<size_t>(shape.n_units) + 63) / 64),
      bucket_sizes_(n_buckets_),
      bits_(shape.experts ? 0 : static_cast<size_t>(shape.max_tokens) * words_),
      values_(shape.experts ? 0 : static_cast<size_t>(shape.max_tokens) * static_cast<size_t>(shape.n_units)),
      found_{bits_.data(), values_.data()},
      counts_(n_buckets_) {
  for (size_t j = 0; j < static_cast<size_t>(shape.n_units); ++j) ++bucket_sizes_[bucket_of(j)];
  writing_.levels.resize(static_cast<size_t>(shape.n_layers) * n_buckets_);
  shown_.levels = writing_.levels;
}

// ---- any thread ------------------------------------------------------------------------------------------

LivePlacement LiveActivity::placement() const {
  const MutexLock lock(mutex_);
  return placement_;
}

bool LiveActivity::latest(LiveStep& to) const {
  const MutexLock lock(mutex_);
  if (shown_.number == to.number) return false;
  to = shown_;
  return true;
}

Levels LiveActivity::cached() const {
  const MutexLock lock(mutex_);
  if (!cached_neurons_) return {};
  Levels levels(static_cast<size_t>(shape_.n_layers) * n_buckets_);
  std::vector<uint64_t> bits(words_);
  for (int layer = 0; layer < shape_.n_layers; ++layer) {
    if (!cached_neurons_(layer, bits)) continue;
    raise(std::span(levels).subspan(static_cast<size_t>(layer) * n_buckets_, n_buckets_), bits);
  }
  return levels;
}

/// Sets the level of each bucket of a layer to the share of the bucket's units whose bit is set in `bits`.
void LiveActivity::raise(std::span<uint8_t> levels, std::span<const uint64_t> bits) const {
  std::vector<uint32_t> counts(n_buckets_);
  for_each_bit(bits, [&](size_t unit) { ++counts[bucket_of(unit)]; });
  for (size_t b = 0; b < n_buckets_; ++b) levels[b] = level_of(counts[b], bucket_sizes_[b]);
}

// ---- engine thread ---------------------------------------------------------------------------------------

void LiveActivity::attach(const Run& run) {
  LivePlacement placed{.number = placement_number() + 1,
                       .n_layers = shape_.n_layers,
                       .n_units = shape_.n_units,
                       .n_buckets = static_cast<int>(n_buckets_),
                       .experts = shape_.experts,
                       .why_nothing = run.why_nothing,
                       .hot = {},
                       .has_cache = static_cast<bool>(run.cached_neurons),
                       .memory = run.memory};
  if (!run.placements.empty()) placed.hot.resize(static_cast<size_t>(shape_.n_layers) * n_buckets_);
  std::vector<uint64_t> bits(words_);
  for (size_t layer = 0; layer < run.placements.size(); ++layer) {
    std::ranges::fill(bits, uint64_t{0});
    // Experts that can be exchanged are cached, not hot.
    if (shape_.experts && run.cached_neurons && run.cached_neurons(static_cast<int>(layer), bits)) continue;
    const LayerPlacement& of_layer = run.placements[layer];
    for (const int32_t unit : shape_.experts ? of_layer.experts : of_layer.hot) {
      bits[static_cast<size_t>(unit) / 64] |= uint64_t{1} << (unit % 64);
    }
    raise(std::span(placed.hot).subspan(layer * n_buckets_, n_buckets_), bits);
  }
  const MutexLock lock(mutex_);
  placement_ = std::move(placed);
  cached_neurons_ = run.cached_neurons;
  placement_number_.store(placement_.number, std::memory_order_relaxed);
}

void LiveActivity::detach() {
  const MutexLock lock(mutex_);
  cached_neurons_ = nullptr;
}

bool LiveActivity::may_sample(const Batch& batch) {
  // Sample only steps without prompt tokens. In a step with prompt tokens, some tokens have no logits.
  if (batch.n_tokens() > shape_.max_tokens || batch.logit_rows.size() != batch.tokens.size()) return false;
  const std::chrono::steady_clock::time_point now = now_();
  if (last_ && now - *last_ < interval_) return false;
  last_ = now;
  return true;
}

LiveActivity::StepScope::StepScope(LiveActivity* live, const Batch& batch) : live_(nullptr) {
  if (live == nullptr || live->n_watchers_.load(std::memory_order_relaxed) == 0 || !live->may_sample(batch))
    return;
  live_ = live;
  live_->samples_ = true;
  live_->n_active_ = live_->n_seen_ = 0;
  live_->writing_.n_tokens = batch.n_tokens();
  std::ranges::fill(live_->writing_.levels, uint8_t{0});
}

LiveActivity::StepScope::~StepScope() {
  if (live_ == nullptr) return;
  live_->samples_ = false;
  LiveStep& step = live_->writing_;
  step.active =
      live_->n_seen_ == 0 ? 0 : static_cast<double>(live_->n_active_) / static_cast<double>(live_->n_seen_);
  const MutexLock lock(live_->mutex_);
  step.number = live_->shown_.number + 1;
  std::swap(step, live_->shown_);
}

void LiveActivity::add(int layer, const ActiveNeurons& found) {
  assert(samples_ && !shape_.experts);
  for (int t = 0; t < writing_.n_tokens; ++t) {
    for_each_bit(std::span(found.bits + static_cast<size_t>(t) * words_, words_),
                 [&](size_t unit) { ++counts_[bucket_of(unit)]; });
  }
  finish_layer(layer, writing_.n_tokens);
}

void LiveActivity::add(int layer, const ExpertChoice& choice) {
  assert(samples_ && shape_.experts);
  const auto n = static_cast<size_t>(choice.n_tokens) * static_cast<size_t>(choice.n_used);
  for (const int32_t expert : std::span(choice.experts, n)) ++counts_[bucket_of(static_cast<size_t>(expert))];
  finish_layer(layer, choice.n_tokens);
}

/// Converts counts_ to the layer's levels and clears counts_.
void LiveActivity::finish_layer(int layer, int64_t n_tokens) {
  uint8_t* const levels = writing_.levels.data() + static_cast<size_t>(layer) * n_buckets_;
  for (size_t b = 0; b < n_buckets_; ++b) {
    n_active_ += counts_[b];
    levels[b] = level_of(counts_[b], bucket_sizes_[b] * static_cast<uint64_t>(n_tokens));
    counts_[b] = 0;
  }
  n_seen_ += n_tokens * shape_.n_units;
}

}  // namespace hearth
