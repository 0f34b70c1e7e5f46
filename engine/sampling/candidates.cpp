#include "engine/sampling/candidates.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "engine/sampling/softmax_weights.h"

namespace hearth {
namespace {

/// Keeps the candidates at these indices, in this order.
void keep(Candidates& candidates, std::span<const size_t> which) {
  Candidates kept;
  for (const size_t i : which) {
    kept.ids.push_back(candidates.ids[i]);
    kept.weights.push_back(candidates.weights[i]);
  }
  candidates = std::move(kept);
}

void keep_first(Candidates& candidates, size_t n) {
  candidates.ids.resize(n);
  candidates.weights.resize(n);
}

std::vector<size_t> indices_of(const Candidates& candidates) {
  std::vector<size_t> order(candidates.ids.size());
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

/// Returns how many candidates, from the first on, are needed to hold the share p of the sum of all weights;
/// at least 1.
size_t count_mass(std::span<const float> weights, double p) {
  const double wanted = p * sum_of(weights);
  double mass = 0;
  size_t n = 0;
  while (n < weights.size() && (n == 0 || mass < wanted)) mass += static_cast<double>(weights[n++]);
  return n;
}

}  // namespace

double Candidates::total() const { return sum_of(weights); }

void sort_candidates(Candidates& candidates) {
  std::vector<size_t> order = indices_of(candidates);
  std::ranges::sort(order, [&](size_t a, size_t b) {
    const float x = candidates.weights[a], y = candidates.weights[b];
    return x != y ? x > y : candidates.ids[a] < candidates.ids[b];
  });
  keep(candidates, order);
}

void keep_typical(Candidates& candidates, double p) {
  // 1. Compute the surprise of each candidate, and their mean, which is the entropy.
  const double log_total = std::log(candidates.total());
  std::vector<double> surprise;
  double entropy = 0;
  for (const float weight : candidates.weights) {
    const double log_p = std::log(static_cast<double>(weight)) - log_total;
    surprise.push_back(-log_p);
    if (weight > 0) entropy -= std::exp(log_p) * log_p;
  }
  // 2. Sort by distance from the entropy, nearest first.
  std::vector<size_t> order = indices_of(candidates);
  std::ranges::sort(order, [&](size_t a, size_t b) {
    const double x = std::abs(surprise[a] - entropy), y = std::abs(surprise[b] - entropy);
    if (x != y) return x < y;
    const float u = candidates.weights[a], v = candidates.weights[b];
    return u != v ? u > v : candidates.ids[a] < candidates.ids[b];
  });
  keep(candidates, order);
  keep_first(candidates, count_mass(candidates.weights, p));
}

void keep_top_mass(Candidates& candidates, double p) {
  keep_first(candidates, count_mass(candidates.weights, p));
}

void drop_unlikely(Candidates& candidates, float min_p) {
  const float least = min_p * *std::ranges::max_element(candidates.weights);
  std::vector<size_t> kept;
  for (size_t i = 0; i < candidates.ids.size(); ++i)
    if (candidates.weights[i] >= least) kept.push_back(i);
  keep(candidates, kept);
}

void exclude_top_choices(Candidates& candidates, double threshold) {
  const double least = threshold * candidates.total();
  const std::vector<size_t> all = indices_of(candidates);
  // Banned tokens have weight 0. They are not top choices, but they would reach a threshold of 0.
  const auto is_top = [&](size_t i) {
    return candidates.weights[i] > 0 && static_cast<double>(candidates.weights[i]) >= least;
  };
  if (std::ranges::count_if(all, is_top) < 2) return;
  size_t last = all.size();
  for (const size_t i : all) {
    if (!is_top(i)) continue;
    const auto heavier = [&](size_t a, size_t b) {
      const float x = candidates.weights[a], y = candidates.weights[b];
      return x != y ? x > y : candidates.ids[a] < candidates.ids[b];
    };
    if (last == all.size() || heavier(last, i)) last = i;
  }
  std::vector<size_t> kept;
  for (const size_t i : all)
    if (!is_top(i) || i == last) kept.push_back(i);
  keep(candidates, kept);
}

void drop_surprising(Candidates& candidates, double most_bits) {
  const double least = std::exp2(-most_bits) * candidates.total();
  size_t n = 1;
  while (n < candidates.ids.size() && static_cast<double>(candidates.weights[n]) >= least) ++n;
  keep_first(candidates, n);
}

}  // namespace hearth
