// The weights that one decoded token reads, by who reads them: what a bound of bytes is made of.
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

/// When neurons are active as in `activity`. placements [n_layers]: a plan's; empty: the CPU has it all. Of
/// the device's layers' active neurons the device has the share that was counted (activity.cold), or where
/// that is not known the share of hot ones.
TokenBytes token_bytes(const ModelSpec& spec, const Weights& weights, Sparsity mode,
                       const NeuronActivity& activity, std::span<const LayerPlacement> placements);

}  // namespace hearth
