// See the header.
#include "engine/residency/expert_cache.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <tuple>

namespace hearth {
namespace {

// Limit for the units, far below the largest double (2^1024).
constexpr double kMostUnits = 0x1p500;
// For this many exchanges, watching begins at each token, which gives some hundred outcomes in kHorizon
// tokens. With only four, chance made the weight of the slowest count wrong for hundreds of tokens after a
// change of topic.
constexpr size_t kWatched = 32;
// Half-life of what is learned, in tokens. It spans several topics.
constexpr double kMemory = 1024;
// At first, only the slowest count has a weight, as if a few exchanges had already confirmed it. kPrior is
// the sum of the squared uses in these assumed exchanges.
constexpr double kPrior = 10;

// The share of the time in which the link may copy.
constexpr double kLinkShare = 0.75;
// If no use is known, counts begin as if this many tokens had used no expert, so that chance in the first
// tokens weighs little.
constexpr double kUnseen = 16;

/// Returns the growth per token of a count's units, for each half-life.
std::array<double, 3> growth_of(std::array<double, 3> half_lives) {
  for (double& life : half_lives) life = std::exp2(1 / life);
  return half_lives;
}

}  // namespace

void CopyAllowance::pass(double seconds, double copy_s) {
  const double n = copy_s > 0 ? kLinkShare * seconds / copy_s : 1;
  // Unused allowance is not saved for later tokens. Only if one copy takes the time of several tokens, the
  // allowance of these tokens adds up to one copy.
  allowed_ = std::min(allowed_ + n, std::max(n, 1.0));
}

ExpertCache::ExpertCache(std::span<const Layer> layers, const Rules& rules)
    : rules_(rules), growth_(growth_of(rules.half_lives)) {
  seen_.fill(kUnseen);
  units_.fill(1);
  weights_.back() = 1;
  for (size_t k = 0; k < kUses; ++k) squares_[k][k] = kPrior;
  products_.back() = kPrior;
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
    if (layer.use.empty()) continue;
    // These are the counts after a long time of constant use.
    for (size_t k = 0; k < kUses; ++k) {
      seen_[k] = growth_[k] / (growth_[k] - 1);
      for (size_t i = 0; i < layer.use.size(); ++i) state.experts[i].counts[k] = layer.use[i] * seen_[k];
    }
  }
}

/// Predictions of the expert's uses in the next kHorizon tokens, each in case one of the counts goes on.
ExpertCache::Uses ExpertCache::predicted(const Expert& expert) const {
  Uses uses;
  for (size_t k = 0; k < kUses; ++k) uses[k] = kHorizon * expert.counts[k] / units_[k] / seen_[k];
  return uses;
}

/// Uses of the expert that are expected in the next kHorizon tokens.
double ExpertCache::expected(const Expert& expert) const {
  const Uses uses = predicted(expert);
  return std::inner_product(uses.begin(), uses.end(), weights_.begin(), 0.0);
}

/// Counts the uses of a token, and lists the missing experts that it used in wanted_.
void ExpertCache::count(int layer, std::span<const int32_t> experts) {
  LayerState& state = layers_[static_cast<size_t>(layer)];
  wanted_.clear();
  for (const int32_t number : experts) {
    Expert& expert = state.experts[static_cast<size_t>(number)];
    if (expert.last == token_) continue;  // by another token of the step
    for (size_t k = 0; k < kUses; ++k) expert.counts[k] += units_[k];
    expert.last = token_;
    if (expert.state == State::kInHost) wanted_.push_back(number);
    for (Watch& watch : state.watches) {
      watch.gain += watch.in == number ? 1 : 0;
      watch.gain -= watch.out == number ? 1 : 0;
    }
  }
}

int ExpertCache::use(int layer, std::span<const int32_t> experts, int n, std::vector<ExpertExchange>& out) {
  out.clear();
  count(layer, experts);
  int n_refused = 0;
  for (const Offer& offer : add_offers(layer)) {
    if (offer.exchange.evicted >= 0 && offer.gain < rules_.margin) continue;
    if (static_cast<int>(out.size()) >= n) {
      ++n_refused;
      continue;
    }
    make(offer.exchange);
    out.push_back(offer.exchange);
  }
  return n_refused;
}

/// Pairs the layer's wanted experts, the most useful first, with the rows of its least useful ones. Returns
/// these offers, which have been added to offers_.
std::span<const ExpertCache::Offer> ExpertCache::add_offers(int layer) {
  const LayerState& state = layers_[static_cast<size_t>(layer)];
  if (wanted_.empty()) return {};
  const auto value = [&](int32_t expert) {
    return expert < 0 ? -1.0 : expected(state.experts[static_cast<size_t>(expert)]);
  };
  std::ranges::sort(
      wanted_, [&](int32_t a, int32_t b) { return std::tuple(-value(a), a) < std::tuple(-value(b), b); });
  places_.clear();
  for (size_t i = 0; i < state.rows.size(); ++i) {
    const int32_t expert = state.rows[i];
    if (expert < 0 || state.experts[static_cast<size_t>(expert)].state == State::kOnDevice)
      places_.push_back(static_cast<int32_t>(i));
  }
  const size_t n = std::min(places_.size(), wanted_.size());
  const auto in_row = [&](int32_t row) {
    return std::tuple(value(state.rows[static_cast<size_t>(row)]), row);
  };
  std::partial_sort(places_.begin(), places_.begin() + static_cast<ptrdiff_t>(n), places_.end(),
                    [&](int32_t a, int32_t b) { return in_row(a) < in_row(b); });
  for (size_t i = 0; i < n; ++i) {
    const int32_t evicted = state.rows[static_cast<size_t>(places_[i])];
    const double gain = value(wanted_[i]) - std::max(0.0, value(evicted));
    offers_.push_back({gain, {layer, wanted_[i], places_[i], evicted}});
  }
  return std::span(offers_).last(n);
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
  for (size_t k = 0; k < kUses; ++k) {
    for (size_t other = 0; other < kUses; ++other) squares_[k][other] += x[k] * x[other];
    products_[k] += x[k] * watch.gain;
  }
}

/// Moves the weights toward the least-squares solution without negative weights: sets each weight in turn to
/// its best value while the others stay. One round per token is enough, because the sums change slowly.
void ExpertCache::solve() {
  const double forget = std::exp2(-1 / kMemory), prior = kPrior * (1 - forget);
  for (size_t k = 0; k < kUses; ++k) {
    for (double& square : squares_[k]) square *= forget;
    products_[k] *= forget;
    squares_[k][k] += prior;
  }
  products_.back() += prior;
  for (size_t k = 0; k < kUses; ++k) {
    double rest = products_[k];
    for (size_t other = 0; other < kUses; ++other) {
      if (other != k) rest -= squares_[k][other] * weights_[other];
    }
    weights_[k] = std::max(0.0, rest / squares_[k][k]);
  }
}

void ExpertCache::make(const ExpertExchange& exchange) {
  LayerState& state = layers_[static_cast<size_t>(exchange.layer)];
  if (exchange.evicted >= 0) state.experts[static_cast<size_t>(exchange.evicted)].state = State::kInHost;
  state.experts[static_cast<size_t>(exchange.expert)].state = State::kArriving;
  state.rows[static_cast<size_t>(exchange.row)] = exchange.expert;
}

void ExpertCache::end_token() {
  // 1. Learn from the watched exchanges that are over.
  for (LayerState& layer : layers_) {
    std::erase_if(layer.watches, [&](const Watch& watch) {
      if (watch.end > token_) return false;
      learn(watch);
      return true;
    });
  }
  solve();
  // 2. Watch the best offers of this token.
  const size_t n = std::min(offers_.size(), kWatched);
  std::partial_sort(offers_.begin(), offers_.begin() + static_cast<ptrdiff_t>(n), offers_.end(),
                    [](const Offer& a, const Offer& b) {
                      return std::tuple(-a.gain, a.exchange.layer, a.exchange.expert) <
                             std::tuple(-b.gain, b.exchange.layer, b.exchange.expert);
                    });
  for (size_t i = 0; i < n; ++i) watch(offers_[i]);
  offers_.clear();
  // 3. Begin the next token.
  ++token_;
  for (size_t k = 0; k < kUses; ++k) {
    units_[k] *= growth_[k];
    seen_[k] = seen_[k] / growth_[k] + 1;
  }
  if (std::ranges::max(units_) > kMostUnits) fade();
}

/// Divides all counts by their units and sets these to 1. Ratios stay, and numbers stay small.
void ExpertCache::fade() {
  for (LayerState& layer : layers_) {
    for (Expert& expert : layer.experts)
      for (size_t k = 0; k < kUses; ++k) expert.counts[k] /= units_[k];
  }
  units_.fill(1);
}

void ExpertCache::arrived(int layer, int32_t row) {
  LayerState& state = layers_[static_cast<size_t>(layer)];
  Expert& expert = state.experts[static_cast<size_t>(state.rows[static_cast<size_t>(row)])];
  assert(expert.state == State::kArriving);
  expert.state = State::kOnDevice;
}

}  // namespace hearth
