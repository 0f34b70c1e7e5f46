// What a Prefetcher has done, as plain numbers: for benches, and for those who watch a model that runs.
#pragma once

#include <cstdint>

namespace hearth {

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

}  // namespace hearth
