// Placement: what of a model lives where, so that a decoded token takes the least time.
//
// After PowerInfer (Song et al., SOSP'24, arXiv 2312.12456, section 6), whose integer program chooses neurons
// for the GPU by activation frequency, under its memory and under the constraint that a layer gets no neurons
// or so many that they repay the synchronisation. (The solver they released leaves that constraint out.) What
// differs:
//
//   - The objective is seconds, not frequencies: each option's time on this machine (layer_options.h), GPU
//   and CPU at
//     the same time, with the hand-overs. So synchronisation is charged where it happens, and "none or
//     enough" follows.
//   - Not only neurons: attention with its keys and values, gates apart from other rows, places for neurons
//   that
//     come and go; the mode is chosen by solving each. RAM is a budget too.
//   - A layer's hot neurons are a prefix of its order by activity: exchanging a neuron for a more active one
//   of the
//     layer never takes more time or bytes. So a layer has hundreds of options instead of 2^d_ff, and the
//     problem is a multiple-choice knapsack in a chain (choice_chain.h), solved within 0.01 % of a proven
//     bound in a fraction of a second, where an integer program over groups of neurons took theirs some ten
//     seconds.
//
// Deterministic; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "profiler/placement/layer_options.h"

namespace hearth {

struct PlacementBudgets {
  int64_t vram_bytes = 0;
  int64_t ram_bytes = 0;
  bool cache = true;    // neurons may be brought while the model runs
  bool streams = true;  // buffers are taken through which cold neurons of prompts go
};

struct PlacementSolution {
  Sparsity mode = Sparsity::kDense;
  std::vector<LayerOption> layers = {};
  bool on_gpu = false;  // something is; else the CPU has it all
  int64_t vram_bytes = 0, ram_bytes = 0;
  int64_t stream_bytes = 0;    // of each of two buffers for prompts, contained in vram_bytes
  TokenWork work = {};         // of a decoded token
  double least_seconds = 0;    // no placement of this mode takes less; work.seconds() is what this one takes
  double caught = 0;           // share of the activations of all layers whose neurons are on the device
  double prefill_seconds = 0;  // of one prompt token
  bool prefill_streams = false;  // PCIe is what a prompt waits for

  double seconds() const { return work.seconds(); }
  int n_device_layers() const;
};

/// Far closer than any figure of a machine is known, and quick for models of any size.
inline constexpr ChainLimits kPlacementLimits{.tolerance = 1e-3, .max_labels = 16};

/// nullopt: the budgets do not hold the model; least_ram() and ModelFacts::vram_least say what would.
std::optional<PlacementSolution> solve_placement(const ModelFacts& facts, const CostModel& cost,
                                                 const PlacementBudgets& budgets,
                                                 const ChainLimits& limits = kPlacementLimits);

/// The least RAM that the model takes beside so much VRAM (0: no GPU).
int64_t least_ram(const ModelFacts& facts, const CostModel& cost, int64_t vram_bytes);

}  // namespace hearth
