// Sampling: bias, penalties, temperature, filters, draw. Engine thread.
#include "engine/sampler.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "engine/exp_nonpositive.h"
#include "engine/logprobs.h"

namespace hearth {
namespace {

// OpenAI: a bias of -100 "should result in a ban"; adding -100 to a logit alone would only make it very
// unlikely.
constexpr float kBan = -100.0f;

// Candidates top_p looks at first; nearly all of the mass of nearly all distributions is in so few tokens. If
// it is not, the number grows by kGrowth until it is.
constexpr int kFirstCandidates = 128;
constexpr int kGrowth = 16;

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

bool has_penalties(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f ||
         params.frequency_penalty != 0.0f;
}

// The first index at which the running sum of the weights exceeds u times the total; the last one with any
// weight if rounding lets none.
size_t draw(std::span<const double> weights, double total, double u) {
  const double target = u * total;
  double sum = 0;
  size_t last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    sum += weights[i];
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
  // One entry per token: how often it was generated, plus one. Zeroed again on the way, so each counts once.
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

// min_p at most: every token is a candidate, in order of id, and nothing has to be sorted.
int32_t Sampler::draw_from_all(std::span<const float> logits, float max, const SamplingParams& params,
                               double u) {
  weights_.resize(logits.size());  // within its capacity
  const double temperature = params.temperature;
  for (size_t i = 0; i < logits.size(); ++i) {
    weights_[i] = exp_nonpositive((static_cast<double>(logits[i]) - max) / temperature);
  }
  double total = 0;
  for (double& weight : weights_) {
    if (weight < static_cast<double>(params.min_p)) weight = 0;  // the most likely token's weight is 1
    total += weight;
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
  double total = 0;
  for (size_t i = 0; i < ids_.size(); ++i) {
    const double logit = logits[static_cast<size_t>(ids_[i])];
    weights_[i] = exp_nonpositive((logit - max) / static_cast<double>(params.temperature));
    total += weights_[i];
  }
  // After top_k, top_p is a share of what top_k has left; select_mass() has applied it to the whole already.
  const bool cut_by_mass = params.top_k > 0 && params.top_k < n_vocab && params.top_p < 1.0f;
  const double wanted = cut_by_mass ? static_cast<double>(params.top_p) * total : total;
  size_t n_kept = 0;
  for (double mass = 0; n_kept < ids_.size() && (n_kept == 0 || mass < wanted); ++n_kept)
    mass += weights_[n_kept];
  // min_p: the first weight is 1, and they descend.
  while (n_kept > 1 && weights_[n_kept - 1] < static_cast<double>(params.min_p)) --n_kept;
  const std::span<const double> kept = std::span(weights_).first(n_kept);
  total = 0;
  for (const double weight : kept) total += weight;
  return ids_[draw(kept, total, u)];
}

// Leaves in ids_ the smallest set of most likely tokens that holds top_p of the whole distribution's mass.
void Sampler::select_mass(std::span<const float> logits, float max, const SamplingParams& params) {
  const double temperature = params.temperature;
  const auto weight = [&](float logit) {
    return exp_nonpositive((static_cast<double>(logit) - max) / temperature);
  };
  weights_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) weights_[i] = weight(logits[i]);
  double total = 0;
  for (const double w : weights_) total += w;
  const double wanted = static_cast<double>(params.top_p) * total;
  const int n_vocab = static_cast<int>(logits.size());
  for (int k = std::min(kFirstCandidates, n_vocab);; k = k > n_vocab / kGrowth ? n_vocab : k * kGrowth) {
    select_top(logits, k, ids_);
    double mass = 0;
    for (size_t i = 0; i < ids_.size(); ++i) {
      mass += weights_[static_cast<size_t>(ids_[i])];
      if (mass < wanted) continue;
      ids_.resize(i + 1);
      return;
    }
    if (k == n_vocab) return;  // rounding: the parts, summed in another order, fall short of the whole
  }
}

}  // namespace hearth
