// See the header.
#include "profiler/placement/choice_chain.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include "profiler/placement/choice_paths.h"

namespace hearth {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Solver {
 public:
  Solver(const ChoiceChain& chain, const ChainLimits& limits)
      : chain_(chain), limits_(limits), paths_(chain) {}

  std::optional<ChosenChain> solve() {
    if (paths_.least_vram(0) > chain_.vram || paths_.least_ram(0) > chain_.ram) return std::nullopt;
    // 1. The bound, and a solution.
    const ChoicePaths::Dual dual = paths_.best_dual(kAnyNumber);
    bound_ = dual.value;
    if (paths_.best().empty()) offer_least_ram();
    if (paths_.best().empty()) return std::nullopt;
    best_ = improved(paths_.best());
    // 2. Both for each number of layers on the device.
    prices_ = dual.prices;
    paths_.set_prices(prices_);
    if (apart()) tell_numbers_apart();
    // 3. Both together.
    paths_.set_prices(prices_);
    const bool all_seen = apart() && label();
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

  /// A layer comes to the device with its attention or not at all, the largest steps there are: the
  /// relaxation mixes numbers of layers, and is far below every solution. With each number apart it is close.
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

  /// Where the prices lead to no solution, because hardly any keeps both budgets: the one with the least RAM.
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

  /// One option exchanged at a time, the one that saves most, while any saves.
  ChoicePath improved(ChoicePath path) const {
    for (int step = 0; step < kMaxExchanges; ++step) {
      double most = kEqualCosts * path.seconds;
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
            if (saved <= most || vram > chain_.vram || ram > chain_.ram) continue;
            most = saved;
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
    ChoicePath path{
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
    std::array<std::map<int64_t, double>, 2> stairs;  // as in choice_paths.cpp, of each side
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

  static constexpr int kMaxExchanges = 200;  // each takes as long as a path

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
