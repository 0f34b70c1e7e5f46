// What tests put in place of parts that a loaded model makes for itself. No program of Hearth uses these.
#pragma once

#include <functional>
#include <memory>

#include "kernels/bundle_mover.h"
#include "kernels/neuron_traffic.h"

namespace hearth {

struct LoadHooks {
  /// Decides which neurons change slots of a GPU's cache, instead of the prefetcher; outlives the model. Null:
  /// the prefetcher decides.
  NeuronTraffic* traffic = nullptr;
  /// Returns what moves neurons to the GPU's cache; it is given the mover that would be used. Empty: that one
  /// is used.
  std::function<std::unique_ptr<BundleMover>(std::unique_ptr<BundleMover> mover)> wrap_mover;
};

}  // namespace hearth
