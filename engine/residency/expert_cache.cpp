// See the header.
#include "engine/residency/expert_cache.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>
#include <tuple>

namespace hearth {
namespace {

// Limit for the units, far below the largest double (2^1024).
constexpr double kMostUnits = 0x1p500;
// The number of exchanges that begin to be watched at each token: some hundred outcomes in kHorizon tokens.
constexpr size_t kWatched = 4;
// Half-life of what is learned, in tokens. It spans several topics.
constexpr double kMemory = 1024;
// Before anything is learned, long use is trusted and recent use is not, as if about ten exchanges had
// confirmed this. This is the sum of their squared uses.
constexpr double kPrior = 50;

}  // namespace

ExpertCache::ExpertCache(std::span<const Layer> layers, const Rules& rules)
    : rules_(rules),
      growth_{std::exp2(1 / rules.recent), std::exp2(1 / rules.lasting)},
      per_token_{std::numbers::ln2 / rules.recent, std::numbers::ln2 / rules.lasting},
      weights_{0, 1},
      squares_{kPrior, 0, kPrior},
      products_{0, kPrior} {
  for (const Layer& layer : layers) {
    assert(static_cast<int>(layer.cached.size()) <= layer.n_rows);
    LayerState& state = layers_.emplace_back();
    state.experts.resize(static_cast<size_t>(layer.n_experts));
    state.rows.assign(static_cast<size_t>(layer.n_rows), -1);
    for (const int32_t expert : layer.hot)
      state.experts[static_cast<size_t>(expert)].state = State::kOnDevice;
    for (size_t i = 0; i < layer.cached.size(); ++i) {
      state.rows[i] = layer.cached[i];
      state.experts[static_cast<size_t>(layer.cached[i])].state = State::kOnDevice;
    }
    // These are the counts after a long time of constant use.
    for (size_t i = 0; i < layer.use.size(); ++i)
      for (size_t k = 0; k < kUses; ++k) state.experts[i].counts[k] = layer.use[i] / per_token_[k];
  }
}

/// Two predictions of the expert's uses in the next kHorizon tokens: in case it is used as often as recently,
/// and in case it is used as often as in the long run.
ExpertCache::Uses ExpertCache::predicted(const Expert& expert) const {
  Uses uses;
  for (size_t k = 0; k < kUses; ++k) uses[k] = kHorizon * per_token_[k] * expert.counts[k] / units_[k];
  return uses;
}

/// Uses of the expert that are expected in the next kHorizon tokens.
double ExpertCache::expected(const Expert& expert) const {
  const Uses uses = predicted(expert);
  return weights_[0] * uses[0] + weights_[1] * uses[1];
}

void ExpertCache::use(int layer, std::span<const int32_t> experts) {
  LayerState& state = layers_[static_cast<size_t>(layer)];
  for (const int32_t number : experts) {
    Expert& expert = state.experts[static_cast<size_t>(number)];
    for (size_t k = 0; k < kUses; ++k) expert.counts[k] += units_[k];
    expert.again = token_ - expert.last <= rules_.window;
    expert.last = token_;
    if (expert.state == State::kInHost && expert.again) state.wanted.push_back(number);
    for (Watch& watch : state.watches) {
      watch.gain += watch.in == number ? 1 : 0;
      watch.gain -= watch.out == number ? 1 : 0;
    }
  }
}

/// Pairs the layer's wanted experts, the most useful first, with the rows of its least useful ones.
void ExpertCache::add_offers(int layer) {
  LayerState& state = layers_[static_cast<size_t>(layer)];
  if (state.wanted.empty()) return;
  const auto value = [&](int32_t expert) {
    return expert < 0 ? -1.0 : expected(state.experts[static_cast<size_t>(expert)]);
  };
  std::ranges::sort(state.wanted, [&](int32_t a, int32_t b) {
    return std::tuple(-value(a), a) < std::tuple(-value(b), b);
  });
  places_.clear();
  for (size_t i = 0; i < state.rows.size(); ++i) {
    const int32_t expert = state.rows[i];
    if (expert < 0 || state.experts[static_cast<size_t>(expert)].state == State::kOnDevice)
      places_.push_back(static_cast<int32_t>(i));
  }
  const size_t n = std::min(places_.size(), state.wanted.size());
  const auto in_row = [&](int32_t row) {
    return std::tuple(value(state.rows[static_cast<size_t>(row)]), row);
  };
  std::partial_sort(places_.begin(), places_.begin() + static_cast<ptrdiff_t>(n), places_.end(),
                    [&](int32_t a, int32_t b) { return in_row(a) < in_row(b); });
  for (size_t i = 0; i < n; ++i) {
    const int32_t evicted = state.rows[static_cast<size_t>(places_[i])];
    const double gain = value(state.wanted[i]) - std::max(0.0, value(evicted));
    offers_.push_back({gain, {layer, state.wanted[i], places_[i], evicted}});
  }
  state.wanted.clear();
}

void ExpertCache::watch(const Offer& offer) {
  const ExpertExchange& exchange = offer.exchange;
  if (exchange.evicted < 0) return;
  LayerState& state = layers_[static_cast<size_t>(exchange.layer)];
  Uses uses = predicted(state.experts[static_cast<size_t>(exchange.expert)]);
  const Uses out = predicted(state.experts[static_cast<size_t>(exchange.evicted)]);
  for (size_t k = 0; k < kUses; ++k) uses[k] -= out[k];
  state.watches.push_back({exchange.expert, exchange.evicted, 0, token_ + kHorizon, uses});
}

void ExpertCache::learn(const Watch& watch) {
  const Uses& x = watch.predicted;
  squares_[0] += x[0] * x[0];
  squares_[1] += x[0] * x[1];
  squares_[2] += x[1] * x[1];
  for (size_t k = 0; k < kUses; ++k) products_[k] += x[k] * watch.gain;
}

/// Sets the weights to the solution of the least squares; neither is negative.
void ExpertCache::solve() {
  const double forget = std::exp2(-1 / kMemory), prior = kPrior * (1 - forget);
  for (double& square : squares_) square *= forget;
  for (double& product : products_) product *= forget;
  squares_[0] += prior;
  squares_[2] += prior;
  products_[1] += prior;
  const double determinant = squares_[0] * squares_[2] - squares_[1] * squares_[1];
  weights_ = {(squares_[2] * products_[0] - squares_[1] * products_[1]) / determinant,
              (squares_[0] * products_[1] - squares_[1] * products_[0]) / determinant};
  if (weights_[0] < 0) weights_ = {0, products_[1] / squares_[2]};
  if (weights_[1] < 0) weights_ = {products_[0] / squares_[0], 0};
  for (double& weight : weights_) weight = std::max(0.0, weight);
}

void ExpertCache::make(const ExpertExchange& exchange) {
  LayerState& state = layers_[static_cast<size_t>(exchange.layer)];
  if (exchange.evicted >= 0) state.experts[static_cast<size_t>(exchange.evicted)].state = State::kInHost;
  state.experts[static_cast<size_t>(exchange.expert)].state = State::kArriving;
  state.rows[static_cast<size_t>(exchange.row)] = exchange.expert;
}

void ExpertCache::end_token(int n, std::vector<ExpertExchange>& out) {
  out.clear();
  // 1. Learn from the watched exchanges that are over.
  for (LayerState& layer : layers_) {
    std::erase_if(layer.watches, [&](const Watch& watch) {
      if (watch.end > token_) return false;
      learn(watch);
      return true;
    });
  }
  solve();
  // 2. List what could be exchanged. A layer's offers are in order of gain, so its best come first.
  offers_.clear();
  for (size_t i = 0; i < layers_.size(); ++i) add_offers(static_cast<int>(i));
  std::ranges::stable_sort(offers_, [](const Offer& a, const Offer& b) { return a.gain > b.gain; });
  for (size_t i = 0; i < std::min(offers_.size(), kWatched); ++i) watch(offers_[i]);
  // 3. Make the exchanges that pay.
  for (const Offer& offer : offers_) {
    if (static_cast<int>(out.size()) >= n) break;
    if (offer.exchange.evicted >= 0 && offer.gain < rules_.margin) continue;
    make(offer.exchange);
    out.push_back(offer.exchange);
  }
  // 4. Begin the next token.
  ++token_;
  for (size_t k = 0; k < kUses; ++k) units_[k] *= growth_[k];
  if (std::ranges::max(units_) > kMostUnits) fade();
}

/// Divides all counts by their units and sets these to 1. Ratios stay, and numbers stay small.
void ExpertCache::fade() {
  for (LayerState& layer : layers_) {
    for (Expert& expert : layer.experts)
      for (size_t k = 0; k < kUses; ++k) expert.counts[k] /= units_[k];
  }
  units_ = {1, 1};
}

void ExpertCache::arrived(int layer, int32_t row) {
  LayerState& state = layers_[static_cast<size_t>(layer)];
  Expert& expert = state.experts[static_cast<size_t>(state.rows[static_cast<size_t>(row)])];
  assert(expert.state == State::kArriving);
  expert.state = State::kOnDevice;
}

}  // namespace hearth
