// One option for each of a row of layers: the least time under two budgets of bytes, with a charge wherever
// neighbours are on different sides. The mathematics of placement, without its meaning (solver.h).
//
// This is the multiple-choice knapsack problem (Kellerer, Pferschy, Pisinger, "Knapsack Problems", 2004,
// chapter 11) with two resources and a chain of sides. Solved in three steps:
//
//   1. Bound. For prices of the two resources every layer's options are compared by seconds + price * bytes,
//      and the sides are chosen by dynamic programming along the chain: a path, whose value less price *
//      budget is below every solution's. The prices that make it largest are found by intersecting the lines
//      of paths that are known (finite, no step size). The value is that of the linear program over paths,
//      hence at least that of any linear relaxation of the options.
//      A layer that comes to the device is a large step, which the relaxation takes in parts; so where it is
//      not close, it is made anew for each number of layers on the device, and the least of them is the
//      bound.
//   2. Solution. The best of the paths met that keeps the budgets, improved by exchanging single options.
//   3. Where the two are further apart than the tolerance: labels (bytes, seconds, side) layer by layer,
//   those
//      that others dominate or whose bound is not better than the solution left out. Exact while there is
//      room for all labels; else the most promising go on, and the bound of step 1 stands.
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
  int64_t vram = 0, ram = 0;                             // budgets
  double crossing_seconds = 0;                           // of each change of side
  bool begins_on_device = false, ends_on_device = true;  // what stands before the first, behind the last
};

struct ChosenChain {
  std::vector<int32_t> picks;  // [layers] index of the option
  double seconds = 0;          // with crossings
  double least_seconds = 0;    // no solution takes less; equal to seconds where that is proved
  bool proved = false;         // there is no better one
};

struct ChainLimits {
  double tolerance = 0;       // a solution within this share of the bound is good enough
  size_t max_labels = 20000;  // of a layer
};

/// nullopt: no choice keeps both budgets (or hardly one does, and there was no room to find it).
std::optional<ChosenChain> choose(const ChoiceChain& chain, const ChainLimits& limits);

/// Seconds of these picks, crossings included.
double seconds_of(const ChoiceChain& chain, const std::vector<int32_t>& picks);

}  // namespace hearth
