// Implements ExpertRouter.
#include "kernels/cpu/experts/expert_router.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace hearth {
namespace {

// Logits per piece. A router with 128 experts takes about a microsecond per token, so a piece takes longer
// than it takes to hand the piece to a thread.
constexpr int64_t kPieceLogits = 1024;
constexpr float kWorst = -std::numeric_limits<float>::infinity();

/// Keeps the `capacity` ids with the highest scores, best first. Among equal scores, the id offered first
/// wins. REQUIRES: capacity >= 1, and no score is NaN.
class Best {
 public:
  Best(float* scores, int32_t* ids, int capacity) : scores_(scores), ids_(ids), capacity_(capacity) {}

  void offer(float score, int32_t id) {
    if (n_ == capacity_ && score <= scores_[n_ - 1]) return;
    int index = n_ < capacity_ ? n_++ : n_ - 1;
    for (; index > 0 && score > scores_[index - 1]; --index) {
      scores_[index] = scores_[index - 1];
      ids_[index] = ids_[index - 1];
    }
    scores_[index] = score;
    ids_[index] = id;
  }

 private:
  float* scores_;
  int32_t* ids_;
  int capacity_;
  int n_ = 0;
};

/// Computes a group's score from the preferences of its n experts.
float group_score(const float* preferences, int64_t n, bool by_best) {
  float best = kWorst, second = kWorst;
  for (int64_t i = 0; i < n; ++i) {
    second = std::max(second, std::min(best, preferences[i]));
    best = std::max(best, preferences[i]);
  }
  if (by_best || n == 1) return best;
  // The sum of opposite infinities would be NaN.
  return second == kWorst ? kWorst : best + second;
}

}  // namespace

void ExpertRouter::reserve(int max_tokens, int n_experts, int n_used) {
  const size_t n = static_cast<size_t>(n_experts);
  const size_t n_chosen = static_cast<size_t>(max_tokens) * static_cast<size_t>(n_used);
  scratch_.resize(static_cast<size_t>(pool_.n_threads()));
  for (Scratch& scratch : scratch_) {
    scratch.scores.resize(n);
    scratch.preferences.resize(n);
    scratch.best_scores.resize(n);
    scratch.groups.resize(n);
    scratch.group_used.resize(n);
  }
  experts_.resize(n_chosen);
  weights_.resize(n_chosen);
}

ExpertChoice ExpertRouter::route(const float* logits, int n_tokens, const Router& router) {
  const int n_used = router.n_used;
  assert(1 <= n_used && n_used <= router.n_experts);
  assert(router.n_experts % router.n_groups == 0);
  assert(1 <= router.n_groups_used && router.n_groups_used <= router.n_groups);
  assert(router.n_experts / router.n_groups * router.n_groups_used >= n_used);
  assert(static_cast<size_t>(n_tokens) * static_cast<size_t>(n_used) <= experts_.size());
  const int64_t grain = std::max<int64_t>(1, kPieceLogits / router.n_experts);
  pool_.for_each_piece(n_tokens, grain, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t t = begin; t < end; ++t) {
      route_token(logits + t * router.n_experts, router, scratch_[static_cast<size_t>(thread)],
                  experts_.data() + t * n_used, weights_.data() + t * n_used);
    }
  });
  return {n_tokens, n_used, experts_.data(), weights_.data()};
}

void ExpertRouter::route_token(const float* logits, const Router& router, Scratch& scratch, int32_t* experts,
                               float* weights) {
  const int n_experts = router.n_experts;
  float* scores = scratch.scores.data();
  if (router.score == RouterScore::kSoftmax) vector_.softmax(logits, n_experts, scores);
  if (router.score == RouterScore::kSigmoid) vector_.sigmoid(logits, n_experts, scores);
  if (router.score == RouterScore::kSoftmaxOfChosen) std::copy_n(logits, n_experts, scores);

  bool any_nan = false;
  float* preferences = scratch.preferences.data();
  for (int e = 0; e < n_experts; ++e) {
    const float preference = router.choice_bias == nullptr ? scores[e] : scores[e] + router.choice_bias[e];
    any_nan |= std::isnan(preference);
    preferences[e] = std::isnan(preference) ? kWorst : preference;
  }

  choose_groups(router, scratch);
  Best best(scratch.best_scores.data(), experts, router.n_used);
  const int group_size = n_experts / router.n_groups;
  for (int group = 0, e = 0; group < router.n_groups; ++group) {
    const bool used = scratch.group_used[static_cast<size_t>(group)] != 0;
    for (const int end = e + group_size; e < end; ++e) {
      if (used) best.offer(preferences[e], e);
    }
  }
  weigh(router, scores, experts, weights);
  if (any_nan) std::fill_n(weights, router.n_used, std::numeric_limits<float>::quiet_NaN());
}

/// Fills group_used.
void ExpertRouter::choose_groups(const Router& router, Scratch& scratch) {
  const bool all = router.n_groups_used == router.n_groups;
  std::fill_n(scratch.group_used.begin(), router.n_groups, all ? uint8_t{1} : uint8_t{0});
  if (all) return;
  const int64_t group_size = router.n_experts / router.n_groups;
  Best best(scratch.best_scores.data(), scratch.groups.data(), router.n_groups_used);
  for (int32_t group = 0; group < router.n_groups; ++group) {
    best.offer(group_score(scratch.preferences.data() + group * group_size, group_size, router.group_by_best),
               group);
  }
  for (int i = 0; i < router.n_groups_used; ++i) {
    scratch.group_used[static_cast<size_t>(scratch.groups[static_cast<size_t>(i)])] = 1;
  }
}

/// Fills the weights of the chosen experts.
void ExpertRouter::weigh(const Router& router, const float* scores, const int32_t* experts, float* weights) {
  const int n = router.n_used;
  for (int j = 0; j < n; ++j) weights[j] = scores[experts[j]];
  if (router.score == RouterScore::kSoftmaxOfChosen) vector_.softmax(weights, n, weights);
  if (router.renormalize) {
    float sum = 0.0f;
    for (int j = 0; j < n; ++j) sum += weights[j];
    if (sum != 0.0f) {
      for (int j = 0; j < n; ++j) weights[j] /= sum;
    }
  }
  for (int j = 0; j < n; ++j) weights[j] *= router.scale;
  if (router.weight_scales == nullptr) return;
  for (int j = 0; j < n; ++j) weights[j] *= router.weight_scales[experts[j]];
}

}  // namespace hearth
