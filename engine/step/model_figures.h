// Counts and memory of a running model, as plain numbers for monitoring.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace hearth {

/// FFN neurons, summed over tokens and layers since the model was placed.
struct NeuronTotals {
  /// All neurons of the layers that tokens went through; in a mixture of experts, the neurons of the experts
  /// that the tokens chose.
  uint64_t n_all = 0;
  uint64_t n_active = 0;        // neurons with a nonzero value
  uint64_t down_rows = 0;       // down rows read from memory; counted once per step, not per token
  uint64_t cold_down_rows = 0;  // part of down_rows that the CPU read while a GPU read the other rows
};

/// Experts of a mixture, summed over tokens and layers since the model was placed.
struct ExpertTotals {
  uint64_t chosen = 0;    // pairs of a token and an expert that it uses
  uint64_t resident = 0;  // pairs of `chosen` that a GPU computed
};

/// Pairs of a token and an expert that it chose in one layer, since the model was placed. They are split by
/// the memory that held the expert.
struct LayerExpertTotals {
  int layer = 0;
  uint64_t vram = 0;
  uint64_t ram = 0;  // the CPU computed these pairs
  /// Pairs whose expert was copied to the GPU for its step, as in prompts. If the GPU does not report the
  /// choice in such a step, all pairs of the step count here, because it is not known where their experts
  /// were.
  uint64_t streamed = 0;
};

/// Exchanges of the experts that a GPU holds, since the model was placed.
struct ExchangeTotals {
  uint64_t experts = 0;  // copied to the GPU, each in exchange for another one
  uint64_t bytes = 0;    // of these copies
  /// Exchanges that were expected to save time but did not begin, because the link had copied enough for now
  /// or its buffers were full. An exchange counts again in each step that refuses it.
  uint64_t refused = 0;
};

/// Mixtures that were computed a second time, on the CPU alone, since the model was placed.
struct VerificationTotals {
  uint64_t layers = 0;      // summed over verified steps
  uint64_t mismatches = 0;  // layers of `layers` with a result that differed
};

/// Memory used for one purpose. The strings have static storage.
struct MemoryShare {
  const char* place = "";  // "vram", "ram", or "file" (pages of mapped files)
  const char* purpose = "";
  uint64_t bytes = 0;
};

/// Totals since the Prefetcher was created. A bundle is a neuron's rows.
struct PrefetchCounters {
  // Neurons that steps needed, counted by the place of their rows: permanently on the device (hot), in the
  // device's neuron cache (cached), or only in host memory for the CPU (cold).
  int64_t hot = 0, cached = 0, cold = 0;
  int64_t moved = 0;           // bundles copied
  int64_t used = 0;            // bundles of `moved` needed at least once while the device had them
  int64_t late = 0;            // bundles of `moved` needed while they were still being copied
  int64_t evicted = 0;         // bundles of `moved` that have left the device again
  int64_t evicted_unused = 0;  // bundles of `evicted` that were never used
  int64_t bytes = 0;
  double copy_seconds = 0;  // time the link was copying
  /// The part of copy_seconds hidden behind compute: copy time within a step, before the step reached the
  /// layer of the copied neurons. Later copies, and copies between steps, are not hidden.
  double hidden_seconds = 0;
};

struct ModelFigures {
  NeuronTotals neurons;
  ExpertTotals experts;
  /// One entry for each layer with experts, in order; empty if no mixture is on a GPU.
  std::vector<LayerExpertTotals> expert_layers;
  std::optional<ExchangeTotals> exchange;          // absent if no experts are exchanged
  std::optional<VerificationTotals> verification;  // absent if nothing is verified
  std::optional<PrefetchCounters> prefetch;  // since the model was placed; absent if nothing is prefetched
  std::array<MemoryShare, 16> memory{};
  size_t n_memory = 0;  // entries of `memory` in use

  void add_memory(const char* place, const char* purpose, uint64_t bytes) {
    if (bytes > 0 && n_memory < memory.size()) memory[n_memory++] = {place, purpose, bytes};
  }
};

}  // namespace hearth
