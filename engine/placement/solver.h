// Placement: which parts of a model lie where, so that a token takes the least time.
//
// This follows PowerInfer (Song et al., SOSP'24, arXiv 2312.12456, section 6). Its integer program chooses
// neurons for the GPU by activation frequency, within the GPU's memory and under the constraint that a layer
// gets either no neurons or enough to repay the synchronization. (The solver they released leaves that
// constraint out.) The differences:
//
//   - The objective is seconds, not frequencies: each option's time on this machine (layer_options.h), with
//     the GPU and the CPU working at the same time, and with the hand-overs. So synchronization is charged
//     where it happens, and "none or enough" follows.
//   - Prompts count too. The chain is solved for decoding, once with layers that are left to the CPU and once
//     without, because the CPU computes prompts in such layers. The faster of the two is taken, by the time
//     of a decoded token and its share of a prompt (PlacementAssumptions::prompt_tokens).
//   - More than neurons is placed: attention with its keys and values, gates apart from other rows, device
//     rows for neurons that come and go. The mode is chosen by solving for each. RAM is a budget too.
//   - A layer's hot neurons are a prefix of its neurons in order of activity, because exchanging a neuron for
//     a more active one of the layer never takes more time or bytes. So a layer has hundreds of options
//     instead of 2^d_ff, and the problem is a multiple-choice knapsack in a chain (choice_chain.h). It is
//     solved within 0.1 % of a proven bound in a fraction of a second; PowerInfer's integer program over
//     groups of neurons took about ten seconds.
//
// Deterministic; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/placement/layer_options.h"

namespace hearth {

struct PlacementBudgets {
  int64_t vram_bytes = 0;
  int64_t ram_bytes = 0;
  bool cache = true;       // neurons may be brought while the model runs; only predicted mode uses this
  bool by_layers = false;  // the GPU has a whole layer or nothing of it; in a mixture, all of a layer's
                           // experts or none, beside its attention
  bool streams = true;     // allocate buffers through which the rest is streamed to the GPU for prompts
};

struct PlacementSolution {
  Sparsity mode = Sparsity::kDense;
  std::vector<LayerOption> layers = {};
  bool on_gpu = false;  // the GPU has at least a part of the model; false: the CPU has all
  int64_t vram_bytes = 0, ram_bytes = 0;
  int64_t stream_bytes = 0;  // size of each of two buffers for prompts, included in vram_bytes
  TokenWork work = {};       // work of one decoded token
  double least_seconds = 0;  // lower bound of work.seconds() for all placements in this mode
  double caught = 0;  // share of all layers' activations (choices) whose neurons (experts) are on the device
  TokenWork prompt = {};         // work of one prompt token, for mixtures of experts only
  double prefill_seconds = 0;    // time of one prompt token
  bool prefill_streams = false;  // PCIe is what prompts wait for most

  double seconds() const { return work.seconds(); }
  int n_device_layers() const;
};

/// A tolerance much smaller than the error of any machine's figures, and quick for models of any size.
inline constexpr ChainLimits kPlacementLimits{.tolerance = 1e-3, .max_labels = 64};

/// The best placement, or nullopt if the budgets do not hold the model; least_ram() and
/// ModelFacts::vram_least tell the smallest budgets that would.
std::optional<PlacementSolution> solve_placement(const ModelFacts& facts, const CostModel& cost,
                                                 const PlacementBudgets& budgets,
                                                 const ChainLimits& limits = kPlacementLimits);

/// The solution with its seconds by these costs, without a bound.
PlacementSolution costed(const PlacementSolution& solution, const ModelFacts& facts, const CostModel& cost);

/// The least RAM that the model needs with this much VRAM (0: no GPU).
int64_t least_ram(const ModelFacts& facts, const CostModel& cost, int64_t vram_bytes);

}  // namespace hearth
