// Log-softmax of a row of logits, and partial selection. Engine thread.
#include "engine/sampling/logprobs.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/sampling/softmax_weights.h"

namespace hearth {
namespace {

// Number of independent partial results, which the compiler can keep in vector registers: two AVX-512, four
// AVX2 or eight SSE registers.
constexpr size_t kLanes = 16;

// Up to this k, inserting into a sorted short list is faster than partitioning an index of the whole
// vocabulary.
constexpr int kShortList = 128;

}  // namespace

float checked_max(std::span<const float> logits) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  std::array<float, kLanes> best;
  std::array<int32_t, kLanes> nan;
  best.fill(kLowest);
  nan.fill(0);
  const size_t n_whole = logits.size() / kLanes * kLanes;
  const float* const x = logits.data();
  for (size_t i = 0; i < n_whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float value = x[i + lane];
      best[lane] = value > best[lane] ? value : best[lane];
      nan[lane] |= value != value ? 1 : 0;
    }
  }
  for (size_t i = n_whole; i < logits.size(); ++i) {
    best[0] = std::max(best[0], x[i]);
    nan[0] |= x[i] != x[i] ? 1 : 0;
  }
  const float max = *std::ranges::max_element(best);
  const bool any_nan = std::ranges::any_of(nan, [](int32_t flag) { return flag != 0; });
  return any_nan || !std::isfinite(max) ? std::numeric_limits<float>::quiet_NaN() : max;
}

double log_sum_exp(std::span<const float> logits) {
  const float max = checked_max(logits);
  if (std::isnan(max)) return std::numeric_limits<double>::quiet_NaN();
  // Process the row in pieces, so that the weights stay in the L1 cache.
  std::array<float, 512> weights;
  double sum = 0;
  for (size_t i = 0; i < logits.size(); i += weights.size()) {
    const std::span<const float> piece = logits.subspan(i, std::min(weights.size(), logits.size() - i));
    sum += softmax_weights(piece, max, 1.0f, std::span(weights).first(piece.size()));
  }
  return max + std::log(sum);
}

void select_top(std::span<const float> logits, int k, std::vector<int32_t>& ids) {
  assert(k >= 0 && static_cast<size_t>(k) <= logits.size());
  const auto likelier = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  ids.clear();
  if (k == 0) return;
  if (k > kShortList) {
    ids.resize(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    std::nth_element(ids.begin(), ids.begin() + (k - 1), ids.end(), likelier);
    ids.resize(static_cast<size_t>(k));
    std::sort(ids.begin(), ids.end(), likelier);
    return;
  }
  // A heap of the chosen tokens with the least likely one on top. Ids ascend, so a token never replaces one
  // with an equal logit.
  for (int32_t id = 0; id < k; ++id) ids.push_back(id);
  std::make_heap(ids.begin(), ids.end(), likelier);
  float least = logits[static_cast<size_t>(ids.front())];
  for (size_t id = static_cast<size_t>(k); id < logits.size(); ++id) {
    if (logits[id] <= least) continue;
    std::pop_heap(ids.begin(), ids.end(), likelier);
    ids.back() = static_cast<int32_t>(id);
    std::push_heap(ids.begin(), ids.end(), likelier);
    least = logits[static_cast<size_t>(ids.front())];
  }
  std::sort_heap(ids.begin(), ids.end(), likelier);
}

bool add_logprobs(std::span<const float> logits, int n_top, TokenEvent& event,
                  std::vector<int32_t>& scratch) {
  const double total = log_sum_exp(logits);
  if (std::isnan(total)) return false;
  const auto logprob = [&](int32_t id) {
    return static_cast<float>(logits[static_cast<size_t>(id)] - total);
  };
  event.logprob = logprob(event.token);
  if (n_top <= 0) return true;
  select_top(logits, std::min(n_top, static_cast<int>(logits.size())), scratch);
  event.top.reserve(scratch.size());
  for (const int32_t id : scratch) event.top.push_back({.token = id, .logprob = logprob(id)});
  return true;
}

}  // namespace hearth
