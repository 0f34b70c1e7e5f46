// See the header.
#include "engine/activity/activity_counter.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <span>
#include <utility>

namespace hearth {
namespace {

/// Returns |value| in units of kValueStep, capped; NaN gives the cap.
uint64_t steps_of(float value) {
  constexpr float kLargest = 32768.0f / static_cast<float>(ActivityCounts::kValueStep);
  const float steps = std::fabs(value) / static_cast<float>(ActivityCounts::kValueStep) + 0.5f;
  return static_cast<uint64_t>(steps < kLargest ? steps : kLargest);
}

}  // namespace

ActivityCounter::ActivityCounter(const Shape& shape, const CountOptions& options)
    : shape_(shape),
      options_(options),
      words_((static_cast<size_t>(shape.d_ff) + 63) / 64),
      bits_(static_cast<size_t>(shape.max_tokens) * words_),
      values_(static_cast<size_t>(shape.max_tokens) * static_cast<size_t>(shape.d_ff)),
      found_{bits_.data(), values_.data()},
      last_bits_(static_cast<size_t>(shape.n_slots) * static_cast<size_t>(shape.n_layers) * words_),
      last_position_(static_cast<size_t>(shape.n_slots), -1),
      counts_(shape.n_layers, shape.d_ff, shape.experts) {
  assert(options.one_of >= 1);
  tokens_.reserve(static_cast<size_t>(shape.max_tokens));
  if (!shape.experts) return;
  in_window_.resize(static_cast<size_t>(shape.n_slots));
  window_bits_.resize(kWindows * last_bits_.size());
}

ActivityCounter::StepScope::StepScope(ActivityCounter* counter, const Batch& batch) : counter_(nullptr) {
  if (counter == nullptr || counter->paused_ || !counter->may_count(batch)) return;
  const uint64_t period = 2 * static_cast<uint64_t>(counter->options_.one_of);
  if (counter->n_countable_++ % period >= 2) return;
  counter_ = counter;
  counter_->mutex_.lock();
  counter_->begin(batch);
}

ActivityCounter::StepScope::~StepScope() {
  if (counter_ == nullptr) return;
  counter_->counts_step_ = false;
  counter_->mutex_.unlock();
}

bool ActivityCounter::may_count(const Batch& batch) const {
  if (batch.n_tokens() > shape_.max_tokens) return false;
  if (!options_.decode_only) return true;
  // Reject steps with prompt tokens: they have tokens without logits, or several tokens of one sequence. (If
  // the last token of a prompt is the only token of its sequence in the step, it counts as a decoded token.)
  if (batch.logit_rows.size() != batch.tokens.size()) return false;
  for (size_t t = 1; t < batch.slots.size(); ++t) {
    if (batch.slots[t] == batch.slots[t - 1]) return false;
  }
  return true;
}

void ActivityCounter::begin(const Batch& batch) {
  counts_step_ = true;
  tokens_.clear();
  const int n_tokens = batch.n_tokens();
  for (int t = 0; t < n_tokens; ++t) {
    const auto at = static_cast<size_t>(t);
    const int slot = batch.slots[at], position = batch.positions[at];
    Token token{slot, kNone, true, {}};
    // A sequence's tokens are adjacent in a step, in ascending positions.
    if (t > 0 && batch.slots[at - 1] == slot) {
      token.before = t - 1;
      tokens_.back().last = false;
    } else if (last_position_[static_cast<size_t>(slot)] == position - 1 && position > 0) {
      token.before = kInSlot;
    }
    tokens_.push_back(token);
  }
  for (int t = 0; t < n_tokens; ++t) {
    const auto at = static_cast<size_t>(t);
    last_position_[static_cast<size_t>(batch.slots[at])] = batch.positions[at];
    counts_.n_pairs += tokens_[at].before == kNone ? 0 : 1;
    if (shape_.experts) count_windows(tokens_[at]);
  }
  counts_.n_tokens += static_cast<uint32_t>(n_tokens);
}

/// Adds a token to the unfinished windows (ExpertWindows) of its slot. Starts new windows if the token's
/// predecessor was not counted.
void ActivityCounter::count_windows(Token& token) {
  std::array<int, kWindows>& n = in_window_[static_cast<size_t>(token.slot)];
  for (size_t i = 0; i < kWindows; ++i) {
    if (token.before == kNone) n[i] = 0;
    token.ends_window[i] = ++n[i] == ActivityCounts::kWindowTokens[i];
    if (!token.ends_window[i]) continue;
    n[i] = 0;
    ++counts_.windows[i].n;
  }
}

uint64_t* ActivityCounter::window_bits(size_t window, int slot, int layer) {
  return window_bits_.data() + window * last_bits_.size() +
         static_cast<size_t>(slot * shape_.n_layers + layer) * words_;
}

void ActivityCounter::add_windows(int layer) {
  for (size_t t = 0; t < tokens_.size(); ++t) {
    const Token& token = tokens_[t];
    const uint64_t* bits = bits_.data() + t * words_;
    for (size_t i = 0; i < kWindows; ++i) {
      const std::span<uint64_t> window(window_bits(i, token.slot, layer), words_);
      if (token.before == kNone) std::ranges::fill(window, uint64_t{0});
      for (size_t w = 0; w < words_; ++w) window[w] |= bits[w];
      if (!token.ends_window[i]) continue;
      for (uint64_t& word : window) {
        counts_.windows[i].read[static_cast<size_t>(layer)] +=
            static_cast<uint64_t>(std::popcount(std::exchange(word, 0)));
      }
    }
  }
}

void ActivityCounter::add(int layer, const ExpertChoice& choice) {
  assert(counts_step_ && shape_.experts && choice.n_tokens == static_cast<int>(tokens_.size()));
  std::fill_n(bits_.data(), tokens_.size() * words_, uint64_t{0});
  const auto n_used = static_cast<size_t>(choice.n_used);
  for (size_t t = 0; t < tokens_.size(); ++t) {
    for (size_t i = t * n_used; i < (t + 1) * n_used; ++i) {
      const auto expert = static_cast<size_t>(choice.experts[i]);
      bits_[t * words_ + expert / 64] |= uint64_t{1} << (expert % 64);
      values_[t * static_cast<size_t>(shape_.d_ff) + expert] = choice.weights[i];
    }
  }
  add(layer);
  add_windows(layer);
}

uint64_t* ActivityCounter::last_bits(int slot, int layer) {
  return last_bits_.data() + static_cast<size_t>(slot * shape_.n_layers + layer) * words_;
}

void ActivityCounter::add(int layer) {
  assert(counts_step_);
  const size_t first = counts_.index(layer, 0);
  uint32_t* const active = counts_.active.data() + first;
  uint32_t* const again = counts_.again.data() + first;
  uint64_t* const sums = counts_.value_sums.data() + first;
  for (size_t t = 0; t < tokens_.size(); ++t) {
    const Token& token = tokens_[t];
    const uint64_t* bits = bits_.data() + t * words_;
    const float* values = values_.data() + t * static_cast<size_t>(shape_.d_ff);
    const uint64_t* before = nullptr;
    if (token.before == kInSlot) before = last_bits(token.slot, layer);
    if (token.before >= 0) before = bits_.data() + static_cast<size_t>(token.before) * words_;
    for (size_t w = 0; w < words_; ++w) {
      for (uint64_t left = bits[w]; left != 0; left &= left - 1) {
        const size_t j = w * 64 + static_cast<size_t>(std::countr_zero(left));
        ++active[j];
        sums[j] += steps_of(values[j]);
      }
      if (before == nullptr) continue;
      for (uint64_t left = bits[w] & before[w]; left != 0; left &= left - 1) {
        ++again[w * 64 + static_cast<size_t>(std::countr_zero(left))];
      }
    }
  }
  for (size_t t = 0; t < tokens_.size(); ++t) {
    if (!tokens_[t].last) continue;
    std::copy_n(bits_.data() + t * words_, words_, last_bits(tokens_[t].slot, layer));
  }
}

ActivityCounts ActivityCounter::take() {
  ActivityCounts fresh(shape_.n_layers, shape_.d_ff, shape_.experts);
  const std::lock_guard lock(mutex_);
  std::swap(fresh, counts_);
  return fresh;
}

}  // namespace hearth
