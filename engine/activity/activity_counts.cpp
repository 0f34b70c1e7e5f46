// See the header.
#include "engine/activity/activity_counts.h"

#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace hearth {
namespace {

template <class T>
void add_all(const std::vector<T>& from, std::vector<T>& to) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

double sum_of(const std::vector<uint32_t>& counts, size_t begin, size_t n) {
  const auto first = counts.begin() + static_cast<ptrdiff_t>(begin);
  return static_cast<double>(std::accumulate(first, first + static_cast<ptrdiff_t>(n), uint64_t{0}));
}

}  // namespace

ActivityCounts::ActivityCounts(int n_layers_, int n_units, bool experts)
    : n_layers(n_layers_), d_ff(n_units) {
  const size_t n = static_cast<size_t>(n_layers) * static_cast<size_t>(d_ff);
  active.resize(n);
  again.resize(n);
  value_sums.resize(n);
  for (ExpertWindows& window : windows) window.read.resize(experts ? static_cast<size_t>(n_layers) : 0);
}

double ActivityCounts::active_share(int layer) const {
  if (n_tokens == 0) return 0;
  return sum_of(active, index(layer, 0), static_cast<size_t>(d_ff)) / (static_cast<double>(d_ff) * n_tokens);
}

double ActivityCounts::kept_share(int layer) const {
  const double n_active = sum_of(active, index(layer, 0), static_cast<size_t>(d_ff));
  if (n_pairs == 0 || n_active == 0) return 0;
  return sum_of(again, index(layer, 0), static_cast<size_t>(d_ff)) / n_pairs / (n_active / n_tokens);
}

double ActivityCounts::experts_read(int layer, int size) const {
  if (size == 1) return active_share(layer) * d_ff;
  for (size_t i = 0; i < windows.size(); ++i) {
    if (kWindowTokens[i] != size || windows[i].n == 0) continue;
    return static_cast<double>(windows[i].read[static_cast<size_t>(layer)]) / windows[i].n;
  }
  return 0;
}

double ActivityCounts::experts_read_by_others(int layer, int size) const {
  double n_read = 0;
  for (int e = 0; n_tokens > 0 && e < d_ff; ++e) {
    n_read += 1.0 - std::pow(1.0 - static_cast<double>(active[index(layer, e)]) / n_tokens, size);
  }
  return n_read;
}

void ActivityCounts::add(const ActivityCounts& other) {
  if (other.empty()) return;
  if (empty()) {
    *this = other;
    return;
  }
  assert(n_layers == other.n_layers && d_ff == other.d_ff);
  if (other.n_tokens > std::numeric_limits<uint32_t>::max() - n_tokens) {
    throw std::overflow_error("activity of more than 4,294,967,295 tokens cannot be counted in one file");
  }
  n_tokens += other.n_tokens;
  n_pairs += other.n_pairs;
  add_all(other.active, active);
  add_all(other.again, again);
  add_all(other.value_sums, value_sums);
  for (size_t i = 0; i < windows.size(); ++i) {
    windows[i].n += other.windows[i].n;
    add_all(other.windows[i].read, windows[i].read);
  }
}

ActivityCounts ActivityCounts::renumbered(const std::vector<std::vector<int32_t>>& order) const {
  if (order.empty()) return *this;
  ActivityCounts other(n_layers, d_ff);
  other.n_tokens = n_tokens;
  other.n_pairs = n_pairs;
  other.windows = windows;
  for (int layer = 0; layer < n_layers; ++layer) {
    for (int j = 0; j < d_ff; ++j) {
      const size_t from = index(layer, j);
      const size_t to = index(layer, order[static_cast<size_t>(layer)][static_cast<size_t>(j)]);
      other.active[to] = active[from];
      other.again[to] = again[from];
      other.value_sums[to] = value_sums[from];
    }
  }
  return other;
}

}  // namespace hearth
