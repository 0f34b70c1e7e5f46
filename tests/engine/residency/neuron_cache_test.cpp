// The neuron cache's bookkeeping compared with a plain one that keeps the whole history.
#include "engine/residency/neuron_cache.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "tests/support/catch.h"

namespace hearth::testing {
namespace {

using Bits = std::vector<uint64_t>;

Bits bits_of_set(int64_t n_neurons, const std::set<int32_t>& ids) {
  Bits bits(static_cast<size_t>((n_neurons + 63) / 64));
  for (const int32_t id : ids) bits[static_cast<size_t>(id / 64)] |= uint64_t{1} << (id % 64);
  return bits;
}

/// The cache by its definition: remembers every visit, and sorts everything for every choice.
class PlainCache {
 public:
  PlainCache(std::set<int32_t> hot, int32_t first_row, int32_t end_row, double half_life)
      : hot_(std::move(hot)), half_life_(half_life) {
    for (int32_t device_row = first_row; device_row < end_row; ++device_row) free_.insert(device_row);
  }

  void visit(const std::set<int32_t>& wanted) {
    visits_.push_back(wanted);
    sums_.clear();
  }

  std::vector<int32_t> missing(const std::set<int32_t>& predicted) const {
    std::vector<int32_t> ids;
    for (const int32_t id : predicted) {
      if (!hot_.contains(id) && !arriving_.contains(id) && !resident_.contains(id) && !emptied_.contains(id))
        ids.push_back(id);
    }
    return ids;
  }

  std::vector<std::pair<int32_t, int32_t>> bring(const std::set<int32_t>& predicted, size_t n) {
    std::vector<int32_t> ids = missing(predicted);
    std::ranges::stable_sort(ids, [&](int32_t a, int32_t b) { return wanted(a) > wanted(b); });
    ids.resize(std::min({n, ids.size(), free_.size()}));
    std::ranges::sort(ids);
    std::vector<std::pair<int32_t, int32_t>> brought;
    for (const int32_t id : ids) {
      arriving_[id] = *free_.begin();
      brought.emplace_back(id, *free_.begin());
      free_.erase(free_.begin());
    }
    return brought;
  }
  void arrived(int32_t id) { resident_.insert(arriving_.extract(id)); }
  std::vector<std::pair<int32_t, int32_t>> let_go(const std::set<int32_t>& predicted, size_t n) {
    std::vector<std::pair<int32_t, int32_t>> gone;
    while (free_.size() + emptied_.size() < n) {
      auto least = resident_.end();
      for (auto it = resident_.begin(); it != resident_.end(); ++it) {
        if (predicted.contains(it->first)) continue;
        if (least == resident_.end() || wanted(it->first) < wanted(least->first)) least = it;
      }
      if (least == resident_.end()) break;
      gone.emplace_back(*least);
      emptied_.insert(resident_.extract(least));
    }
    return gone;
  }
  void freed(int32_t id) {
    free_.insert(emptied_.at(id));
    emptied_.erase(id);
  }

  const std::map<int32_t, int32_t>& arriving() const { return arriving_; }
  const std::map<int32_t, int32_t>& emptied() const { return emptied_; }
  size_t n_free() const { return free_.size(); }

 private:
  double wanted(int32_t id) const {
    const auto [at, is_new] = sums_.try_emplace(id, 0.0);
    double& sum = at->second;
    for (size_t i = 0; i < visits_.size() && is_new; ++i) {
      const double age = static_cast<double>(visits_.size() - i);
      if (visits_[i].contains(id)) sum += std::exp2(-age / half_life_);
    }
    return sum;
  }

  std::set<int32_t> hot_;
  double half_life_;
  std::vector<std::set<int32_t>> visits_;
  mutable std::map<int32_t, double> sums_;  // since the last visit
  std::set<int32_t> free_;
  std::map<int32_t, int32_t> arriving_, resident_, emptied_;  // neuron -> device row
};

std::vector<std::pair<int32_t, int32_t>> pairs(const std::vector<RowChange>& changes) {
  std::vector<std::pair<int32_t, int32_t>> all;
  for (const RowChange& change : changes) all.emplace_back(change.neuron, change.device_row);
  return all;
}

std::set<int32_t> some(int64_t n_neurons, double share, std::mt19937& rng) {
  std::set<int32_t> ids;
  for (int32_t i = 0; i < n_neurons; ++i) {
    // Low numbers are wanted more often than high ones.
    const double often = share * 2 * (1 - static_cast<double>(i) / static_cast<double>(n_neurons));
    if (std::uniform_real_distribution(0.0, 1.0)(rng) < often) ids.insert(i);
  }
  return ids;
}

/// Frees each of these, or lets it arrive, with even odds.
template <class F>
void for_some(const std::map<int32_t, int32_t>& of, std::mt19937& rng, const F& f) {
  for (const auto& [neuron, device_row] : std::map(of)) {
    if (rng() % 2 == 0) f(neuron, device_row);
  }
}

TEST_CASE("a neuron cache brings and drops the same neurons as a plain one, under random calls") {
  std::mt19937 rng(1);
  for (const int64_t n_neurons : {1, 64, 130}) {
    for (const int64_t n_device_rows : {0, 1, 2, 7, 40}) {
      const std::set<int32_t> hot = some(n_neurons, 0.2, rng);
      const std::vector<int32_t> hot_list(hot.begin(), hot.end());
      const auto first = static_cast<int32_t>(hot.size());
      NeuronCache cache(n_neurons, hot_list, first, first + n_device_rows, {}, 9);
      PlainCache plain(hot, first, first + static_cast<int32_t>(n_device_rows), 9);
      std::vector<RowChange> found;
      for (int call = 0; call < 120; ++call) {
        INFO(n_neurons << " neurons, " << n_device_rows << " device rows, call " << call);
        const std::set<int32_t> wanted = some(n_neurons, 0.3, rng), predicted = some(n_neurons, 0.3, rng);
        cache.visit(bits_of_set(n_neurons, wanted));
        plain.visit(wanted);
        const Bits bits = bits_of_set(n_neurons, predicted);
        REQUIRE(cache.missing(bits) == static_cast<int64_t>(plain.missing(predicted).size()));
        const size_t n = rng() % 6;
        cache.bring(bits, static_cast<int64_t>(n), found);
        REQUIRE(pairs(found) == plain.bring(predicted, n));
        for_some(plain.arriving(), rng, [&](int32_t neuron, int32_t device_row) {
          cache.arrived(device_row);
          plain.arrived(neuron);
        });
        const size_t keep = rng() % 4;
        cache.let_go(bits, static_cast<int64_t>(keep), found);
        REQUIRE(pairs(found) == plain.let_go(predicted, keep));
        for_some(plain.emptied(), rng, [&](int32_t neuron, int32_t device_row) {
          cache.freed(device_row);
          plain.freed(neuron);
        });
        REQUIRE(cache.n_free() == static_cast<int64_t>(plain.n_free()));
      }
    }
  }
}

TEST_CASE("a neuron's score decays with time, for a bounded number of visits") {
  // Neuron 0 was wanted ten times, long ago; neuron 1 twice, recently.
  for (const int visits_between : {0, 20, 2000}) {
    INFO(visits_between);
    NeuronCache cache(64, {}, 0, 1, {}, 1.0);
    std::vector<RowChange> found;
    for (int i = 0; i < 10; ++i) cache.visit(bits_of_set(64, {0}));
    for (int i = 0; i < visits_between; ++i) cache.visit(bits_of_set(64, {}));
    if (visits_between > 0) {
      for (int i = 0; i < 2; ++i) cache.visit(bits_of_set(64, {1}));
    }
    cache.bring(bits_of_set(64, {0, 1}), 1, found);
    REQUIRE(found.size() == 1);
    CHECK(found[0].neuron == (visits_between > 0 ? 1 : 0));
  }
}

TEST_CASE("one device row serves one neuron after another, and a predicted neuron stays") {
  NeuronCache cache(10, std::vector<int32_t>{3}, 1, 2);
  std::vector<RowChange> found;
  cache.bring(bits_of_set(10, {3, 5, 6}), 8, found);
  CHECK(pairs(found) == std::vector<std::pair<int32_t, int32_t>>{{5, 1}});
  cache.let_go(bits_of_set(10, {}), 1, found);
  CHECK(found.empty());  // it is still in flight
  cache.arrived(1);
  cache.let_go(bits_of_set(10, {5, 6}), 1, found);
  CHECK(found.empty());
  cache.let_go(bits_of_set(10, {6}), 1, found);
  CHECK(pairs(found) == std::vector<std::pair<int32_t, int32_t>>{{5, 1}});
  cache.bring(bits_of_set(10, {6}), 8, found);
  CHECK(found.empty());  // work may still read the device row
  cache.freed(1);
  cache.bring(bits_of_set(10, {6}), 8, found);
  CHECK(pairs(found) == std::vector<std::pair<int32_t, int32_t>>{{6, 1}});
}

TEST_CASE("a cache can start with neurons in its first rows, which leave like others") {
  NeuronCache cache(10, std::vector<int32_t>{3}, 1, 4, std::vector<int32_t>{4, 7});
  CHECK(cache.n_free() == 1);
  CHECK(cache.missing(bits_of_set(10, {3, 4, 5, 7})) == 1);
  std::vector<RowChange> found;
  cache.bring(bits_of_set(10, {4, 5, 6, 7}), 8, found);
  CHECK(pairs(found) == std::vector<std::pair<int32_t, int32_t>>{{5, 3}});
  cache.let_go(bits_of_set(10, {7}), 3, found);
  CHECK(pairs(found) == std::vector<std::pair<int32_t, int32_t>>{{4, 1}});
}

}  // namespace
}  // namespace hearth::testing
