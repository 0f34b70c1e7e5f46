// Implements planted routing: directions, attention weights and correlations.
#include "profiler/synthesis/planted_routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/forward/rope.h"

namespace hearth {
namespace {

using Direction = ActivitySpace::Direction;

// Queries and keys use only pairs of dimensions that rotate by at most this angle, in radians per token. With
// pairs that rotate faster, attention weights would fall already between distances 0 and 1, and the w' of
// adjacent tokens would differ too much. With this limit, the correlation between the w' of adjacent tokens
// can be up to 0.8.
constexpr double kFastest = 0.25;
// The exponent of the power law that weights follow after their flat part. With an exponent above 1, the
// weights have a finite sum, so the mean of recent tokens is about the same for contexts of any length.
constexpr double kExponent = 2.0;
constexpr int kDistances = 2048;  // weights beyond this distance are 2 % of the total weight
// The largest share of w' that comes from recent tokens; the rest is the token's own.
constexpr double kMostRecent = 0.95;
constexpr int kSampledTokens = 1000;  // enough to measure the share of reused experts to 0.01

double dot(const Direction& a, const Direction& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// Returns the experts that a token with this w uses, in ascending order.
std::vector<int32_t> chosen(std::span<const PlantedDirection> experts, int n_used, const Direction& w) {
  std::vector<int32_t> chosen(static_cast<size_t>(n_used));
  choose_experts(experts, w, chosen);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

double reuse_at(std::span<const PlantedDirection> experts, int n_used, double correlation) {
  NormalStream random(1);
  int64_t n_common = 0;
  for (int i = 0; i < kSampledTokens; ++i) {
    const Direction before = ActivitySpace::random_direction(random);
    const Direction other = ActivitySpace::random_direction(random);
    Direction w;
    for (size_t k = 0; k < w.size(); ++k) {
      w[k] = static_cast<float>(correlation * static_cast<double>(before[k]) +
                                std::sqrt(1 - correlation * correlation) * static_cast<double>(other[k]));
    }
    const double length = std::sqrt(dot(w, w));
    for (float& value : w) value /= static_cast<float>(length);
    const std::vector<int32_t> a = chosen(experts, n_used, before), b = chosen(experts, n_used, w);
    std::vector<int32_t> common;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
    n_common += static_cast<int64_t>(common.size());
  }
  return static_cast<double>(n_common) / (static_cast<double>(kSampledTokens) * n_used);
}

/// The length of w' = (1 - share) own + share * (mean of recent tokens' own parts), where each `own` has
/// length 1, and the correlation of the w' of adjacent tokens.
struct Mixed {
  double length, correlation;
};
Mixed mixed(std::span<const double> weights, double share) {
  double squares = 0.0, products = 0.0, last = 0.0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double f = share * weights[i] + (i == 0 ? 1.0 - share : 0.0);
    squares += f * f;
    products += f * last;
    last = f;
  }
  return {std::sqrt(squares), products / squares};
}

}  // namespace

std::vector<PlantedDirection> plant_directions(std::span<const double> probabilities, uint64_t seed) {
  NormalStream random(seed);
  std::vector<size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.bits() % i]);
  std::vector<PlantedDirection> all(order.size());
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = {ActivitySpace::random_direction(random), ActivitySpace::cosine_of(probabilities[order[i]])};
  }
  return all;
}

void choose_experts(std::span<const PlantedDirection> experts, const Direction& w,
                    std::span<int32_t> chosen) {
  std::vector<double> above(experts.size());
  for (size_t e = 0; e < experts.size(); ++e) above[e] = dot(experts[e].direction, w) - experts[e].cosine;
  std::vector<int32_t> order(experts.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort_copy(order.begin(), order.end(), chosen.begin(), chosen.end(), [&](int32_t a, int32_t b) {
    return above[static_cast<size_t>(a)] > above[static_cast<size_t>(b)];
  });
}

RecentAttention recent_attention(const RopeSpec& rope) {
  const RopeFrequencies turns = rope_frequencies(rope, {});
  const int n_pairs = static_cast<int>(turns.inv_freq.size());
  RecentAttention attention;
  while (attention.first_pair + 1 < n_pairs &&
         static_cast<double>(turns.inv_freq[static_cast<size_t>(attention.first_pair)]) > kFastest) {
    ++attention.first_pair;
  }
  const int n_used = n_pairs - attention.first_pair;
  // Pairs rotate at rates from 1 down to 1 / base. At distance i, about the share ln(i) / ln(base) of them no
  // longer point in the same direction.
  attention.score = kExponent * std::log(rope.base) * n_used / n_pairs;
  for (int i = 0; i < kDistances; ++i) {
    double mean = 0.0;
    for (int pair = attention.first_pair; pair < n_pairs; ++pair) {
      mean += std::cos(i * static_cast<double>(turns.inv_freq[static_cast<size_t>(pair)])) / n_used;
    }
    attention.weights.push_back(std::exp(attention.score * (mean - 1.0)));
  }
  const double sum = std::accumulate(attention.weights.begin(), attention.weights.end(), 0.0);
  for (double& weight : attention.weights) weight /= sum;
  return attention;
}

RecentMix mix_for_correlation(std::span<const double> weights, double correlation) {
  double low = 0.0, high = kMostRecent;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (mixed(weights, middle).correlation < correlation ? low : high) = middle;
  }
  return {.own = (1.0 - high) / mixed(weights, high).length, .recent = high / (1.0 - high)};
}

double correlation_for_reuse(std::span<const PlantedDirection> experts, int n_used, double reuse) {
  double low = 0.0, high = 1.0;
  for (int i = 0; i < 8; ++i) {
    const double middle = (low + high) / 2;
    (reuse_at(experts, n_used, middle) < reuse ? low : high) = middle;
  }
  return low;
}

}  // namespace hearth
