// Implements PlantedActivity.
#include "profiler/simulation/planted_activity.h"

#include <algorithm>
#include <cmath>

namespace hearth {
namespace {

/// Scores above and below every threshold. The thresholds of predictors and of FATReLU are small numbers.
constexpr float kActive = 1e6f, kInactive = -1e6f;

uint32_t chance(double p) { return static_cast<uint32_t>(std::clamp(p, 0.0, 1.0) * 0xffffffffp0); }

/// Returns 32 random bits from a seed and a counter (Steele, Lea, Flood 2014: splitmix64).
uint32_t draw(uint64_t seed, uint64_t counter) {
  uint64_t x = seed + counter * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return static_cast<uint32_t>(x >> 32);
}

}  // namespace

PlantedActivity::PlantedActivity(const ModelActivity& activity, const ModelSpec& spec,
                                 const PlacementAssumptions& assumptions, PlantedChoice& choices)
    : choices_(choices),
      chances_of_layer_(activity.curve_of_layer),
      right_ahead_(chance(assumptions.useful_predicted)),
      d_ff_(spec.d_ff),
      neurons_are_chosen_(!spec.has_experts()) {
  if (!activity.hottest.empty()) {
    chances_of_layer_.clear();
    for (int i = 0; i < spec.n_layers; ++i) chances_of_layer_.push_back(i);
  }
  const int n = activity.hottest.empty() ? static_cast<int>(activity.curves.size()) : spec.n_layers;
  for (int i = 0; i < n; ++i) {
    const ActivityCurve& curve =
        activity.hottest.empty() ? activity.curves[static_cast<size_t>(i)] : activity.of(i);
    Chances chances{std::vector<uint32_t>(static_cast<size_t>(d_ff_)),
                    std::vector<uint32_t>(static_cast<size_t>(d_ff_))};
    for (int64_t rank = 0; rank < d_ff_; ++rank) {
      const auto neuron =
          activity.hottest.empty()
              ? static_cast<size_t>(rank)
              : static_cast<size_t>(activity.hottest[static_cast<size_t>(i)][static_cast<size_t>(rank)]);
      const double p = curve.active(rank + 1) - curve.active(rank);
      chances.active[neuron] = chance(p);
      chances.proposed[neuron] = chance(p * assumptions.proposed_per_active);
    }
    chances_.push_back(std::move(chances));
  }
}

void PlantedActivity::learn(int layer, const LayerWeights& weights, const NeuronLayer& neurons) {
  if (weights.q.weight) known_[weights.q.weight.data] = {layer, Kind::kAttention};
  if (weights.mixture.router.weight) known_[weights.mixture.router.weight.data] = {layer, Kind::kRouter};
  if (!neurons_are_chosen_) return;
  if (neurons.predictor_out) known_[neurons.predictor_out.data] = {layer, Kind::kPredictor};
  if (neurons.ffn.gate) known_[neurons.ffn.gate.data] = {layer, Kind::kGates};
}

uint64_t PlantedActivity::seed(int layer, int t) const {
  return (static_cast<uint64_t>(first_token_ + t) << 20 | static_cast<uint64_t>(layer)) *
         0xd1342543de82ef95ull;
}

bool PlantedActivity::is_active(int t, int64_t neuron) const {
  return draw(seed(layer_, t), static_cast<uint64_t>(neuron)) <
         chances_of(layer_).active[static_cast<size_t>(neuron)];
}

void PlantedActivity::product(const cuda::SimulatedProduct& product) {
  const auto found = known_.find(product.weight.data);
  if (found != known_.end()) {
    const Known& known = found->second;
    if (known.kind == Kind::kPredictor) return fill(product, known.layer, true);
    layer_ = known.layer;
    if (known.kind == Kind::kAttention) return;
    if (known.kind == Kind::kRouter) return fill_logits(product);
    return fill(product, layer_, false);
  }
  // If a product computes listed neurons of streamed weights, the matrix is in a buffer, so the address does
  // not show whether the matrix contains gates. Write scores for all such products. If the matrix contains no
  // gates, nothing reads the scores.
  if (product.ids != nullptr) fill(product, layer_, false);
}

/// Writes logits that fall by `kApart` from each chosen expert to the next. The logits of all other experts
/// are far below.
void PlantedActivity::fill_logits(const cuda::SimulatedProduct& product) {
  constexpr float kApart = 0.25f, kNotChosen = -60.0f;
  const ExpertChoice choice = choices_.next_layer();
  for (int t = 0; t < product.n_tokens; ++t) {
    float* const out = product.out + t * product.out_stride;
    std::fill_n(out, product.weight.n_rows, kNotChosen);
    for (int j = 0; j < choice.n_used; ++j)
      out[choice.experts[t * choice.n_used + j]] = -kApart * static_cast<float>(j);
  }
}

void PlantedActivity::route(const cuda::SimulatedRoute& route) const {
  const int64_t n = int64_t{route.n_tokens} * route.n_used;
  std::copy_n(choices_.current().experts, n, route.experts);
  for (int64_t pair = 0; pair < n; ++pair)
    route.places[pair] = route.slot_of == nullptr ? -1 : route.slot_of[route.experts[pair]];
}

void PlantedActivity::fill(const cuda::SimulatedProduct& product, int layer, bool predictor) {
  const Chances& chances = chances_of(layer);
  const uint32_t* const limits = predictor ? chances.proposed.data() : chances.active.data();
  const bool ahead = predictor && layer != layer_;
  for (int t = 0; t < product.n_tokens; ++t) {
    float* const out = product.out + t * product.out_stride;
    const uint64_t own = seed(layer, t), other = ~own;
    const auto score = [&](int64_t j) {
      const auto at = static_cast<uint64_t>(j);
      const bool sees = !ahead || draw(other, at + (uint64_t{1} << 32)) <= right_ahead_;
      return draw(sees ? own : other, at) < limits[j] ? kActive : kInactive;
    };
    if (product.ids == nullptr) {
      for (int64_t j = 0; j < d_ff_; ++j) out[j] = score(j);
    } else {
      for (int64_t i = 0; i < product.n_ids; ++i) out[i] = score(product.ids[i]);
    }
  }
}

}  // namespace hearth
