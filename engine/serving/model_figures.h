// What a model that runs has counted and what memory it holds, as plain numbers for those who watch it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth {

/// Neurons of the FFN, summed over tokens and layers since the model was placed.
struct NeuronTotals {
  uint64_t n_all = 0;           // all that the tokens' layers have; of a mixture, their experts
  uint64_t n_active = 0;        // whose value was not zero
  uint64_t down_rows = 0;       // read from memory, once for the tokens of a step
  uint64_t cold_down_rows = 0;  // of those, by the CPU beside a device
};

/// Neurons that a device lacks and gets while the model runs, since it was placed (engine/residency/prefetcher.h).
struct PrefetchTotals {
  // Neurons that steps wanted, by where their rows were: pinned on the device, in its neuron cache, with the CPU.
  uint64_t n_hot = 0, n_cached = 0, n_cold = 0;
  uint64_t n_moved = 0, n_used = 0,
           n_late = 0;  // copied to the device; of those: wanted there; wanted before they had come
  uint64_t bytes = 0;   // over PCIe
  double copy_seconds = 0, hidden_seconds = 0;  // of copying; of those, while the device computed
};

/// Memory of one purpose. The words are of static storage.
struct MemoryShare {
  const char* place = "";  // "vram", "ram", "file" (mapped: the system keeps what is read)
  const char* purpose = "";
  uint64_t bytes = 0;
};

struct ModelFigures {
  NeuronTotals neurons;
  bool prefetches = false;
  PrefetchTotals prefetch;
  std::array<MemoryShare, 16> memory{};
  size_t n_memory = 0;  // entries of `memory` in use

  void add_memory(const char* place, const char* purpose, uint64_t bytes) {
    if (bytes > 0 && n_memory < memory.size()) memory[n_memory++] = {place, purpose, bytes};
  }
};

}  // namespace hearth
