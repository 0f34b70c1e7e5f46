// What a model that runs has counted and what memory it holds, as plain numbers for those who watch it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/residency/prefetch_counters.h"

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
