// See the header.
#include "engine/placement/activity_curve.h"

#include <algorithm>
#include <cmath>

namespace hearth {
namespace {

constexpr double kMostActive = 0.98;
// The 0.1 in ActivityLaw, which flattens the beginning of the curve. Synthetic models use this value too
// (synth_activity.cpp).
constexpr double kHead = 0.1;
constexpr int kSteps = 60;  // steps of a bisection, enough to determine the last bit

/// The x of ActivityLaw for each of n neurons.
std::vector<double> places(int64_t n) {
  std::vector<double> x(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    x[static_cast<size_t>(i)] = (static_cast<double>(i) + 0.5) / static_cast<double>(n);
  }
  return x;
}

std::vector<double> shares(std::span<const double> shape, double factor) {
  std::vector<double> p(shape.begin(), shape.end());
  for (double& share : p) share = std::min(kMostActive, share * factor);
  return p;
}

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

/// Multiplies `shape` by a factor, caps the products at kMostActive, and returns them. Chooses the factor for
/// which their mean is `active`, or as near to `active` as possible.
std::vector<double> scaled(std::span<const double> shape, double active) {
  double low = 0, high = 1;
  for (int i = 0; i < kSteps && mean(shares(shape, high)) < active; ++i) high *= 2;
  for (int i = 0; i < kSteps; ++i) {
    const double middle = (low + high) / 2;
    (mean(shares(shape, middle)) < active ? low : high) = middle;
  }
  return shares(shape, high);
}

std::vector<double> law_shares(double exponent, double active, int64_t n) {
  std::vector<double> shape = places(n);
  for (double& x : shape) x = std::pow((x + kHead) / (1 + kHead), -exponent);
  return scaled(shape, active);
}

}  // namespace

ActivityCurve::ActivityCurve(std::span<const double> shares) : active_(1, 0.0) {
  active_.reserve(shares.size() + 1);
  for (const double share : shares) active_.push_back(active_.back() + share);
}

ActivityCurve curve_of(const ActivityLaw& law, int64_t n) {
  constexpr int64_t kEnough = 512;  // enough neurons for three correct digits of the concentration
  constexpr double kSteepest = 8;
  double low = 0, high = kSteepest;
  for (int i = 0; i < 30; ++i) {
    const double exponent = (low + high) / 2;
    const ActivityCurve curve(law_shares(exponent, law.active, kEnough));
    const auto top = static_cast<int64_t>(std::lround(law.top * kEnough));
    (curve.caught(top) < law.of_activations ? low : high) = exponent;
  }
  return ActivityCurve(law_shares((low + high) / 2, law.active, n));
}

std::optional<ActivityLaw> known_law(const ModelSpec& spec) {
  // The densities, and the share of neurons that has 80 % of a layer's activations, are from PowerInfer
  // (SOSP'24, arXiv 2312.12456). The paper states the concentration only for OPT-30B and ReGLU-70B. For every
  // other model, the concentration of the more similar of these two models is assumed.
  const std::string paper = " (PowerInfer's paper)";
  switch (spec.activation.kind) {
    case Activation::kRelu:
      if (spec.activation.threshold > 0) {
        return ActivityLaw{0.11, 0.43, 0.8, "as ProSparse (its paper), spread as ReluLLaMA-70B" + paper};
      }
      if (spec.arch.name == "opt") return ActivityLaw{0.04, 0.26, 0.8, "as OPT" + paper};
      if (!spec.gated) return ActivityLaw{0.05, 0.26, 0.8, "as ReLU-Falcon-40B, spread as OPT" + paper};
      if (spec.d_model >= 8192) return ActivityLaw{0.18, 0.43, 0.8, "as ReluLLaMA-70B" + paper};
      if (spec.d_model >= 5120)
        return ActivityLaw{0.22, 0.43, 0.8, "as ReluLLaMA-13B, spread as 70B" + paper};
      return ActivityLaw{0.30, 0.43, 0.8, "as ReluLLaMA-7B, spread as 70B" + paper};
    case Activation::kDRelu:
      return ActivityLaw{0.10, 0.43, 0.8, "as Bamboo-7B, spread as ReluLLaMA-70B" + paper};
    case Activation::kRelu2:
      return ActivityLaw{0.10, 0.43, 0.8, "as relu2 models, spread as ReluLLaMA-70B"};
    default:
      return std::nullopt;
  }
}

double ModelActivity::active_share() const {
  double active = 0, all = 0;
  for (size_t i = 0; i < curve_of_layer.size(); ++i) {
    active += of(static_cast<int>(i)).active();
    all += static_cast<double>(of(static_cast<int>(i)).n_neurons());
  }
  return all > 0 ? active / all : 0;
}

std::vector<double> ModelActivity::shares_of(int layer) const {
  if (hottest.empty()) return {};
  const std::vector<int32_t>& ids = hottest[static_cast<size_t>(layer)];
  std::vector<double> shares(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto n = static_cast<int64_t>(i);
    shares[static_cast<size_t>(ids[i])] = of(layer).active(n + 1) - of(layer).active(n);
  }
  return shares;
}

ModelActivity law_activity(const ActivityLaw& law, const ModelSpec& spec) {
  ModelActivity activity;
  activity.curves.push_back(curve_of(law, spec.d_ff));
  activity.curve_of_layer.assign(static_cast<size_t>(spec.n_layers), 0);
  activity.source = law.source;
  return activity;
}

ModelActivity counted_activity(const ActivityProfile& profile, double n_tokens, double active,
                               const std::string& source) {
  ModelActivity activity;
  activity.source = source;
  for (size_t layer = 0; layer < profile.counts.size(); ++layer) {
    std::vector<int32_t> ids = profile.hottest_first(static_cast<int>(layer));
    std::vector<double> counts;
    counts.reserve(ids.size());
    for (const int32_t id : ids) counts.push_back(profile.counts[layer][static_cast<size_t>(id)]);
    if (n_tokens > 0) {
      for (double& count : counts) count = std::min(1.0, count / n_tokens);
      activity.curves.emplace_back(counts);
    } else {
      const double most = counts.front() > 0 ? counts.front() : 1;
      for (double& count : counts) count /= most;
      activity.curves.emplace_back(scaled(counts, active));
    }
    activity.curve_of_layer.push_back(static_cast<int>(layer));
    activity.hottest.push_back(std::move(ids));
  }
  return activity;
}

ModelActivity counted_activity(const ActivityCounts& counts, const std::string& source) {
  ActivityProfile profile;
  for (int layer = 0; layer < counts.n_layers; ++layer) {
    const auto begin = counts.active.begin() + static_cast<ptrdiff_t>(counts.index(layer, 0));
    profile.counts.emplace_back(begin, begin + counts.d_ff);
  }
  return counted_activity(profile, counts.n_tokens, 0, source);
}

namespace {

/// All layers with experts have the same curve.
ModelActivity expert_activity(const ModelSpec& spec, ActivityCurve curve, const std::string& source) {
  ModelActivity activity;
  activity.curves.push_back(std::move(curve));
  // for layers without experts
  activity.curves.emplace_back(std::vector<double>(static_cast<size_t>(spec.mixture.n_experts), 0.0));
  for (int i = 0; i < spec.n_layers; ++i) activity.curve_of_layer.push_back(spec.layer(i).experts ? 0 : 1);
  activity.source = source;
  return activity;
}

}  // namespace

ModelActivity even_expert_activity(const ModelSpec& spec) {
  const std::vector<double> shares(static_cast<size_t>(spec.mixture.n_experts),
                                   1.0 * spec.mixture.n_used / spec.mixture.n_experts);
  return expert_activity(spec, ActivityCurve(shares), "if all experts are chosen equally often");
}

ModelActivity exchanged_expert_activity(const ModelSpec& spec) {
  // Models with few experts choose them nearly equally often (Mixtral's paper, arXiv 2401.04088, section 5).
  constexpr int kManyExperts = 32;
  constexpr double kMostChosen = 0.9;  // beyond it, the choices cannot be concentrated
  const double active = 1.0 * spec.mixture.n_used / spec.mixture.n_experts;
  if (spec.mixture.n_experts < kManyExperts || active > kMostChosen) return even_expert_activity(spec);
  const ActivityLaw law{active, 0.25, 0.5, "if a quarter of the experts get half of the choices"};
  return expert_activity(spec, curve_of(law, spec.mixture.n_experts), law.source);
}

double experts_read_by(const ModelActivity& activity, int n_tokens) {
  double sum = 0;
  int n_layers = 0;
  for (size_t i = 0; i < activity.curve_of_layer.size(); ++i) {
    const ActivityCurve& curve = activity.of(static_cast<int>(i));
    if (curve.active() == 0) continue;
    ++n_layers;
    for (int64_t e = 0; e < curve.n_neurons(); ++e)
      sum += 1 - std::pow(1 - std::min(1.0, curve.active(e + 1) - curve.active(e)), n_tokens);
  }
  return n_layers > 0 ? sum / n_layers : 0;
}

bool fits(const ModelActivity& activity, const ModelSpec& spec) {
  const int64_t n_units = spec.has_experts() ? spec.mixture.n_experts : spec.d_ff;
  return static_cast<int>(activity.curve_of_layer.size()) == spec.n_layers &&
         std::ranges::all_of(activity.curves,
                             [&](const ActivityCurve& curve) { return curve.n_neurons() == n_units; });
}

ModelActivity dense_activity(const ModelSpec& spec) {
  ModelActivity activity;
  activity.curves.emplace_back(std::vector<double>(static_cast<size_t>(spec.d_ff), 1.0));
  activity.curve_of_layer.assign(static_cast<size_t>(spec.n_layers), 0);
  activity.source = "every neuron";
  return activity;
}

}  // namespace hearth
