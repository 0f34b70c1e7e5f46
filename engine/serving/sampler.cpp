// Sampling: bias, penalties, temperature, filters, draw. Engine thread.
#include "engine/serving/sampler.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "engine/serving/logprobs.h"
#include "engine/serving/softmax_weights.h"

namespace hearth {
namespace {

// OpenAI: a bias of -100 "should result in a ban"; adding -100 to a logit alone would only make it very
// unlikely.
constexpr float kBan = -100.0f;

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

bool has_penalties(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f ||
         params.frequency_penalty != 0.0f;
}

// Returns the first index at which the running sum of the weights exceeds u times the total. If rounding leaves
// no such index, returns the last one whose weight is not 0.
size_t draw(std::span<const float> weights, double total, double u) {
  const double target = u * total;
  double sum = 0;
  size_t last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    sum += static_cast<double>(weights[i]);
    last = i;
    if (sum > target) break;
  }
  return last;
}

}  // namespace

double uniform_at(uint64_t seed, uint64_t index) {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;  // SplitMix64's increment
  // The seed is mixed before the index comes in: neighbouring seeds must not give shifted copies of one
  // stream.
  const uint64_t stream = mix(seed + kGolden);
  const uint64_t bits = mix(mix(stream ^ (index * kGolden)) + kGolden);
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

Sampler::Sampler(int n_vocab) {
  const size_t n = static_cast<size_t>(n_vocab);
  adjusted_.resize(n);
  counts_.resize(n);
  weights_.resize(n);
  ids_.reserve(n);
}

SampleResult Sampler::sample(std::span<const float> logits, const SamplingParams& params,
                             std::span<const int32_t> tokens, int n_prompt) {
  assert(logits.size() == adjusted_.size());
  float max = checked_max(logits);
  if (std::isnan(max)) {
    return {.token = -1,
            .error =
                "the model's logits hold a NaN or an infinity, so no token can be chosen; "
                "the model file may be damaged or its numbers out of range"};
  }
  const size_t n_prompt_tokens = static_cast<size_t>(n_prompt);
  if (!params.logit_bias.empty() || has_penalties(params)) {
    std::ranges::copy(logits, adjusted_.begin());
    apply_bias(params);
    apply_penalties(params, tokens, n_prompt_tokens);
    logits = adjusted_;
    max = checked_max(logits);
  }
  if (std::isnan(max)) {
    return {.token = -1, .error = "logit_bias and penalties leave no token that could be chosen"};
  }
  if (params.temperature == 0.0f) {
    return {.token = static_cast<int32_t>(std::ranges::find(logits, max) - logits.begin()), .error = {}};
  }
  const double u = uniform_at(params.seed, tokens.size() - n_prompt_tokens);
  const bool filtered = params.top_k > 0 || params.top_p < 1.0f;
  const int32_t token =
      filtered ? draw_from_top(logits, max, params, u) : draw_from_all(logits, max, params, u);
  return {.token = token, .error = {}};
}

void Sampler::apply_bias(const SamplingParams& params) {
  for (const auto& [token, bias] : params.logit_bias) {
    float& logit = adjusted_[static_cast<size_t>(token)];
    logit = bias <= kBan ? -std::numeric_limits<float>::infinity() : logit + bias;
  }
}

void Sampler::apply_penalties(const SamplingParams& params, std::span<const int32_t> tokens,
                              size_t n_prompt) {
  if (!has_penalties(params)) return;
  // counts_[token]: how often the token was generated, plus one. The last loop zeroes it, so that it handles
  // each token once.
  for (const int32_t token : tokens.first(n_prompt)) counts_[static_cast<size_t>(token)] = 1;
  for (const int32_t token : tokens.subspan(n_prompt)) counts_[static_cast<size_t>(token)] = 1;
  for (const int32_t token : tokens.subspan(n_prompt)) ++counts_[static_cast<size_t>(token)];
  for (const int32_t token : tokens) {
    const int n_generated = counts_[static_cast<size_t>(token)] - 1;
    if (n_generated < 0) continue;  // done already
    counts_[static_cast<size_t>(token)] = 0;
    float& logit = adjusted_[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    if (n_generated > 0) logit -= params.presence_penalty;
    logit -= params.frequency_penalty * static_cast<float>(n_generated);
  }
}

// No filter except min_p: every token is a candidate, in order of id, so nothing has to be sorted.
int32_t Sampler::draw_from_all(std::span<const float> logits, float max, const SamplingParams& params,
                               double u) {
  weights_.resize(logits.size());  // within its capacity
  double total = softmax_weights(logits, max, params.temperature, weights_);
  if (params.min_p > 0.0f) {
    for (float& weight : weights_)
      weight = weight < params.min_p ? 0.0f : weight;  // the most likely token's is 1
    total = sum_of(weights_);
  }
  return static_cast<int32_t>(draw(weights_, total, u));
}

int32_t Sampler::draw_from_top(std::span<const float> logits, float max, const SamplingParams& params,
                               double u) {
  const int n_vocab = static_cast<int>(logits.size());
  if (params.top_k > 0 && params.top_k < n_vocab) {
    select_top(logits, params.top_k, ids_);
  } else if (params.top_p < 1.0f) {
    select_mass(logits, max, params);
  } else {
    return draw_from_all(logits, max, params, u);
  }
  weights_.resize(ids_.size());
  for (size_t i = 0; i < ids_.size(); ++i) {
    weights_[i] = exp_nonpositive((logits[static_cast<size_t>(ids_[i])] - max) / params.temperature);
  }
  const double total = sum_of(weights_);
  // After top_k, top_p is a share of what top_k has left. Without top_k, select_mass() has applied it.
  const bool cut_by_mass = params.top_k > 0 && params.top_k < n_vocab && params.top_p < 1.0f;
  const double wanted = cut_by_mass ? static_cast<double>(params.top_p) * total : total;
  size_t n_kept = 0;
  for (double mass = 0; n_kept < ids_.size() && (n_kept == 0 || mass < wanted); ++n_kept) {
    mass += static_cast<double>(weights_[n_kept]);
  }
  // min_p: the first weight is 1, and they descend.
  while (n_kept > 1 && weights_[n_kept - 1] < params.min_p) --n_kept;
  const std::span<const float> kept = std::span(weights_).first(n_kept);
  return ids_[draw(kept, sum_of(kept), u)];
}

// Leaves in ids_ the smallest set of most likely tokens that holds top_p of the whole distribution's mass.
void Sampler::select_mass(std::span<const float> logits, float max, const SamplingParams& params) {
  weights_.resize(logits.size());
  const double total = softmax_weights(logits, max, params.temperature, weights_);
  const double wanted = static_cast<double>(params.top_p) * total;
  // Tokens lighter than an even share of the mass to be cut off hold less than that mass together, so none of
  // them is needed. The others go into a heap and are popped until they hold the wanted mass. So the whole
  // vocabulary is never sorted.
  const double cutoff = (total - wanted) / static_cast<double>(logits.size());
  ids_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (static_cast<double>(weights_[i]) >= cutoff) ids_.push_back(static_cast<int32_t>(i));
  }
  const auto less_likely = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x < y : a > b;
  };
  std::make_heap(ids_.begin(), ids_.end(), less_likely);
  auto rest = ids_.end();  // popped tokens gather behind it, the most likely last
  double mass = 0;
  while (rest != ids_.begin() && (rest == ids_.end() || mass < wanted)) {
    std::pop_heap(ids_.begin(), rest, less_likely);
    --rest;
    mass += static_cast<double>(weights_[static_cast<size_t>(*rest)]);
  }
  ids_.erase(ids_.begin(), rest);
  std::ranges::reverse(ids_);
}

}  // namespace hearth
