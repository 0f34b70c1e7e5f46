// Placement: decides which parts of a model are stored where, so that a token takes the least time.
//
// This follows PowerInfer (Song et al., SOSP'24, arXiv 2312.12456, section 6). Its integer program chooses
// neurons for the GPU by activation frequency, within the GPU's memory. One of its constraints is that a
// layer gets either no neurons on the GPU or enough of them to repay the synchronization. (The solver that
// its authors released omits that constraint.) Hearth differs as follows:
//
//   - The objective is seconds, not frequencies: each option's time on this machine (layer_options.h), with
//     the GPU and the CPU working at the same time, and with the hand-overs. So synchronization is charged
//     where it happens, which replaces the constraint "none or enough".
//   - Prompts count too. If a layer is left to the CPU, the CPU also computes this layer for prompts, which
//     makes prompts slower. So the placement for decoding is solved twice, once with and once without layers
//     on the CPU. Hearth uses the solution with the lower time for a decoded token plus its share of a prompt
//     (PlacementAssumptions::prompt_tokens).
//   - Not only neurons are placed, but also attention with its keys and values, gate rows (separately from
//     the other rows), and device rows of a neuron cache. RAM is a budget too. The profiler's plan solves the
//     placement for each mode and then chooses a mode.
//   - A layer's hot neurons are always its most active ones, because exchanging a neuron for a more active
//     neuron of the layer never takes more time or bytes. So a layer has hundreds of options instead of
//     2^d_ff, and the problem is a multiple-choice knapsack in a chain (choice_chain.h). It is solved within
//     0.1 % of a proven bound in a fraction of a second; PowerInfer's integer program over groups of neurons
//     took about ten seconds.
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
  // Neurons may be copied to the GPU while the model runs. Only predicted mode uses this.
  bool cache = true;
  // The GPU has either a whole layer or nothing of it. In a mixture, it has a layer with all experts, a layer
  // without its experts, or nothing of the layer.
  bool by_layers = false;
  // Allocate buffers through which the weights that the GPU does not hold are streamed to it for prompts.
  bool streams = true;
};

struct PlacementSolution {
  Sparsity mode = Sparsity::kDense;
  std::vector<LayerOption> layers = {};
  bool on_gpu = false;  // the GPU has at least a part of the model; if false, the CPU has all of it
  int64_t vram_bytes = 0, ram_bytes = 0;
  int64_t stream_bytes = 0;  // size of each of the two stream buffers, included in vram_bytes
  TokenWork work = {};       // work of one decoded token
  double least_seconds = 0;  // lower bound of work.seconds() for all placements in this mode
  // The share of all layers' activations that belongs to neurons on the device. In a mixture, the share of
  // the choices of experts that falls on experts on the device.
  double caught = 0;
  TokenWork prompt = {};         // the work for one prompt token, for mixtures of experts only
  double prefill_seconds = 0;    // time of one prompt token
  bool prefill_streams = false;  // prompts wait for PCIe more than for a processor

  double seconds() const { return work.seconds(); }
  int n_device_layers() const;
};

/// A tolerance that is much smaller than the error of any machine's figures, and large enough that models of
/// any size are solved quickly.
inline constexpr ChainLimits kPlacementLimits{.tolerance = 1e-3, .max_labels = 64};

/// The best placement, or nullopt if the model does not fit in the budgets. least_ram() and
/// ModelFacts::vram_least are the smallest budgets in which it would fit.
std::optional<PlacementSolution> solve_placement(const ModelFacts& facts, const CostModel& cost,
                                                 const PlacementBudgets& budgets,
                                                 const ChainLimits& limits = kPlacementLimits);

/// Returns the solution with its seconds recomputed from these costs. The lower bound least_seconds is 0.
PlacementSolution costed(const PlacementSolution& solution, const ModelFacts& facts, const CostModel& cost);

/// The least RAM that the model needs with this much VRAM (0: no GPU).
int64_t least_ram(const ModelFacts& facts, const CostModel& cost, int64_t vram_bytes);

}  // namespace hearth
