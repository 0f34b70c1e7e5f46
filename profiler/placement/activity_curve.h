// How a layer's activity is spread over its neurons, the most active first: all that a placement asks of it.
//
// From counts, where a model's neurons were counted; else from a law with the density and the concentration
// that was published for models of its kind. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/activity/activity_profile.h"
#include "engine/model/model_spec.h"

namespace hearth {

/// A layer's neurons by falling activity.
class ActivityCurve {
 public:
  /// shares: of tokens for which each neuron is active, in [0, 1], falling.
  explicit ActivityCurve(std::span<const double> shares);

  int64_t n_neurons() const { return static_cast<int64_t>(active_.size()) - 1; }
  /// Neurons among the n most active ones that are active for a token, on average. REQUIRES: 0 <= n <=
  /// n_neurons().
  double active(int64_t n) const { return active_[static_cast<size_t>(n)]; }
  double active() const { return active_.back(); }
  /// What share of all activations the n most active neurons have; 0 if there are none.
  double caught(int64_t n) const { return active() > 0 ? active(n) / active() : 0; }

 private:
  std::vector<double> active_;  // [n_neurons + 1] sums
};

/// p(x) = least(0.98, f (x + 0.1)^-e) of the neuron at x, its place among all as a share: f and e are such
/// that the mean is `active` and the first `top` of all neurons have `of_activations` of it.
struct ActivityLaw {
  double active = 0;
  double top = 0, of_activations = 0;
  std::string source;  // who published it, of which model, for people
};

/// REQUIRES: n >= 1, 0 < active < 0.95, 0 < top < of_activations < 1. Where the cap stands against so much
/// concentration, the most that there can be is taken.
ActivityCurve curve_of(const ActivityLaw& law, int64_t n);

/// What is known of models of this kind; nullopt: its activation has no zeros.
std::optional<ActivityLaw> known_law(const ModelSpec& spec);

/// Curves of all layers.
struct ModelActivity {
  std::vector<ActivityCurve> curves;
  std::vector<int> curve_of_layer;            // [n_layers] index in curves
  std::vector<std::vector<int32_t>> hottest;  // [n_layers][d_ff] ids, the most active first; empty: not known
  std::string source;                         // a phrase, for people

  const ActivityCurve& of(int layer) const {
    return curves[static_cast<size_t>(curve_of_layer[static_cast<size_t>(layer)])];
  }
  /// Of all neurons, the share that is active for a token.
  double active_share() const;
};

ModelActivity law_activity(const ActivityLaw& law, const ModelSpec& spec);

/// n_tokens: that were counted; 0: not known, then the counts are scaled until `active` of all neurons are.
ModelActivity counted_activity(const ActivityProfile& profile, double n_tokens, double active,
                               const std::string& source);

/// Every neuron, always: of dense models.
ModelActivity dense_activity(const ModelSpec& spec);

}  // namespace hearth
