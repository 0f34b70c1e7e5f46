// Paths through a chain of choices at prices of its resources, and the bound that they make: step 1 of
// choice_chain.h.
//
// One thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "profiler/placement/choice_chain.h"

namespace hearth {

/// Costs closer than this, relatively, are the same: sums of some hundred doubles differ by less.
inline constexpr double kEqualCosts = 1e-11;
/// Any number of layers on the device.
inline constexpr int kAnyNumber = -1;

/// What a byte of each resource costs, in seconds.
struct Prices {
  double vram = 0, ram = 0;
};

struct ChoiceItem {
  int64_t vram = 0, ram = 0;
  double seconds = 0;
  int32_t index = 0;  // in the layer's options
  double cost(const Prices& prices) const {
    return seconds + prices.vram * static_cast<double>(vram) + prices.ram * static_cast<double>(ram);
  }
};

/// A layer's options by side, without those that another one beats in everything.
using ChoiceSides = std::array<std::vector<ChoiceItem>, 2>;

struct ChoicePath {
  std::vector<int32_t> picks;
  int64_t vram = 0, ram = 0;
  double seconds = 0;
  bool empty() const { return picks.empty(); }
};

class ChoicePaths {
 public:
  /// The chain outlives it, and has layers.
  explicit ChoicePaths(const ChoiceChain& chain);

  size_t n_layers() const { return layers_.size(); }
  const ChoiceSides& layer(size_t i) const { return layers_[i]; }
  /// Whether some choice of options takes more RAM than its budget.
  bool ram_counts() const { return ram_counts_; }
  /// The least bytes that layers i.. take.
  int64_t least_vram(size_t i) const { return least_vram_[i]; }
  int64_t least_ram(size_t i) const { return least_ram_[i]; }
  double crossing(bool from, bool to) const { return from == to ? 0 : chain_.crossing_seconds; }

  /// A bound and the prices it is had at. Infinite: no path keeps the budgets.
  struct Dual {
    double value = 0;
    double ram_over = 0;  // its slope: RAM over the budget, of the mixture of paths that attains it
    Prices prices;
  };
  /// The largest bound over all prices, of paths with so many layers on the device. Paths that are met on the
  /// way and keep the budgets are offered to best() and best_of_number().
  Dual best_dual(int number);

  /// From now on costs are told at these prices.
  void set_prices(const Prices& prices);
  /// The least that layers i.. cost, where what stands before is on side s.
  double behind(size_t i, bool s) const { return behind_[i][s ? 1 : 0]; }
  /// The bound at these prices.
  double dual_value(int number) const;

  const ChoicePath& best() const { return best_; }
  /// Of those offered since forget_best_of_number().
  const ChoicePath& best_of_number() const { return best_of_number_; }
  void forget_best_of_number() { best_of_number_ = {}; }
  /// Offers a path, which is taken if it keeps the budgets and is better.
  void offer(const ChoicePath& path);

 private:
  void find_least();
  size_t cheapest_number() const;
  ChoicePath path_at(const Prices& prices, int number);
  double value(const ChoicePath& path, const Prices& prices) const;
  Dual best_vram_price(double ram_price, int number);
  Dual best_ram_price(Dual low, int number);

  const ChoiceChain& chain_;
  bool ram_counts_ = false;
  std::vector<ChoiceSides> layers_;
  std::vector<int64_t> least_vram_, least_ram_;  // [layers + 1]
  Prices prices_;
  std::vector<std::array<double, 2>> behind_;                 // [layers + 1]
  std::vector<std::array<std::vector<double>, 2>> behind_n_;  // the same with [n] layers on the device
  std::vector<std::array<const ChoiceItem*, 2>> chosen_;
  ChoicePath best_, best_of_number_;
};

}  // namespace hearth
