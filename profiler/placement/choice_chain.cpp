// See the header.
#include "profiler/placement/choice_chain.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

namespace hearth {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Costs closer than this, relatively, are the same: sums of some hundred doubles differ by less.
constexpr double kEqual = 1e-11;

/// What a byte of each resource costs, in seconds.
struct Prices {
  double vram = 0, ram = 0;
};

struct Item {
  int64_t vram = 0, ram = 0;
  double seconds = 0;
  int32_t index = 0;  // in the layer's options
  double cost(const Prices& prices) const {
    return seconds + prices.vram * static_cast<double>(vram) + prices.ram * static_cast<double>(ram);
  }
};

/// A layer's options by side, without those that another one beats in everything.
using Sides = std::array<std::vector<Item>, 2>;

struct Path {
  std::vector<int32_t> picks;
  int64_t vram = 0, ram = 0;
  double seconds = 0;
  bool empty() const { return picks.empty(); }
};

/// Leaves of `items` those that no other one equals or beats in all three. `ram_counts`: else two.
void keep_best(std::vector<Item>& items, bool ram_counts) {
  std::ranges::sort(items, [](const Item& a, const Item& b) {
    if (a.vram != b.vram) return a.vram < b.vram;
    if (a.seconds != b.seconds) return a.seconds < b.seconds;
    return a.ram != b.ram ? a.ram < b.ram : a.index < b.index;
  });
  // Of those that take no more VRAM: the least seconds for so much RAM or less, falling as RAM rises.
  std::map<int64_t, double> stairs;
  std::vector<Item> kept;
  for (const Item& item : items) {
    const int64_t ram = ram_counts ? item.ram : 0;
    auto above = stairs.upper_bound(ram);
    if (above != stairs.begin() && std::prev(above)->second <= item.seconds) continue;
    while (above != stairs.end() && above->second >= item.seconds) above = stairs.erase(above);
    stairs[ram] = item.seconds;
    kept.push_back(item);
  }
  items = std::move(kept);
}

class Solver {
 public:
  Solver(const ChoiceChain& chain, const ChainLimits& limits) : chain_(chain), limits_(limits) {
    int64_t most_ram = 0;
    for (const std::vector<Choice>& options : chain.layers) {
      int64_t most = 0;
      for (const Choice& option : options) most = std::max(most, option.ram);
      most_ram += most;
    }
    ram_counts_ = most_ram > chain.ram;
    for (const std::vector<Choice>& options : chain.layers) {
      Sides sides;
      for (size_t i = 0; i < options.size(); ++i) {
        const Choice& o = options[i];
        sides[o.on_device ? 1 : 0].push_back({o.vram, o.ram, o.seconds, static_cast<int32_t>(i)});
      }
      for (std::vector<Item>& items : sides) keep_best(items, ram_counts_);
      layers_.push_back(std::move(sides));
    }
    least_behind();
  }

  std::optional<ChosenChain> solve() {
    if (least_vram_.front() > chain_.vram || least_ram_.front() > chain_.ram) return std::nullopt;
    // 1. The bound, and a solution.
    const Dual dual = best_dual(kAnyNumber);
    bound_ = dual.value;
    if (best_.empty()) take_least_ram();
    if (best_.empty()) return std::nullopt;
    improve(best_);
    // 2. Both for each number of layers on the device.
    prices_ = dual.prices;
    costs_behind(prices_);
    if (apart()) tell_numbers_apart();
    // 3. Both together.
    costs_behind(prices_);
    const bool all_seen = apart() && label();
    ChosenChain out{.picks = best_.picks, .seconds = best_.seconds, .least_seconds = bound_};
    if (all_seen) out.least_seconds = std::max(bound_, best_.seconds - slack(limits_.tolerance));
    out.proved = out.least_seconds >= best_.seconds - slack(0);
    out.least_seconds = out.proved ? out.seconds : std::min(out.least_seconds, out.seconds);
    return out;
  }

 private:
  static constexpr int kAnyNumber = -1;  // of layers on the device

  bool apart() const { return best_.seconds > bound_ + slack(limits_.tolerance); }
  double slack(double tolerance) const { return std::max(tolerance, kEqual) * best_.seconds; }
  double crossing(bool from, bool to) const { return from == to ? 0 : chain_.crossing_seconds; }
  size_t n_layers() const { return layers_.size(); }
  bool fits(const Path& path) const { return path.vram <= chain_.vram && path.ram <= chain_.ram; }
  double value(const Path& path, const Prices& prices) const {
    return path.seconds + prices.vram * static_cast<double>(path.vram - chain_.vram) +
           prices.ram * static_cast<double>(path.ram - chain_.ram);
  }

  /// The least bytes of layers i.. .
  void least_behind() {
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

  static const Item* cheapest(const std::vector<Item>& items, const Prices& prices) {
    const Item* best = nullptr;
    double least = kInfinity;
    for (const Item& item : items) {
      const double cost = item.cost(prices);
      if (cost < least) {  // of equals the one with less VRAM, which comes first
        least = cost;
        best = &item;
      }
    }
    return best;
  }

  /// The least that layers i.. cost at these prices, where what stands before is on side s: behind_[i][s];
  /// with n of them on the device: behind_n_[i][s][n].
  void costs_behind(const Prices& prices) {
    const size_t n = n_layers();
    behind_.assign(n + 1, {kInfinity, kInfinity});
    behind_n_.assign(n + 1, {});
    for (auto& sides : behind_n_) sides.fill(std::vector<double>(n + 1, kInfinity));
    chosen_.assign(n, {});
    for (const bool from : {false, true}) behind_n_[n][from][0] = crossing(from, chain_.ends_on_device);
    for (size_t i = n; i-- > 0;) {
      for (const bool to : {false, true}) {
        const Item* item = chosen_[i][to] = cheapest(layers_[i][to], prices);
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
  size_t cheapest_number() const {
    const std::vector<double>& costs = behind_n_.front()[chain_.begins_on_device];
    return static_cast<size_t>(std::ranges::min_element(costs) - costs.begin());
  }

  /// The cheapest path at these prices with so many layers on the device; empty: there is none. Remembered if
  /// it is a solution, and a better one.
  Path path_at(const Prices& prices, int number) {
    costs_behind(prices);
    size_t k = number == kAnyNumber ? cheapest_number() : static_cast<size_t>(number);
    Path path;
    if (behind_n_.front()[chain_.begins_on_device][k] == kInfinity) return path;
    bool from = chain_.begins_on_device;
    for (size_t i = 0; i < n_layers(); ++i) {
      const auto through = [&](bool to) {
        if (chosen_[i][to] == nullptr || (to && k == 0)) return kInfinity;
        return crossing(from, to) + chosen_[i][to]->cost(prices) + behind_n_[i + 1][to][k - (to ? 1 : 0)];
      };
      const bool to = through(true) < through(false);
      const Item& item = *chosen_[i][to];
      path.picks.push_back(item.index);
      path.vram += item.vram;
      path.ram += item.ram;
      path.seconds += item.seconds + crossing(from, to);
      from = to;
      if (to) --k;
    }
    path.seconds += crossing(from, chain_.ends_on_device);
    take(path);
    return path;
  }

  void take(const Path& path) {
    if (!fits(path)) return;
    if (best_.empty() || path.seconds < best_.seconds) best_ = path;
    if (best_of_number_.empty() || path.seconds < best_of_number_.seconds) best_of_number_ = path;
  }

  /// What is known of the dual function at a price of RAM.
  struct Dual {
    double value = -kInfinity;
    double ram_over = 0;  // its slope: RAM over the budget, of the mixture of paths that attains it
    Prices prices;
  };

  /// The largest bound for this price of RAM, over all prices of VRAM: where the lines of a path over the
  /// budget and of one within it meet, until no path is below both. Infinite: no path keeps the budget.
  Dual best_vram_price(double ram_price, int number) {
    Prices prices{0, ram_price};
    const auto over_ram = [&](const Path& path) { return static_cast<double>(path.ram - chain_.ram); };
    Path over = path_at(prices, number);
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
    Path within = path_at({steep, ram_price}, number);
    if (within.vram > chain_.vram) return {kInfinity, 0, prices};
    for (int step = 0; step < kMaxSteps; ++step) {
      const double cost_over = over.seconds + ram_price * static_cast<double>(over.ram);
      const double cost_within = within.seconds + ram_price * static_cast<double>(within.ram);
      prices.vram = std::max(0.0, (cost_within - cost_over) / static_cast<double>(over.vram - within.vram));
      const Path path = path_at(prices, number);
      if (value(path, prices) >= value(within, prices) - kEqual * cost_within) break;
      (path.vram > chain_.vram ? over : within) = path;
    }
    const double share =
        static_cast<double>(chain_.vram - within.vram) / static_cast<double>(over.vram - within.vram);
    costs_behind(prices);
    return {dual_value(prices, number), share * over_ram(over) + (1 - share) * over_ram(within), prices};
  }

  /// The bound at prices whose costs are known.
  double dual_value(const Prices& prices, int number) const {
    const size_t k = number == kAnyNumber ? cheapest_number() : static_cast<size_t>(number);
    return behind_n_.front()[chain_.begins_on_device][k] - prices.vram * static_cast<double>(chain_.vram) -
           prices.ram * static_cast<double>(chain_.ram);
  }

  /// The largest bound over all prices.
  Dual best_dual(int number) {
    const Dual dual = best_vram_price(0, number);
    return ram_counts_ && dual.ram_over > 0 ? best_ram_price(dual, number) : dual;
  }

  /// A layer comes to the device with its attention or not at all, the largest steps there are: the
  /// relaxation mixes numbers of layers, and is far below every solution. With each number apart it is close.
  void tell_numbers_apart() {
    std::vector<std::pair<double, int>> numbers;
    for (int number = 0; number <= static_cast<int>(n_layers()); ++number) {
      numbers.emplace_back(dual_value(prices_, number), number);
    }
    std::ranges::sort(numbers);
    double bound = kInfinity;
    for (const auto& [least, number] : numbers) {
      if (least >= std::min(bound, best_.seconds - slack(limits_.tolerance))) {
        bound = std::min(bound, least);
        break;
      }
      best_of_number_ = {};
      const Dual dual = best_dual(number);
      if (!best_of_number_.empty()) {
        Path own = best_of_number_;
        improve(own);
        take(own);
      }
      if (dual.value >= bound) continue;
      bound = dual.value;
      prices_ = dual.prices;
    }
    bound_ = std::max(bound_, std::min(bound, best_.seconds));
  }

  /// The same over prices of RAM, from the one of zero on, at which RAM is over its budget.
  Dual best_ram_price(Dual low, int number) {
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
      if (dual.value >= met - kEqual * std::abs(met)) break;
      (dual.ram_over > 0 ? low : high) = dual;
    }
    return best;
  }

  bool side_of(size_t layer, int32_t pick) const {
    return chain_.layers[layer][static_cast<size_t>(pick)].on_device;
  }

  /// Where the prices lead to no solution, because hardly any keeps both budgets: the one with the least RAM.
  void take_least_ram() {
    ChoiceChain ram_only = chain_;
    for (std::vector<Choice>& options : ram_only.layers) {
      for (Choice& option : options) {
        option.seconds = static_cast<double>(option.ram);
        option.ram = 0;
      }
    }
    ram_only.crossing_seconds = 0;
    const std::optional<ChosenChain> least = choose(ram_only, {0, limits_.max_labels});
    if (!least) return;
    Path path{.picks = least->picks, .seconds = seconds_of(chain_, least->picks)};
    for (size_t i = 0; i < n_layers(); ++i) {
      const Choice& choice = chain_.layers[i][static_cast<size_t>(path.picks[i])];
      path.vram += choice.vram;
      path.ram += choice.ram;
    }
    take(path);
  }

  /// Exchanges one option at a time, the one that saves most, while any saves.
  void improve(Path& path) const {
    for (int step = 0; step < kMaxExchanges; ++step) {
      double most = kEqual * path.seconds;
      Path better;
      for (size_t i = 0; i < n_layers(); ++i) {
        const bool before = i == 0 ? chain_.begins_on_device : side_of(i - 1, path.picks[i - 1]);
        const bool after = i + 1 == n_layers() ? chain_.ends_on_device : side_of(i + 1, path.picks[i + 1]);
        const Choice& now = chain_.layers[i][static_cast<size_t>(path.picks[i])];
        const double here = now.seconds + crossing(before, now.on_device) + crossing(now.on_device, after);
        for (const bool side : {false, true}) {
          for (const Item& item : layers_[i][side]) {
            const double saved = here - item.seconds - crossing(before, side) - crossing(side, after);
            const int64_t vram = path.vram - now.vram + item.vram, ram = path.ram - now.ram + item.ram;
            if (saved <= most || vram > chain_.vram || ram > chain_.ram) continue;
            most = saved;
            better = {.picks = {item.index, static_cast<int32_t>(i)}, .vram = vram, .ram = ram};
          }
        }
      }
      if (better.empty()) return;
      path.picks[static_cast<size_t>(better.picks[1])] = better.picks[0];
      path.vram = better.vram;
      path.ram = better.ram;
      path.seconds = seconds_of(chain_, path.picks);
    }
  }

  struct Label {
    int64_t vram = 0, ram = 0;
    double seconds = 0;
    double bound = 0;  // of every solution that begins so
    int32_t parent = -1, pick = -1;
    bool side = false;
  };

  /// Whether every solution that may be better than the best one was looked at.
  bool label() {
    std::vector<std::vector<Label>> of_layer(n_layers() + 1);
    Label root{.side = chain_.begins_on_device};
    of_layer.front().push_back(root);
    bool all = true;
    for (size_t i = 0; i < n_layers(); ++i) {
      all &= expand(i, of_layer[i], of_layer[i + 1]);
      all &= keep_promising(of_layer[i + 1]);
    }
    const Label* end = nullptr;
    double least = best_.seconds;
    for (const Label& last : of_layer.back()) {
      const double seconds = last.seconds + crossing(last.side, chain_.ends_on_device);
      if (seconds < least) {
        least = seconds;
        end = &last;
      }
    }
    if (end == nullptr) return all;
    Path path{
        .picks = std::vector<int32_t>(n_layers()), .vram = end->vram, .ram = end->ram, .seconds = least};
    for (size_t i = n_layers(); i > 0; end = &of_layer[--i][static_cast<size_t>(end->parent)]) {
      path.picks[i - 1] = end->pick;
    }
    best_ = path;
    return all;
  }

  /// Leaves as many as there is room for. Whether none is missing that may be of use.
  bool keep_promising(std::vector<Label>& labels) const {
    keep_undominated(labels);
    if (labels.size() <= limits_.max_labels) return true;
    std::ranges::stable_sort(labels, {}, &Label::bound);
    labels.resize(limits_.max_labels);
    return false;
  }

  /// Whether none is missing that may be of use.
  bool expand(size_t layer, const std::vector<Label>& from, std::vector<Label>& to) const {
    bool all = true;
    const double cut = best_.seconds - slack(limits_.tolerance);
    const double budgets =
        prices_.vram * static_cast<double>(chain_.vram) + prices_.ram * static_cast<double>(chain_.ram);
    for (const bool side : {false, true}) {
      std::vector<Item> items = layers_[layer][side];
      std::ranges::stable_sort(items, {}, [&](const Item& item) { return item.cost(prices_); });
      for (size_t parent = 0; parent < from.size(); ++parent) {
        const Label& label = from[parent];
        const double so_far = label.seconds + prices_.vram * static_cast<double>(label.vram) +
                              prices_.ram * static_cast<double>(label.ram) + crossing(label.side, side) +
                              behind_[layer + 1][side] - budgets;
        for (const Item& item : items) {
          const double bound = so_far + item.cost(prices_);
          if (bound >= cut) break;
          if (label.vram + item.vram + least_vram_[layer + 1] > chain_.vram ||
              label.ram + item.ram + least_ram_[layer + 1] > chain_.ram) {
            continue;
          }
          to.push_back({.vram = label.vram + item.vram,
                        .ram = label.ram + item.ram,
                        .seconds = label.seconds + crossing(label.side, side) + item.seconds,
                        .bound = bound,
                        .parent = static_cast<int32_t>(parent),
                        .pick = item.index,
                        .side = side});
        }
        if (to.size() > 8 * limits_.max_labels) all &= keep_promising(to);
      }
    }
    return all;
  }

  void keep_undominated(std::vector<Label>& labels) const {
    std::ranges::stable_sort(labels, [](const Label& a, const Label& b) {
      if (a.vram != b.vram) return a.vram < b.vram;
      return a.seconds != b.seconds ? a.seconds < b.seconds : a.ram < b.ram;
    });
    std::array<std::map<int64_t, double>, 2> stairs;  // as in keep_best, of each side
    std::vector<Label> kept;
    for (const Label& label : labels) {
      const int64_t ram = ram_counts_ ? label.ram : 0;
      std::map<int64_t, double>& own = stairs[label.side ? 1 : 0];
      auto above = own.upper_bound(ram);
      if (above != own.begin() && std::prev(above)->second <= label.seconds) continue;
      while (above != own.end() && above->second >= label.seconds) above = own.erase(above);
      own[ram] = label.seconds;
      kept.push_back(label);
    }
    labels = std::move(kept);
  }

  static constexpr int kMaxSteps = 100;      // of searches that end by themselves after some ten
  static constexpr int kMaxExchanges = 200;  // each takes as long as a path

  const ChoiceChain& chain_;
  const ChainLimits& limits_;
  bool ram_counts_ = false;  // some choice of options takes more than the budget
  std::vector<Sides> layers_;
  std::vector<int64_t> least_vram_, least_ram_;  // [layers + 1]
  std::vector<std::array<double, 2>> behind_;
  std::vector<std::array<std::vector<double>, 2>> behind_n_;
  std::vector<std::array<const Item*, 2>> chosen_;
  Prices prices_;
  double bound_ = 0;
  Path best_, best_of_number_;
};

}  // namespace

std::optional<ChosenChain> choose(const ChoiceChain& chain, const ChainLimits& limits) {
  if (chain.layers.empty()) {
    const double seconds = seconds_of(chain, {});
    return ChosenChain{.picks = {}, .seconds = seconds, .least_seconds = seconds, .proved = true};
  }
  return Solver(chain, limits).solve();
}

double seconds_of(const ChoiceChain& chain, const std::vector<int32_t>& picks) {
  double seconds = 0;
  bool side = chain.begins_on_device;
  const auto go = [&](bool to) {
    if (side != to) seconds += chain.crossing_seconds;
    side = to;
  };
  for (size_t i = 0; i < picks.size(); ++i) {
    const Choice& choice = chain.layers[i][static_cast<size_t>(picks[i])];
    go(choice.on_device);
    seconds += choice.seconds;
  }
  go(chain.ends_on_device);
  return seconds;
}

}  // namespace hearth
