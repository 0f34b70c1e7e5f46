// Chooses one option for each of a row of layers: the least time under two budgets of bytes, with a charge
// wherever neighbours are on different sides. The mathematics of placement, without its meaning (solver.h).
//
// This is the multiple-choice knapsack problem (Kellerer, Pferschy, Pisinger, "Knapsack Problems", 2004,
// chapter 11) with two resources and a chain of sides. Solved in three steps:
//
// 1. Bound. For given prices of the two resources, every layer's options are compared by seconds + price *
//    bytes, and the sides are chosen by dynamic programming along the chain. The result is a path, whose
//    value less price * budget is below every solution's. The best prices are found by intersecting the lines
//    of known paths (finite, no step size). The value is that of the linear program over paths, hence at
//    least that of any linear relaxation of the options.
//    A layer that moves to the device is a large step, which the relaxation takes in parts. So where the
//    bound is not close, it is computed for each number of layers on the device, and the least is taken.
// 2. Solution. The best path met that keeps the budgets, improved by exchanging single options.
// 3. If the two are further apart than the tolerance: labels (bytes, seconds, side), layer by layer. Labels
//    that others dominate, or whose bound is not better than the solution, are left out. Exact while there is
//    room for all labels; otherwise the most promising ones are kept, and the bound of step 1 stands.
//
// Deterministic; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace hearth {

struct Choice {
  int64_t vram = 0, ram = 0;  // bytes, >= 0
  double seconds = 0;         // >= 0
  bool on_device = false;     // the side
};

struct ChoiceChain {
  std::vector<std::vector<Choice>> layers;
  int64_t vram = 0, ram = 0;    // budgets
  double crossing_seconds = 0;  // of each change of side
  /// The sides before the first layer and behind the last.
  bool begins_on_device = false, ends_on_device = true;
};

struct ChosenChain {
  std::vector<int32_t> picks;  // [layers] index of the chosen option
  double seconds = 0;          // of the choice, crossings included
  double least_seconds = 0;    // no solution takes less; equal to seconds where that is proved
  bool proved = false;         // there is no better one
};

struct ChainLimits {
  double tolerance = 0;       // a solution within this share of the bound is good enough
  size_t max_labels = 20000;  // of a layer
};

/// The best choice; nullopt if no choice keeps both budgets (or hardly one does, and there was no room to
/// find it).
std::optional<ChosenChain> choose(const ChoiceChain& chain, const ChainLimits& limits);

/// The seconds of these picks, crossings included.
double seconds_of(const ChoiceChain& chain, const std::vector<int32_t>& picks);

}  // namespace hearth
