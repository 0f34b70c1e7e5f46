// The distribution of a layer's activity over its neurons, the most active neurons first.
//
// The curve comes from counts if the model's neurons were counted. Otherwise it comes from a formula
// (ActivityLaw) with published figures for similar models: the share of active neurons, and how much of the
// activity the most active neurons have. In a mixture, the curves describe experts instead of neurons, and an
// expert is active for a token that chose it. Plain values; any thread.
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
  /// shares: for each neuron, the share of tokens for which it is active, in [0, 1], in descending order.
  explicit ActivityCurve(std::span<const double> shares);

  int64_t n_neurons() const { return static_cast<int64_t>(active_.size()) - 1; }
  /// Returns how many of the n most active neurons are active for a token, on average. REQUIRES: 0 <= n <=
  /// n_neurons().
  double active(int64_t n) const { return active_[static_cast<size_t>(n)]; }
  double active() const { return active_.back(); }
  /// The share of all activations that belongs to the n most active neurons; 0 if there are no activations.
  double caught(int64_t n) const { return active() > 0 ? active(n) / active() : 0; }

 private:
  std::vector<double> active_;  // [n_neurons + 1] active_[n]: sum of the n largest shares
};

/// A formula for activity: a neuron is active with the probability p(x) = min(0.98, f (x + 0.1)^-e), where x
/// is the neuron's index plus 1/2, divided by the number of neurons. The parameters f and e are chosen to
/// meet two conditions. The mean of p is `active`. The most active neurons, whose share of all neurons is
/// `top`, have the share `of_activations` of all activations.
struct ActivityLaw {
  double active = 0;
  double top = 0, of_activations = 0;
  std::string source;  // publication and model that the figures come from, as text for people
};

/// Returns the curve of n neurons by this formula. REQUIRES: n >= 1, 0 < active < 0.95, 0 < top <
/// of_activations < 1. If the cap of 0.98 makes the concentration `of_activations` impossible, takes the
/// largest possible concentration.
ActivityCurve curve_of(const ActivityLaw& law, int64_t n);

/// Returns the formula with the published figures for models of this kind, or nullopt if the model's
/// activation has no zeros.
std::optional<ActivityLaw> known_law(const ModelSpec& spec);

/// Curves of all layers.
struct ModelActivity {
  std::vector<ActivityCurve> curves;
  std::vector<int> curve_of_layer;  // [n_layers] index in curves
  /// [n_layers][d_ff, or number of experts] ids, the most active first; empty if unknown.
  std::vector<std::vector<int32_t>> hottest;
  std::string source;  // a phrase, shown to people

  const ActivityCurve& of(int layer) const {
    return curves[static_cast<size_t>(curve_of_layer[static_cast<size_t>(layer)])];
  }
  /// The share of all neurons that are active for a token, on average.
  double active_share() const;
  /// The share of tokens for which each neuron or expert of a layer is active, by id; empty if `hottest` is.
  std::vector<double> shares_of(int layer) const;
};

ModelActivity law_activity(const ActivityLaw& law, const ModelSpec& spec);

/// n_tokens: the number of counted tokens. If it is 0 (unknown), counts are scaled so that, on average, the
/// share `active` of all neurons is active.
ModelActivity counted_activity(const ActivityProfile& profile, double n_tokens, double active,
                               const std::string& source);

/// Converts counts of the model's neurons or experts to activity. All counted tokens have the same weight.
/// REQUIRES: counts.n_tokens > 0.
ModelActivity counted_activity(const ActivityCounts& counts, const std::string& source);

/// Returns the activity of a dense model, in which every neuron is always active.
ModelActivity dense_activity(const ModelSpec& spec);

/// Returns the activity of a mixture without counts of experts: all experts of a layer are chosen equally
/// often.
ModelActivity even_expert_activity(const ModelSpec& spec);
/// Like even_expert_activity(), but for a device that exchanges its experts for those that the texts use
/// (ExpertExchanger): a quarter of a layer's experts get half of the choices. Traces that `synth` plants
/// reach this with 25 to 75 % of the experts on the device (hearth-profiler replay --policy learned). Few
/// experts are chosen equally often.
ModelActivity exchanged_expert_activity(const ModelSpec& spec);

/// Returns how many different experts of a layer n_tokens unrelated tokens choose in total. This expected
/// number is averaged over the layers with experts.
double experts_read_by(const ModelActivity& activity, int n_tokens);

/// Whether the activity has as many layers, and as many neurons or experts, as the model.
bool fits(const ModelActivity& activity, const ModelSpec& spec);

}  // namespace hearth
