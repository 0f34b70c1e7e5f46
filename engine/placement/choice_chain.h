// Chooses one option for each layer of a chain, so that the total time is least under two byte budgets, with
// a charge wherever neighboring layers are on different sides. This file has the mathematics of placement
// only; solver.h gives it its meaning.
//
// This is the multiple-choice knapsack problem (Kellerer, Pferschy, Pisinger, "Knapsack Problems", 2004,
// chapter 11) with two resources and a chain of sides. It is solved in three steps:
//
// 1. Bound. For given prices of the two resources, every layer's options are compared by seconds + price *
//    bytes, and the sides are chosen by dynamic programming along the chain. The result is a path; its cost
//    less price * budget is a lower bound on the time of every solution. Intersecting the lines of known
//    paths gives the best prices (finite, no step size). The bound is that of the linear program over paths,
//    so it is at least as high as that of any linear relaxation of the options.
//    Moving a layer to the device is a large step, and the relaxation takes fractions of it. So where the
//    bound is not close, it is computed for each number of layers on the device, and the least is taken.
// 2. Solution. Take the best path that step 1 met within the budgets, and improve it by exchanging single
//    options.
// 3. Labels. If bound and solution are further apart than the tolerance, extend labels (bytes, seconds, side)
//    layer by layer. Drop labels that others dominate or whose bound is not better than the solution. This is
//    exact while there is room for all labels; otherwise only the most promising ones are kept, and the bound
//    of step 1 stands.
// 4. Filling. If they are still apart, fill the first solution's VRAM by exchanging the options that save
// most
//    for each byte, because layers that are alike all change at the same price.
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
  /// The sides before the first layer and after the last.
  bool begins_on_device = false, ends_on_device = true;
};

struct ChosenChain {
  std::vector<int32_t> picks;  // [layers] index of the chosen option
  double seconds = 0;          // time of this choice, crossings included
  double least_seconds = 0;    // lower bound for all choices; equal to seconds if that is proved
  bool proved = false;         // there is no better choice
};

struct ChainLimits {
  double tolerance = 0;       // a solution within this share of the bound is good enough
  size_t max_labels = 20000;  // kept for each layer
};

/// The best choice, or nullopt if no choice keeps both budgets (or so few do that max_labels was too small to
/// find one).
std::optional<ChosenChain> choose(const ChoiceChain& chain, const ChainLimits& limits);

/// The seconds of these picks, crossings included.
double seconds_of(const ChoiceChain& chain, const std::vector<int32_t>& picks);

}  // namespace hearth
