// See the header.
#include "profiler/placement/choice_paths.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace hearth {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kMaxSteps = 100;  // of searches that end by themselves after some ten

/// Leaves of `items` those that no other one equals or beats in all three. `ram_counts`: else two.
void keep_best(std::vector<ChoiceItem>& items, bool ram_counts) {
  std::ranges::sort(items, [](const ChoiceItem& a, const ChoiceItem& b) {
    if (a.vram != b.vram) return a.vram < b.vram;
    if (a.seconds != b.seconds) return a.seconds < b.seconds;
    return a.ram != b.ram ? a.ram < b.ram : a.index < b.index;
  });
  // Of those that take no more VRAM: the least seconds for so much RAM or less, falling as RAM rises.
  std::map<int64_t, double> stairs;
  std::vector<ChoiceItem> kept;
  for (const ChoiceItem& item : items) {
    const int64_t ram = ram_counts ? item.ram : 0;
    auto above = stairs.upper_bound(ram);
    if (above != stairs.begin() && std::prev(above)->second <= item.seconds) continue;
    while (above != stairs.end() && above->second >= item.seconds) above = stairs.erase(above);
    stairs[ram] = item.seconds;
    kept.push_back(item);
  }
  items = std::move(kept);
}

const ChoiceItem* cheapest(const std::vector<ChoiceItem>& items, const Prices& prices) {
  const ChoiceItem* best = nullptr;
  double least = kInfinity;
  for (const ChoiceItem& item : items) {
    const double cost = item.cost(prices);
    if (cost < least) {  // of equals the one with less VRAM, which comes first
      least = cost;
      best = &item;
    }
  }
  return best;
}

}  // namespace

ChoicePaths::ChoicePaths(const ChoiceChain& chain) : chain_(chain) {
  int64_t most_ram = 0;
  for (const std::vector<Choice>& options : chain.layers) {
    int64_t most = 0;
    for (const Choice& option : options) most = std::max(most, option.ram);
    most_ram += most;
  }
  ram_counts_ = most_ram > chain.ram;
  for (const std::vector<Choice>& options : chain.layers) {
    ChoiceSides sides;
    for (size_t i = 0; i < options.size(); ++i) {
      const Choice& o = options[i];
      sides[o.on_device ? 1 : 0].push_back({o.vram, o.ram, o.seconds, static_cast<int32_t>(i)});
    }
    for (std::vector<ChoiceItem>& items : sides) keep_best(items, ram_counts_);
    layers_.push_back(std::move(sides));
  }
  find_least();
}

void ChoicePaths::find_least() {
  least_vram_.assign(n_layers() + 1, 0);
  least_ram_.assign(n_layers() + 1, 0);
  for (size_t i = n_layers(); i-- > 0;) {
    int64_t vram = std::numeric_limits<int64_t>::max(), ram = vram;
    for (const Choice& option : chain_.layers[i]) {
      vram = std::min(vram, option.vram);
      ram = std::min(ram, option.ram);
    }
    least_vram_[i] = least_vram_[i + 1] + vram;
    least_ram_[i] = least_ram_[i + 1] + ram;
  }
}

void ChoicePaths::set_prices(const Prices& prices) {
  prices_ = prices;
  const size_t n = n_layers();
  behind_.assign(n + 1, {kInfinity, kInfinity});
  behind_n_.assign(n + 1, {});
  for (auto& sides : behind_n_) sides.fill(std::vector<double>(n + 1, kInfinity));
  chosen_.assign(n, {});
  for (const bool from : {false, true}) behind_n_[n][from][0] = crossing(from, chain_.ends_on_device);
  for (size_t i = n; i-- > 0;) {
    for (const bool to : {false, true}) {
      const ChoiceItem* item = chosen_[i][to] = cheapest(layers_[i][to], prices);
      if (item == nullptr) continue;
      const double cost = item->cost(prices);
      for (const bool from : {false, true}) {
        for (size_t k = to ? 1 : 0; k <= n - i; ++k) {
          double& least = behind_n_[i][from][k];
          least = std::min(least, crossing(from, to) + cost + behind_n_[i + 1][to][k - (to ? 1 : 0)]);
        }
      }
    }
  }
  for (size_t i = 0; i <= n; ++i) {
    for (const bool from : {false, true}) behind_[i][from] = *std::ranges::min_element(behind_n_[i][from]);
  }
}

/// The number of layers on the device that costs least.
size_t ChoicePaths::cheapest_number() const {
  const std::vector<double>& costs = behind_n_.front()[chain_.begins_on_device];
  return static_cast<size_t>(std::ranges::min_element(costs) - costs.begin());
}

/// The cheapest path at these prices with so many layers on the device; empty: there is none. Remembered if
/// it is a solution, and a better one.
ChoicePath ChoicePaths::path_at(const Prices& prices, int number) {
  set_prices(prices);
  size_t k = number == kAnyNumber ? cheapest_number() : static_cast<size_t>(number);
  ChoicePath path;
  if (behind_n_.front()[chain_.begins_on_device][k] == kInfinity) return path;
  bool from = chain_.begins_on_device;
  for (size_t i = 0; i < n_layers(); ++i) {
    const auto through = [&](bool to) {
      if (chosen_[i][to] == nullptr || (to && k == 0)) return kInfinity;
      return crossing(from, to) + chosen_[i][to]->cost(prices) + behind_n_[i + 1][to][k - (to ? 1 : 0)];
    };
    const bool to = through(true) < through(false);
    const ChoiceItem& item = *chosen_[i][to];
    path.picks.push_back(item.index);
    path.vram += item.vram;
    path.ram += item.ram;
    path.seconds += item.seconds + crossing(from, to);
    from = to;
    if (to) --k;
  }
  path.seconds += crossing(from, chain_.ends_on_device);
  offer(path);
  return path;
}

void ChoicePaths::offer(const ChoicePath& path) {
  if (path.vram > chain_.vram || path.ram > chain_.ram) return;
  if (best_.empty() || path.seconds < best_.seconds) best_ = path;
  if (best_of_number_.empty() || path.seconds < best_of_number_.seconds) best_of_number_ = path;
}

double ChoicePaths::value(const ChoicePath& path, const Prices& prices) const {
  return path.seconds + prices.vram * static_cast<double>(path.vram - chain_.vram) +
         prices.ram * static_cast<double>(path.ram - chain_.ram);
}

/// The largest bound for this price of RAM, over all prices of VRAM: where the lines of a path over the
/// budget and of one within it meet, until no path is below both. Infinite: no path keeps the budget.
ChoicePaths::Dual ChoicePaths::best_vram_price(double ram_price, int number) {
  Prices prices{0, ram_price};
  const auto over_ram = [&](const ChoicePath& path) { return static_cast<double>(path.ram - chain_.ram); };
  ChoicePath over = path_at(prices, number);
  if (over.empty()) return {kInfinity, 0, prices};
  if (over.vram <= chain_.vram) return {value(over, prices), over_ram(over), prices};
  // A price at which VRAM is all that counts.
  double steep = 1;
  for (const std::vector<Choice>& options : chain_.layers) {
    double most = 0;
    for (const Choice& o : options) {
      most = std::max(most, o.seconds + ram_price * static_cast<double>(o.ram));
    }
    steep += most + chain_.crossing_seconds;
  }
  ChoicePath within = path_at({steep, ram_price}, number);
  if (within.vram > chain_.vram) return {kInfinity, 0, prices};
  for (int step = 0; step < kMaxSteps; ++step) {
    const double cost_over = over.seconds + ram_price * static_cast<double>(over.ram);
    const double cost_within = within.seconds + ram_price * static_cast<double>(within.ram);
    prices.vram = std::max(0.0, (cost_within - cost_over) / static_cast<double>(over.vram - within.vram));
    const ChoicePath path = path_at(prices, number);
    if (value(path, prices) >= value(within, prices) - kEqualCosts * cost_within) break;
    (path.vram > chain_.vram ? over : within) = path;
  }
  const double share =
      static_cast<double>(chain_.vram - within.vram) / static_cast<double>(over.vram - within.vram);
  set_prices(prices);
  return {dual_value(number), share * over_ram(over) + (1 - share) * over_ram(within), prices};
}

double ChoicePaths::dual_value(int number) const {
  const size_t k = number == kAnyNumber ? cheapest_number() : static_cast<size_t>(number);
  return behind_n_.front()[chain_.begins_on_device][k] - prices_.vram * static_cast<double>(chain_.vram) -
         prices_.ram * static_cast<double>(chain_.ram);
}

ChoicePaths::Dual ChoicePaths::best_dual(int number) {
  const Dual dual = best_vram_price(0, number);
  return ram_counts_ && dual.ram_over > 0 ? best_ram_price(dual, number) : dual;
}

/// The same over prices of RAM, from the one of zero on, at which RAM is over its budget.
ChoicePaths::Dual ChoicePaths::best_ram_price(Dual low, int number) {
  Dual best = low;
  const auto look = [&](double price) {
    const Dual dual = best_vram_price(price, number);
    if (dual.value > best.value) best = dual;
    return dual;
  };
  double unit = 0;
  for (const std::vector<Choice>& options : chain_.layers) {
    for (const Choice& o : options) unit = std::max(unit, o.seconds);
  }
  Dual high = low;
  double high_price = unit / static_cast<double>(std::max<int64_t>(chain_.ram, 1));
  for (int step = 0; step < kMaxSteps && high.ram_over > 0; ++step, high_price *= 2) {
    if (high.ram_over > 0 && step > 0) low = high;
    high = look(high_price);
  }
  for (int step = 0; step < kMaxSteps && low.ram_over > high.ram_over; ++step) {
    // Where the two tangents meet.
    const double price =
        (high.value - low.value + low.ram_over * low.prices.ram - high.ram_over * high.prices.ram) /
        (low.ram_over - high.ram_over);
    if (!(price > low.prices.ram && price < high.prices.ram)) break;
    const Dual dual = look(price);
    const double met = low.value + low.ram_over * (price - low.prices.ram);
    if (dual.value >= met - kEqualCosts * std::abs(met)) break;
    (dual.ram_over > 0 ? low : high) = dual;
  }
  return best;
}

}  // namespace hearth
