// Implements the steps that choice_chain.h describes: bound, solution, labels and filling.
#include "engine/placement/choice_chain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace hearth {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Costs with a smaller relative difference count as equal. The rounding error of a sum of some hundred
/// doubles is smaller than this.
constexpr double kEqualCosts = 1e-11;
/// Means any number of layers on the device.
constexpr int kAnyNumber = -1;

/// The price of one byte of each resource, in seconds.
struct Prices {
  double vram = 0, ram = 0;
};

struct ChoiceItem {
  int64_t vram = 0, ram = 0;
  double seconds = 0;
  int32_t index = 0;  // index in the layer's options
  double cost(const Prices& prices) const {
    return seconds + prices.vram * static_cast<double>(vram) + prices.ram * static_cast<double>(ram);
  }
};

/// A layer's options, separately for each side. An option is left out if another option on its side is at
/// least as good in seconds and bytes.
using ChoiceSides = std::array<std::vector<ChoiceItem>, 2>;

struct ChoicePath {
  std::vector<int32_t> picks;
  int64_t vram = 0, ram = 0;
  double seconds = 0;
  bool empty() const { return picks.empty(); }
};

class ChoicePaths {
 public:
  /// `chain` must outlive this object and must have layers.
  explicit ChoicePaths(const ChoiceChain& chain);

  size_t n_layers() const { return layers_.size(); }
  const ChoiceSides& layer(size_t i) const { return layers_[i]; }
  /// Whether some choice of options takes more RAM than the RAM budget.
  bool ram_counts() const { return ram_counts_; }
  /// The fewest bytes that layers i and later take together.
  int64_t least_vram(size_t i) const { return least_vram_[i]; }
  int64_t least_ram(size_t i) const { return least_ram_[i]; }
  double crossing(bool from, bool to) const { return from == to ? 0 : chain_.crossing_seconds; }

  /// A bound, and the prices that give it. The bound is infinite if no path keeps the budgets.
  struct Dual {
    double value = 0;
    // The slope of the bound as a function of the price of RAM. A weighted mean of paths attains the bound;
    // the slope is the number of bytes by which this mean exceeds the RAM budget.
    double ram_over = 0;
    Prices prices;
  };
  /// Returns the largest bound, over all prices, for paths with `number` layers on the device. Every path
  /// that the search finds within the budgets is offered to best() and best_of_number().
  Dual best_dual(int number);

  /// Sets the prices at which the functions below compute costs.
  void set_prices(const Prices& prices);
  /// The least cost of layers i and later, if the layer before i is on side s.
  double behind(size_t i, bool s) const { return behind_[i][s ? 1 : 0]; }
  /// The bound at these prices.
  double dual_value(int number) const;

  const ChoicePath& best() const { return best_; }
  /// The best path offered since forget_best_of_number().
  const ChoicePath& best_of_number() const { return best_of_number_; }
  void forget_best_of_number() { best_of_number_ = {}; }
  /// Offers a path. The path is kept if it stays within the budgets and is faster than the best path so far.
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
  std::vector<std::array<double, 2>> behind_;  // [layers + 1]
  // [layers + 1][side][n]: like behind_, but with exactly n layers on the device.
  std::vector<std::array<std::vector<double>, 2>> behind_n_;
  std::vector<std::array<const ChoiceItem*, 2>> chosen_;
  ChoicePath best_, best_of_number_;
};

constexpr int kMaxSteps = 100;  // safety limit for searches that end after about ten steps

/// Keeps the items that no other item equals or beats in all values. The values are seconds, VRAM, and RAM if
/// `ram_counts`.
void keep_best(std::vector<ChoiceItem>& items, bool ram_counts) {
  std::ranges::sort(items, [](const ChoiceItem& a, const ChoiceItem& b) {
    if (a.vram != b.vram) return a.vram < b.vram;
    if (a.seconds != b.seconds) return a.seconds < b.seconds;
    return a.ram != b.ram ? a.ram < b.ram : a.index < b.index;
  });
  // Maps an amount of RAM to the fewest seconds of any item seen so far that needs at most this much RAM. The
  // items seen so far need no more VRAM than `item`. Seconds fall as RAM rises.
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
    if (cost < least) {  // the first of two equal items wins, because it needs no more VRAM
      least = cost;
      best = &item;
    }
  }
  return best;
}

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

/// For each number of layers on the device, there is a cheapest path. Returns the number whose cheapest path
/// costs least.
size_t ChoicePaths::cheapest_number() const {
  const std::vector<double>& costs = behind_n_.front()[chain_.begins_on_device];
  return static_cast<size_t>(std::ranges::min_element(costs) - costs.begin());
}

/// Returns the cheapest path at these prices with `number` layers on the device, or an empty path if there is
/// none. Also offers the path as a solution.
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

/// Returns the largest bound over all prices of VRAM, at the given price of RAM. As a function of the price
/// of VRAM, the cost of each path is a line. The bound is largest at the price at which the line of a path
/// over the VRAM budget meets the line of a path within this budget, and no path's line is below this point.
/// Infinite if no path keeps the VRAM budget.
ChoicePaths::Dual ChoicePaths::best_vram_price(double ram_price, int number) {
  Prices prices{0, ram_price};
  const auto over_ram = [&](const ChoicePath& path) { return static_cast<double>(path.ram - chain_.ram); };
  ChoicePath over = path_at(prices, number);
  if (over.empty()) return {kInfinity, 0, prices};
  if (over.vram <= chain_.vram) return {value(over, prices), over_ram(over), prices};
  // Find a price so high that only VRAM matters.
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

/// Returns the largest bound over all prices of both VRAM and RAM. low: the largest bound at RAM price 0,
/// where RAM exceeds its budget.
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
    // The price of RAM at which the tangents of the bound at `low` and `high` meet.
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

class Solver {
 public:
  Solver(const ChoiceChain& chain, const ChainLimits& limits)
      : chain_(chain), limits_(limits), paths_(chain) {}

  std::optional<ChosenChain> solve() {
    if (paths_.least_vram(0) > chain_.vram || paths_.least_ram(0) > chain_.ram) return std::nullopt;
    // 1. Find the bound and a solution.
    const ChoicePaths::Dual dual = paths_.best_dual(kAnyNumber);
    bound_ = dual.value;
    if (paths_.best().empty()) offer_least_ram();
    if (paths_.best().empty()) return std::nullopt;
    const ChoicePath first = paths_.best();
    best_ = improved(first);
    // 2. Find bound and solution separately for each number of layers on the device.
    prices_ = dual.prices;
    paths_.set_prices(prices_);
    if (apart()) tell_numbers_apart();
    // 3. If the bound and the solution still differ by more than the tolerance, extend labels.
    paths_.set_prices(prices_);
    const bool all_seen = apart() && label();
    // 4. If layers are alike, a change of prices changes the options of all layers at once. So fill the
    //    budget layer by layer instead.
    if (apart() && !first.empty()) {
      const ChoicePath filled = improved(improved(first, /*per_byte=*/true));
      if (filled.seconds < best_.seconds) best_ = filled;
    }
    ChosenChain out{.picks = best_.picks, .seconds = best_.seconds, .least_seconds = bound_};
    if (all_seen) out.least_seconds = std::max(bound_, best_.seconds - slack(limits_.tolerance));
    out.proved = out.least_seconds >= best_.seconds - slack(0);
    out.least_seconds = out.proved ? out.seconds : std::min(out.least_seconds, out.seconds);
    return out;
  }

 private:
  bool apart() const { return best_.seconds > bound_ + slack(limits_.tolerance); }
  double slack(double tolerance) const { return std::max(tolerance, kEqualCosts) * best_.seconds; }
  double crossing(bool from, bool to) const { return paths_.crossing(from, to); }
  size_t n_layers() const { return paths_.n_layers(); }

  /// Computes bound and solution for each number of layers on the device. Moving a layer with its attention
  /// to the device changes bytes and seconds more than any other exchange of options. The relaxation mixes
  /// paths with different numbers of layers on the device, so its bound may be far below every solution. For
  /// a fixed number, the bound is close.
  void tell_numbers_apart() {
    std::vector<std::pair<double, int>> numbers;
    for (int number = 0; number <= static_cast<int>(n_layers()); ++number) {
      numbers.emplace_back(paths_.dual_value(number), number);
    }
    std::ranges::sort(numbers);
    double bound = kInfinity;
    for (const auto& [least, number] : numbers) {
      if (least >= std::min(bound, best_.seconds - slack(limits_.tolerance))) {
        bound = std::min(bound, least);
        break;
      }
      paths_.forget_best_of_number();
      const ChoicePaths::Dual dual = paths_.best_dual(number);
      if (!paths_.best_of_number().empty()) {
        const ChoicePath own = improved(paths_.best_of_number());
        if (own.seconds < best_.seconds) best_ = own;
      }
      if (dual.value >= bound) continue;
      bound = dual.value;
      prices_ = dual.prices;
    }
    bound_ = std::max(bound_, std::min(bound, best_.seconds));
  }

  bool side_of(size_t layer, int32_t pick) const {
    return chain_.layers[layer][static_cast<size_t>(pick)].on_device;
  }

  /// Offers the path with the least RAM. This path is needed if very few paths keep both budgets, so that no
  /// prices lead to a solution.
  void offer_least_ram() {
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
    ChoicePath path{.picks = least->picks, .seconds = seconds_of(chain_, least->picks)};
    for (size_t i = 0; i < n_layers(); ++i) {
      const Choice& choice = chain_.layers[i][static_cast<size_t>(path.picks[i])];
      path.vram += choice.vram;
      path.ram += choice.ram;
    }
    paths_.offer(path);
  }

  /// Exchanges one option at a time until no exchange saves time. Each time, picks the exchange that saves
  /// the most seconds or, with per_byte, the most seconds per byte of VRAM.
  ChoicePath improved(ChoicePath path, bool per_byte = false) const {
    for (int step = 0; step < kMaxExchanges; ++step) {
      const double least = kEqualCosts * path.seconds;
      double most = 0;
      ChoicePath better;
      for (size_t i = 0; i < n_layers(); ++i) {
        const bool before = i == 0 ? chain_.begins_on_device : side_of(i - 1, path.picks[i - 1]);
        const bool after = i + 1 == n_layers() ? chain_.ends_on_device : side_of(i + 1, path.picks[i + 1]);
        const Choice& now = chain_.layers[i][static_cast<size_t>(path.picks[i])];
        const double here = now.seconds + crossing(before, now.on_device) + crossing(now.on_device, after);
        for (const bool side : {false, true}) {
          for (const ChoiceItem& item : paths_.layer(i)[side]) {
            const double saved = here - item.seconds - crossing(before, side) - crossing(side, after);
            const int64_t vram = path.vram - now.vram + item.vram, ram = path.ram - now.ram + item.ram;
            const auto more = static_cast<double>(std::max<int64_t>(item.vram - now.vram, 1));
            const double gain = per_byte ? saved / more : saved;
            if (saved <= least || gain <= most || vram > chain_.vram || ram > chain_.ram) continue;
            most = gain;
            better = {.picks = {item.index, static_cast<int32_t>(i)}, .vram = vram, .ram = ram};
          }
        }
      }
      if (better.empty()) break;
      path.picks[static_cast<size_t>(better.picks[1])] = better.picks[0];
      path.vram = better.vram;
      path.ram = better.ram;
      path.seconds = seconds_of(chain_, path.picks);
    }
    return path;
  }

  struct Label {
    int64_t vram = 0, ram = 0;
    double seconds = 0;
    double bound = 0;  // lower bound of the cost of all solutions that begin with this label's choices
    int32_t parent = -1, pick = -1;
    bool side = false;
  };

  /// Extends labels layer by layer. Returns true if it kept every label that could lead to a better solution
  /// than best_.
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
    ChoicePath path{
        .picks = std::vector<int32_t>(n_layers()), .vram = end->vram, .ram = end->ram, .seconds = least};
    for (size_t i = n_layers(); i > 0; end = &of_layer[--i][static_cast<size_t>(end->parent)]) {
      path.picks[i - 1] = end->pick;
    }
    best_ = path;
    return all;
  }

  /// Keeps as many labels as the limit allows. Returns true if it kept every useful label.
  bool keep_promising(std::vector<Label>& labels) const {
    keep_undominated(labels);
    if (labels.size() <= limits_.max_labels) return true;
    std::ranges::stable_sort(labels, {}, &Label::bound);
    labels.resize(limits_.max_labels);
    return false;
  }

  /// Extends each label by the layer's options. Returns true if it kept every useful label.
  bool expand(size_t layer, const std::vector<Label>& from, std::vector<Label>& to) const {
    bool all = true;
    const double cut = best_.seconds - slack(limits_.tolerance);
    const double budgets =
        prices_.vram * static_cast<double>(chain_.vram) + prices_.ram * static_cast<double>(chain_.ram);
    for (const bool side : {false, true}) {
      std::vector<ChoiceItem> items = paths_.layer(layer)[side];
      std::ranges::stable_sort(items, {}, [&](const ChoiceItem& item) { return item.cost(prices_); });
      for (size_t parent = 0; parent < from.size(); ++parent) {
        const Label& label = from[parent];
        const double so_far = label.seconds + prices_.vram * static_cast<double>(label.vram) +
                              prices_.ram * static_cast<double>(label.ram) + crossing(label.side, side) +
                              paths_.behind(layer + 1, side) - budgets;
        for (const ChoiceItem& item : items) {
          const double bound = so_far + item.cost(prices_);
          if (bound >= cut) break;
          if (label.vram + item.vram + paths_.least_vram(layer + 1) > chain_.vram ||
              label.ram + item.ram + paths_.least_ram(layer + 1) > chain_.ram) {
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
    std::array<std::map<int64_t, double>, 2> stairs;  // for each side, as in keep_best()
    std::vector<Label> kept;
    for (const Label& label : labels) {
      const int64_t ram = paths_.ram_counts() ? label.ram : 0;
      std::map<int64_t, double>& own = stairs[label.side ? 1 : 0];
      auto above = own.upper_bound(ram);
      if (above != own.begin() && std::prev(above)->second <= label.seconds) continue;
      while (above != own.end() && above->second >= label.seconds) above = own.erase(above);
      own[ram] = label.seconds;
      kept.push_back(label);
    }
    labels = std::move(kept);
  }

  static constexpr int kMaxExchanges = 200;  // a limit, because each exchange takes as long as finding a path

  const ChoiceChain& chain_;
  const ChainLimits& limits_;
  ChoicePaths paths_;
  Prices prices_;
  double bound_ = 0;
  ChoicePath best_;
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
