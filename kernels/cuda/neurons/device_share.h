// Computes the device's share of a layer's neurons: the neurons with rows in device memory. All operations
// run on one stream.
//
// CudaBackend calls these functions once for all wanted neurons of a layer. CudaHybridFfn calls them for the
// hot neurons, and StreamedShare for each streamed piece of the cold neurons. All calls add to the same
// integer sums, so any order of calls gives the same bits. The sums must be zero when a layer begins;
// end_sums() resets them at the end of the previous layer. The caller quantizes the layer's input.
#pragma once

#include <cuda_runtime.h>

#include <optional>

#include "kernels/backend.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/scratch.h"
#include "kernels/hybrid_ffn.h"

namespace hearth::cuda {

/// A layer's input [n_tokens, n_cols], as floats and in quantized form.
struct NeuronInput {
  const float* x = nullptr;
  QuantizedActivations quantized;
};

/// The weights of a layer's neurons, at device addresses.
struct NeuronRows {
  FfnNeurons ffn;
  // By neuron number: the device row of the neuron's up and down weights. Null: row j belongs to neuron j.
  const int32_t* device_rows = nullptr;
  const int32_t* gate_device_rows = nullptr;
  std::optional<float> least_contribution = {};  // see HybridCall
};

/// Returns the weights of the neurons of a hybrid layer that have device rows.
NeuronRows rows_on_device(const HybridLayer& layer, const HybridCall& call);

/// Adds the contributions of the neurons listed in `set` to scratch.sums, and their counts to scratch.counts.
/// gates: [n_tokens, n_neurons] by neuron number, or null to compute the gates of the set. Overwrites the
/// arrays `gates`, `ups` and `values` and the list of passed neurons in scratch. Notes the active neurons if
/// `notes` has memory for them.
void add_neurons(const NeuronRows& rows, const NeuronInput& input, const DeviceNeuronSet& set,
                 const float* gates, const Scratch& scratch, cudaStream_t stream,
                 const NeuronNotes& notes = {});

/// Adds the down projection of the neurons in `set`. values: [n_tokens, n_neurons] by neuron number. Counts
/// the neurons and notes the active neurons, like add_neurons().
void add_values(const DownColumns& down, const float* values, const DeviceNeuronSet& set,
                const Scratch& scratch, cudaStream_t stream, const NeuronNotes& notes = {});

}  // namespace hearth::cuda
