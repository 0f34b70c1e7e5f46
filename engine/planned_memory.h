// Computes the host memory that a model will take, before it is loaded.
//
// hearthd compares this memory with its budget before it loads one of several models. No weights are read, so
// the call takes milliseconds. Any thread; not while the options' file is being loaded.
#pragma once

#include <cstdint>

#include "engine/load_options.h"

namespace hearth {

struct PlannedMemory {
  uint64_t file_bytes = 0;      // pages of the model's files
  uint64_t reserved_bytes = 0;  // keys, values, states, work space, and copied neurons
  uint64_t own_bytes = 0;       // vocabulary, threads, and the engine's tables: an estimate

  uint64_t total() const { return file_bytes + reserved_bytes + own_bytes; }
};

/// Returns an upper limit of the memory that ModelRuntime::load(options) will take. Neurons that are copied
/// to bundles count twice, because their file pages are freed only during the load; with a GPU, the GPU's
/// share counts too. REQUIRES: options.file is set. Throws as ModelRuntime::load() does.
PlannedMemory planned_memory(const LoadOptions& options);

}  // namespace hearth
