// Implements PlantedChoice.
#include "profiler/synthesis/planted_choice.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <set>

#include "profiler/activity/expert_use.h"
#include "profiler/synthesis/normal_stream.h"
#include "profiler/synthesis/synth_activity.h"
#include "profiler/synthesis/synth_model.h"

namespace hearth {
namespace {

// Streams of random numbers.
constexpr uint64_t kChoiceOfExperts = 1, kChoiceOfTokens = 2, kChoiceOfTopics = 3;

/// The length of the direction that add_topic() adds to all tokens of a topic, relative to a token's varying
/// part.
constexpr float kTopicLength = 1.0f;

/// A token's varying part is a weighted sum over the token itself and previous tokens. Returns the weights by
/// distance; distance 0 is the token itself.
std::vector<double> recent_shares(const RopeSpec& rope, double correlation) {
  std::vector<double> shares = recent_attention(rope).weights;
  const RecentMix mix = mix_for_correlation(shares, correlation);
  for (double& share : shares) share *= mix.recent;
  shares.front() += 1;
  return shares;
}

std::vector<double> counted_chances(const ActivityCounts& counts, int layer) {
  std::vector<double> chances;
  for (int expert = 0; expert < counts.d_ff; ++expert)
    chances.push_back(static_cast<double>(counts.active[counts.index(layer, expert)]) / counts.n_tokens);
  return chances;
}

void normalize(ActivitySpace::Direction& direction) {
  float squares = 0;
  for (const float value : direction) squares += value * value;
  for (float& value : direction) value /= std::sqrt(squares);
}

}  // namespace

ChoiceLaw::ChoiceLaw() : skew(SynthOptions().expert_skew), reuse(SynthOptions().expert_reuse) {}

PlantedChoice::PlantedChoice(const ModelSpec& spec, const ActivityCounts* counts)
    : PlantedChoice(spec, ChoiceLaw(), counts) {}

PlantedChoice::PlantedChoice(const ModelSpec& spec, const ChoiceLaw& law, const ActivityCounts* counts)
    : law_(law), n_used_(spec.mixture.n_used) {
  if (!spec.has_experts()) return;
  const bool counted = counts != nullptr && !counts->empty();
  const int n = spec.mixture.n_experts;
  const std::vector<double> chances = firing_probabilities(n, static_cast<double>(n_used_) / n, law.skew);
  for (int i = 0; i < spec.n_layers; ++i) {
    if (!spec.layer(i).experts) continue;
    layers_.push_back(plant_directions(counted ? counted_chances(*counts, i) : chances,
                                       mix_keys(key(kChoiceOfExperts), static_cast<uint64_t>(i))));
  }
  const double reuse = counted ? mean_kept_share(*counts) : law.reuse;
  const double correlation = correlation_for_reuse(layers_.front(), n_used_, reuse);
  recent_ = recent_shares({.n_rot = spec.rope.n_rot, .base = spec.rope.base}, correlation);
}

uint64_t PlantedChoice::key(uint64_t stream) const {
  return law_.seed == 0 ? stream : mix_keys(law_.seed, stream);
}

const PlantedChoice::Direction& PlantedChoice::own(int32_t sequence, int32_t position) {
  const uint64_t place = static_cast<uint64_t>(sequence) << 32 | static_cast<uint32_t>(position);
  const auto [found, is_new] = own_.try_emplace(place);
  if (is_new) {
    NormalStream random(mix_keys(key(kChoiceOfTokens), place));
    found->second = ActivitySpace::random_direction(random);
  }
  return found->second;
}

PlantedChoice::Direction PlantedChoice::varying_part(int32_t sequence, int32_t position) {
  Direction sum{};
  const int32_t n_before = std::min(position, static_cast<int32_t>(recent_.size()) - 1);
  for (int32_t i = 0; i <= n_before; ++i) {
    const Direction& of = own(sequence, position - i);
    for (size_t k = 0; k < sum.size(); ++k)
      sum[k] += static_cast<float>(recent_[static_cast<size_t>(i)]) * of[k];
  }
  normalize(sum);
  if (law_.topic_tokens > 0) add_topic(position, sum);
  return sum;
}

void PlantedChoice::add_topic(int32_t position, Direction& to) const {
  NormalStream random(mix_keys(key(kChoiceOfTopics), static_cast<uint64_t>(position / law_.topic_tokens)));
  const Direction topic = ActivitySpace::random_direction(random);
  for (size_t k = 0; k < to.size(); ++k) to[k] += kTopicLength * topic[k];
  normalize(to);
}

void PlantedChoice::begin_step(std::span<const int32_t> sequences, std::span<const int32_t> positions) {
  next_layer_ = 0;
  if (layers_.empty()) return;
  tokens_.clear();
  for (size_t t = 0; t < positions.size(); ++t) tokens_.push_back(varying_part(sequences[t], positions[t]));
  const size_t n = tokens_.size() * static_cast<size_t>(n_used_);
  experts_.resize(n);
  weights_.assign(n, 1.0f / static_cast<float>(n_used_));
}

double mean_experts_chosen(const ModelSpec& spec, int n_tokens) {
  constexpr size_t kLayers = 8;
  PlantedChoice planted(spec);
  std::vector<int32_t> positions(static_cast<size_t>(n_tokens));
  std::iota(positions.begin(), positions.end(), 0);
  planted.begin_step(std::vector<int32_t>(positions.size(), 0), positions);
  const size_t n_layers = std::min(kLayers, planted.n_layers());
  size_t n_chosen = 0;
  for (size_t i = 0; i < n_layers; ++i) {
    const ExpertChoice choice = planted.next_layer();
    n_chosen += std::set<int32_t>(choice.experts, choice.experts + int64_t{n_tokens} * choice.n_used).size();
  }
  return static_cast<double>(n_chosen) / static_cast<double>(n_layers);
}

ExpertChoice PlantedChoice::next_layer() {
  assert(next_layer_ < layers_.size());
  const std::vector<PlantedDirection>& layer = layers_[next_layer_++];
  const auto n_used = static_cast<size_t>(n_used_);
  for (size_t t = 0; t < tokens_.size(); ++t)
    choose_experts(layer, tokens_[t], std::span(experts_).subspan(t * n_used, n_used));
  return current();
}

}  // namespace hearth
