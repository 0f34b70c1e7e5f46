// Chooses one option for each layer of a chain, so that the total time is as short as two byte budgets allow.
// Every option is on one of two sides: on the device or not. Wherever neighboring layers are on different
// sides, a charge is added. This file contains only the mathematics of placement; solver.h applies it to
// models.
//
// This is the multiple-choice knapsack problem (Kellerer, Pferschy, Pisinger, "Knapsack Problems", 2004,
// chapter 11) with two resources and a chain of sides. It is solved in four steps:
//
// 1. Bound. For given prices of the two resources, every layer's options are compared by seconds + price *
//    bytes, and dynamic programming along the chain chooses the sides. The result is a path. Its cost minus
//    price * budget is a lower bound on the time of every solution. The best prices are found by intersecting
//    the lines of known paths. This takes finitely many steps, and no step size has to be chosen. The bound
//    equals that of the linear program over paths, so it is at least as high as the bound of any linear
//    relaxation of the options. Moving a layer to the device is a large step, but the relaxation can take a
//    fraction of it. So if the bound is not close, it is computed separately for each number of layers on the
//    device, and the lowest of these bounds is used.
// 2. Solution. Take the best path within the budgets that step 1 found, and improve it by exchanging single
//    options.
// 3. Labels. If bound and solution are further apart than the tolerance, extend labels (bytes, seconds, side)
//    layer by layer. Drop a label if another label dominates it or if its bound is not better than the
//    solution. The result is exact if there is room for all labels. Otherwise only the most promising labels
//    are kept, and the bound of step 1 remains.
// 4. Filling. If bound and solution are still further apart, fill the VRAM budget of the first solution by
//    exchanging the options that save the most time per byte. This helps if layers are alike, because then
//    all of them change their options at the same price.
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
  double crossing_seconds = 0;  // charge for each change of side
  /// Sides before the first layer and after the last layer.
  bool begins_on_device = false, ends_on_device = true;
};

struct ChosenChain {
  std::vector<int32_t> picks;  // [layers] index of the chosen option
  double seconds = 0;          // time of this choice, crossings included
  double least_seconds = 0;    // lower bound of the time of all choices; equal to seconds if `proved`
  bool proved = false;         // there is no better choice
};

struct ChainLimits {
  double tolerance = 0;       // a solution is good enough if it exceeds the bound by at most this share
  size_t max_labels = 20000;  // kept for each layer
};

/// Returns the best choice found, or nullopt if no choice keeps both budgets. If only very few choices keep
/// both budgets, the search may find none of them within max_labels and then also returns nullopt.
std::optional<ChosenChain> choose(const ChoiceChain& chain, const ChainLimits& limits);

/// The seconds of these picks, crossings included.
double seconds_of(const ChoiceChain& chain, const std::vector<int32_t>& picks);

}  // namespace hearth
