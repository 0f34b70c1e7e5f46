// Sampling, in the order given in sampling_params.h. Engine thread.
#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/sampling/logit_adjustments.h"
#include "engine/sampling/logprobs.h"
#include "engine/sampling/softmax_weights.h"

namespace hearth {
namespace {

// Lower bound of the dynamic temperature. It keeps the division by the temperature finite, and the softmax is
// already one-hot at this temperature.
constexpr float kLeastTemperature = 1e-4f;

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Returns the first index at which the running sum of the weights exceeds u times the total. If there is no
// such index because of rounding, returns the last index with a weight above 0.
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
  // The seed is hashed before the index is added. Otherwise neighboring seeds would give shifted copies of
  // one stream.
  const uint64_t stream = mix(seed + kGolden);
  const uint64_t bits = mix(mix(stream ^ (index * kGolden)) + kGolden);
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

Sampler::Sampler(int n_vocab) {
  const size_t n = static_cast<size_t>(n_vocab);
  adjusted_.resize(n);
  counts_.resize(n);
  weights_.resize(n);
  candidates_.ids.reserve(n);
}

SampleResult Sampler::sample(const SampleInput& input) {
  assert(input.logits.size() == adjusted_.size());
  // 1. Adjust the row.
  if (std::isnan(checked_max(input.logits))) {
    return {.error =
                "the model's logits hold a NaN or an infinity, so no token can be chosen; "
                "the model file may be damaged or its numbers out of range"};
  }
  const std::span<const float> logits = adjust(input);
  const float max = checked_max(logits);
  if (std::isnan(max))
    return {.error = "logit_bias, penalties and constraints leave no token that could be chosen",
            .is_unsatisfiable = true};

  // 2. Take the most likely token, or draw one.
  const SamplingParams& params = input.params;
  if (params.temperature == 0.0f)
    return {.token = static_cast<int32_t>(std::ranges::find(logits, max) - logits.begin())};
  const float temperature =
      params.dynatemp_range > 0 ? dynamic_temperature(logits, max, params) : params.temperature;
  const size_t index = input.tokens.size() - static_cast<size_t>(input.n_prompt);
  const double u = uniform_at(params.seed, index);
  if (params.mirostat) return {.token = draw_mirostat({logits, max, temperature}, params, u, input.state)};
  const bool filtered =
      params.top_k > 0 || params.typical_p < 1 || params.top_p < 1 || params.xtc_probability > 0;
  if (!filtered) return {.token = draw_from_all({logits, max, temperature}, params.min_p, u)};
  // The random decision of XTC uses a separate stream of random numbers.
  const bool exclude = uniform_at(~params.seed, index) < static_cast<double>(params.xtc_probability);
  return {.token = draw_from_candidates({logits, max, temperature}, params, exclude, u)};
}

// Applies bias, mask and penalties to a copy of the row. Returns the input row itself if nothing changes it.
std::span<const float> Sampler::adjust(const SampleInput& input) {
  if (!has_adjustments(input.params) && input.allowed == nullptr && input.banned.empty()) return input.logits;
  std::ranges::copy(input.logits, adjusted_.begin());
  add_bias(input.params, adjusted_);
  if (input.allowed != nullptr) forbid_others(*input.allowed, adjusted_);
  for (const int32_t token : input.banned)
    adjusted_[static_cast<size_t>(token)] = -std::numeric_limits<float>::infinity();
  subtract_penalties(input.params, input.tokens, static_cast<size_t>(input.n_prompt), counts_, adjusted_);
  subtract_dry(input.params.dry, input.tokens, adjusted_);
  return adjusted_;
}

// Sets the temperature by the model's uncertainty, which is the entropy of its distribution over the tokens
// that may be drawn.
float Sampler::dynamic_temperature(std::span<const float> logits, float max, const SamplingParams& params) {
  weights_.resize(logits.size());
  const double total = softmax_weights(logits, max, 1.0f, weights_);
  double weighted = 0;
  size_t n = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    n += std::isinf(logits[i]) ? 0 : 1;
    if (weights_[i] > 0) weighted += static_cast<double>(weights_[i]) * static_cast<double>(logits[i] - max);
  }
  const double entropy = std::log(total) - weighted / total;
  const double share = n > 1 ? std::clamp(entropy / std::log(static_cast<double>(n)), 0.0, 1.0) : 0.0;
  const double low = std::max(0.0f, params.temperature - params.dynatemp_range);
  const double high = params.temperature + params.dynatemp_range;
  const double at = low + (high - low) * std::pow(share, static_cast<double>(params.dynatemp_exponent));
  return std::max(static_cast<float>(at), kLeastTemperature);
}

// Draws a token if no filter except min_p is active: all tokens stay candidates in order of id, so nothing is
// sorted.
int32_t Sampler::draw_from_all(const Scores& scores, float min_p, double u) {
  weights_.resize(scores.logits.size());  // within its capacity
  double total = softmax_weights(scores.logits, scores.max, scores.temperature, weights_);
  if (min_p > 0.0f) {
    for (float& weight : weights_) weight = weight < min_p ? 0.0f : weight;  // the greatest weight is 1
    total = sum_of(weights_);
  }
  return static_cast<int32_t>(draw(weights_, total, u));
}

int32_t Sampler::draw_from_candidates(const Scores& scores, const SamplingParams& params, bool exclude,
                                      double u) {
  // 1. Gather candidates: by top_k if top_k is active; by top_p if top_p is active and typical_p is not,
  //    because typical_p is applied before top_p; otherwise all tokens.
  const bool by_number = params.top_k > 0 && params.top_k < static_cast<int>(scores.logits.size());
  const bool by_mass = !by_number && params.typical_p >= 1 && params.top_p < 1;
  if (by_number) {
    select_top(scores.logits, params.top_k, candidates_.ids);
  } else if (by_mass) {
    select_mass(scores, params.top_p);
  } else {
    candidates_.ids.resize(scores.logits.size());
    std::iota(candidates_.ids.begin(), candidates_.ids.end(), 0);
  }
  weigh_candidates(scores);

  // 2. Apply the remaining filters.
  if (params.typical_p < 1) {
    keep_typical(candidates_, static_cast<double>(params.typical_p));
    sort_candidates(candidates_);
  }
  if (params.top_p < 1 && !by_mass) keep_top_mass(candidates_, static_cast<double>(params.top_p));
  if (params.min_p > 0) drop_unlikely(candidates_, params.min_p);
  if (exclude) exclude_top_choices(candidates_, static_cast<double>(params.xtc_threshold));
  return candidates_.ids[draw(candidates_.weights, candidates_.total(), u)];
}

int32_t Sampler::draw_mirostat(const Scores& scores, const SamplingParams& params, double u,
                               SamplerState& state) {
  candidates_.ids.resize(scores.logits.size());
  std::iota(candidates_.ids.begin(), candidates_.ids.end(), 0);
  std::erase_if(candidates_.ids, [&](int32_t id) {
    return scores.logits[static_cast<size_t>(id)] == -std::numeric_limits<float>::infinity();
  });
  weigh_candidates(scores);
  sort_candidates(candidates_);
  if (!state.mirostat_bits)
    state.mirostat_bits = 2 * static_cast<double>(params.mirostat_tau);  // the initial value in the paper
  drop_surprising(candidates_, *state.mirostat_bits);
  const double total = candidates_.total();
  const size_t drawn = draw(candidates_.weights, total, u);
  const double surprise = -std::log2(static_cast<double>(candidates_.weights[drawn]) / total);
  *state.mirostat_bits -=
      static_cast<double>(params.mirostat_eta) * (surprise - static_cast<double>(params.mirostat_tau));
  return candidates_.ids[drawn];
}

void Sampler::weigh_candidates(const Scores& scores) {
  candidates_.weights.resize(candidates_.ids.size());
  for (size_t i = 0; i < candidates_.ids.size(); ++i) {
    const float logit = scores.logits[static_cast<size_t>(candidates_.ids[i])];
    candidates_.weights[i] = exp_nonpositive((logit - scores.max) / scores.temperature);
  }
}

// Gathers the most likely tokens, most likely first, until they hold `share` of the total mass.
void Sampler::select_mass(const Scores& scores, float share) {
  const std::span<const float> logits = scores.logits;
  std::vector<int32_t>& ids = candidates_.ids;
  weights_.resize(logits.size());
  const double total = softmax_weights(logits, scores.max, scores.temperature, weights_);
  const double wanted = static_cast<double>(share) * total;
  // Tokens with weights below (total - wanted) / vocabulary size together hold less than total - wanted. The
  // other tokens hold at least `wanted`, so no lighter token is needed. The other tokens go into a heap and
  // are popped in order until they hold `wanted`, so the vocabulary is never sorted.
  const double cutoff = (total - wanted) / static_cast<double>(logits.size());
  ids.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (static_cast<double>(weights_[i]) >= cutoff) ids.push_back(static_cast<int32_t>(i));
  }
  const auto less_likely = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x < y : a > b;
  };
  std::make_heap(ids.begin(), ids.end(), less_likely);
  auto rest = ids.end();  // [rest, end) holds the popped tokens, the most likely one last
  double mass = 0;
  while (rest != ids.begin() && (rest == ids.end() || mass < wanted)) {
    std::pop_heap(ids.begin(), rest, less_likely);
    --rest;
    mass += static_cast<double>(weights_[static_cast<size_t>(*rest)]);
  }
  ids.erase(ids.begin(), rest);
  std::ranges::reverse(ids);
}

}  // namespace hearth
