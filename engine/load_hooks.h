// Lets tests replace parts that a loaded model otherwise creates itself. No program of Hearth uses these
// hooks.
#pragma once

#include <functional>
#include <memory>

#include "kernels/bundle_mover.h"
#include "kernels/neuron_traffic.h"

namespace hearth {

struct LoadHooks {
  /// Decides which neurons move to and from the device rows of a GPU's neuron cache. Must outlive the model.
  /// Null: the Prefetcher decides.
  NeuronTraffic* traffic = nullptr;
  /// Called with the default mover; returns the mover that copies neurons to the GPU's cache. Empty: the
  /// default mover is used.
  std::function<std::unique_ptr<BundleMover>(std::unique_ptr<BundleMover> mover)> wrap_mover;
};

}  // namespace hearth
