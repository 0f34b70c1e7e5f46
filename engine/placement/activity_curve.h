// The distribution of a layer's activity over its neurons, the most active first. Placement needs no other
// facts about activity.
//
// The curve comes from counts if the model's neurons were counted, otherwise from a law with the density and
// the concentration that were published for models of its kind. In a mixture, the curves are those of experts
// instead, and an expert is active for a token that chose it. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/activity/activity_counts.h"
#include "engine/activity/activity_profile.h"
#include "engine/model/model_spec.h"

namespace hearth {

/// A layer's neurons, sorted by falling activity.
class ActivityCurve {
 public:
  /// shares: for each neuron, the share of tokens for which it is active, in [0, 1], falling.
  explicit ActivityCurve(std::span<const double> shares);

  int64_t n_neurons() const { return static_cast<int64_t>(active_.size()) - 1; }
  /// How many of the n most active neurons are active for a token, on average. REQUIRES: 0 <= n <=
  /// n_neurons().
  double active(int64_t n) const { return active_[static_cast<size_t>(n)]; }
  double active() const { return active_.back(); }
  /// The share of all activations that the n most active neurons have; 0 if there are none.
  double caught(int64_t n) const { return active() > 0 ? active(n) / active() : 0; }

 private:
  std::vector<double> active_;  // [n_neurons + 1] active_[n]: sum of the n largest shares
};

/// A neuron is active with the probability p(x) = min(0.98, f (x + 0.1)^-e), where x is its index divided by
/// the number of neurons. f and e are such that the mean of p is `active` and the first `top` of all neurons
/// have `of_activations` of the activations.
struct ActivityLaw {
  double active = 0;
  double top = 0, of_activations = 0;
  std::string source;  // its publication and the model it describes, as text for people
};

/// The curve of n neurons under this law. REQUIRES: n >= 1, 0 < active < 0.95, 0 < top < of_activations < 1.
/// If the cap of 0.98 rules out that much concentration, takes the most that it allows.
ActivityCurve curve_of(const ActivityLaw& law, int64_t n);

/// The published law for models of this kind, or nullopt if the model's activation has no zeros.
std::optional<ActivityLaw> known_law(const ModelSpec& spec);

/// Curves of all layers.
struct ModelActivity {
  std::vector<ActivityCurve> curves;
  std::vector<int> curve_of_layer;  // [n_layers] index in curves
  /// [n_layers][d_ff, or experts] ids, the most active first; empty: unknown
  std::vector<std::vector<int32_t>> hottest;
  std::string source;  // a phrase, for people

  const ActivityCurve& of(int layer) const {
    return curves[static_cast<size_t>(curve_of_layer[static_cast<size_t>(layer)])];
  }
  /// The share of all neurons that is active for a token.
  double active_share() const;
};

ModelActivity law_activity(const ActivityLaw& law, const ModelSpec& spec);

/// n_tokens: the number of counted tokens. If it is 0 (unknown), counts are scaled so that the share `active`
/// of all neurons is active.
ModelActivity counted_activity(const ActivityProfile& profile, double n_tokens, double active,
                               const std::string& source);

/// From counts of the model's neurons or experts, each token counted once. REQUIRES: counts.n_tokens > 0.
ModelActivity counted_activity(const ActivityCounts& counts, const std::string& source);

/// For dense models: every neuron is always active.
ModelActivity dense_activity(const ModelSpec& spec);

/// For mixtures whose experts were not counted: all experts of a layer are chosen equally often.
ModelActivity even_expert_activity(const ModelSpec& spec);

/// The experts of a layer that n_tokens unrelated tokens read, averaged over layers that choose experts.
double experts_read_by(const ModelActivity& activity, int n_tokens);

/// Whether the activity is of as many layers, and as many neurons or experts, as the model has.
bool fits(const ModelActivity& activity, const ModelSpec& spec);

}  // namespace hearth
