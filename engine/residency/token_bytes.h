// The bytes of weights that one decoded token reads, by the processor that reads them. The byte bound uses them.
//
// Arithmetic on sizes, shares and a plan's placements; knows no bandwidths.
#pragma once

#include <span>

#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/residency/placement.h"
#include "engine/residency/sparsity.h"

namespace hearth {

/// In bytes.
struct TokenBytes {
  double device_whole = 0;    // read for every token by a device: attention, output, predictors, gates
  double device_neurons = 0;  // rows of active neurons, by the device
  double cold_neurons = 0;    // rows of active neurons in host memory, of layers that the device runs
  double host_whole = 0;      // everything of layers that the CPU runs

  double sum() const { return device_whole + device_neurons + cold_neurons + host_whole; }
};

/// The bytes if neurons are active as in `activity`. placements [n_layers]: a plan's; empty: the CPU has the whole
/// model. The device computes the share of its layers' active neurons that was counted (activity.cold); where that
/// is not known, the share of neurons that are hot.
TokenBytes token_bytes(const ModelSpec& spec, const Weights& weights, Sparsity mode,
                       const NeuronActivity& activity, std::span<const LayerPlacement> placements);

}  // namespace hearth
