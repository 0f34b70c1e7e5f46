// What the device computes of a layer's neurons: those whose rows lie in its memory, as a sequence of
// operations on one stream.
//
// Called by CudaBackend for whole layers and by CudaHybridFfn for parts of a set: all add to the same
// integer sums, in any order with the same bits. Who begins a layer clears the sums and quantises its input.
#pragma once

#include <cuda_runtime.h>

#include "kernels/backend.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/scratch.h"
#include "kernels/hybrid_ffn.h"

namespace hearth::cuda {

/// A layer's neurons as the device reads them.
struct NeuronRows {
  FfnNeurons ffn;
  const int32_t* device_rows = nullptr;  // where up and down of a neuron lie, by number; null: at its number
  const int32_t* gate_device_rows = nullptr;
};

/// Those of a hybrid layer that have device rows.
NeuronRows rows_on_device(const HybridLayer& layer);

/// x [n_tokens, n_cols] to scratch.quantized, where products with quantised weights look for it.
void quantize_input(const float* x, int n_tokens, int64_t n_cols, const Scratch& scratch,
                    cudaStream_t stream);

/// Adds what the neurons of `set` contribute to scratch.sums, and what was found to scratch.counts. gates
/// [n_tokens, n_neurons] by number, or null: the gate rows of the set are read. Scratch's gates, ups, values
/// and passed neurons are overwritten. What was found is noted too, where `notes` has a place for it.
/// REQUIRES: quantize_input(x), and no other product since.
void add_neurons(const NeuronRows& rows, const float* x, const DeviceNeuronSet& set, const float* gates,
                 const Scratch& scratch, cudaStream_t stream, const NeuronNotes& notes = {});

/// Adds the down projection of values [n_tokens, n_neurons], by number, of the neurons of `set`, counts and
/// notes.
void add_values(const DownColumns& down, const float* values, const DeviceNeuronSet& set,
                const Scratch& scratch, cudaStream_t stream, const NeuronNotes& notes = {});

}  // namespace hearth::cuda
