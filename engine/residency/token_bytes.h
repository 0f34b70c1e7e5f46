// Computes how many bytes of weights one decoded token reads, split by the processor that reads them. Used to
// compute the byte bound, which is the speed that memory bandwidth allows.
//
// Computed from sizes, shares and a plan's placements, without bandwidths.
#pragma once

#include <span>

#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/neurons/placement.h"
#include "engine/neurons/sparsity.h"

namespace hearth {

/// In bytes.
struct TokenBytes {
  double device_whole = 0;    // read by the device for every token: attention, output, predictors, gates
  double device_neurons = 0;  // rows of active neurons, and chosen experts, read by the device
  double cold_neurons = 0;    // rows of active neurons, and chosen experts, read by the CPU in layers that
                              // the device runs
  double host_whole = 0;      // all weights of the layers that the CPU runs

  double sum() const { return device_whole + device_neurons + cold_neurons + host_whole; }
};

/// Returns the bytes for the given activity of neurons. placements: [n_layers] from a plan, or empty if the
/// CPU has the whole model. In a device's layers, the device computes 1 - activity.cold of the active
/// neurons, or the share of hot neurons if activity.cold is unknown. If the device holds some share of a
/// layer's experts, it computes this share of the chosen experts.
TokenBytes token_bytes(const ModelSpec& spec, const Weights& weights, Sparsity mode,
                       const NeuronActivity& activity, std::span<const LayerPlacement> placements);

}  // namespace hearth
