// The device's share of a layer's neurons, those with rows in its memory, computed as a sequence of
// operations on one stream.
//
// CudaBackend calls it for whole layers and CudaHybridFfn for parts of a set. All calls add to the same
// integer sums, so any order gives the same bits. The caller that begins a layer clears the sums and
// quantizes its input.
#pragma once

#include <cuda_runtime.h>

#include <optional>

#include "kernels/backend.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/scratch.h"
#include "kernels/hybrid_ffn.h"

namespace hearth::cuda {

/// A layer's input [n_tokens, n_cols], as floats and quantized.
struct NeuronInput {
  const float* x = nullptr;
  QuantizedActivations quantized;
};

/// A layer's neurons at the addresses where the device reads them.
struct NeuronRows {
  FfnNeurons ffn;
  const int32_t* device_rows = nullptr;  // the device row of a neuron's up and down rows, by number; null:
                                         // its number
  const int32_t* gate_device_rows = nullptr;
  std::optional<float> least_contribution = {};  // see HybridCall
};

/// The neurons of a hybrid layer that have device rows.
NeuronRows rows_on_device(const HybridLayer& layer, const HybridCall& call);

/// Adds the contributions of the neurons listed in `set` to scratch.sums, and the counts to scratch.counts.
/// gates [n_tokens, n_neurons] are by number; null: the gate rows of the set are read. Overwrites scratch's
/// gates, ups, values and passed neurons. Notes the active neurons if `notes` has memory for them.
void add_neurons(const NeuronRows& rows, const NeuronInput& input, const DeviceNeuronSet& set,
                 const float* gates, const Scratch& scratch, cudaStream_t stream,
                 const NeuronNotes& notes = {});

/// Adds the down projection of values [n_tokens, n_neurons], by number, for the neurons of `set`. Counts and
/// notes them too.
void add_values(const DownColumns& down, const float* values, const DeviceNeuronSet& set,
                const Scratch& scratch, cudaStream_t stream, const NeuronNotes& notes = {});

}  // namespace hearth::cuda
