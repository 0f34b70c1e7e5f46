// What a model that runs has counted and what memory it holds, as plain numbers for those who watch it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace hearth {

/// Neurons of the FFN, summed over tokens and layers since the model was placed.
struct NeuronTotals {
  uint64_t n_all = 0;           // all that the tokens' layers have; of a mixture, their experts
  uint64_t n_active = 0;        // whose value was not zero
  uint64_t down_rows = 0;       // read from memory, once for the tokens of a step
  uint64_t cold_down_rows = 0;  // of those, by the CPU beside a device
};

/// Memory of one purpose. The words are of static storage.
struct MemoryShare {
  const char* place = "";  // "vram", "ram", "file" (mapped: the system keeps what is read)
  const char* purpose = "";
  uint64_t bytes = 0;
};

/// Totals since the Prefetcher was made. A bundle is a neuron's rows.
struct PrefetchCounters {
  // Neurons that steps wanted, by where their rows were: pinned on the device, in its neuron cache, with the CPU.
  int64_t hot = 0, cached = 0, cold = 0;
  int64_t moved = 0;           // bundles that were copied
  int64_t used = 0;            // bundles of `moved` that were wanted at least once while the device had them
  int64_t late = 0;            // bundles of `moved` that were wanted while they were still being copied
  int64_t evicted = 0;         // bundles of `moved` that have left the device again
  int64_t evicted_unused = 0;  // bundles of `evicted` that were never used
  int64_t bytes = 0;
  double copy_seconds = 0;  // time the link was copying
  /// The part of copy_seconds that was hidden behind compute: within a step, before the step reached the
  /// layer that the copied neurons are for. Copies after that, or between steps, are not hidden.
  double hidden_seconds = 0;
};

struct ModelFigures {
  NeuronTotals neurons;
  std::optional<PrefetchCounters> prefetch;  // since the model was placed; absent: nothing is copied ahead
  std::array<MemoryShare, 16> memory{};
  size_t n_memory = 0;  // entries of `memory` in use

  void add_memory(const char* place, const char* purpose, uint64_t bytes) {
    if (bytes > 0 && n_memory < memory.size()) memory[n_memory++] = {place, purpose, bytes};
  }
};

}  // namespace hearth
