// The arguments that FfnPass gives to the code that computes one layer's FFN in a step: the backend, its
// buffers, and what the layer reads and writes.
//
// Shared by FfnPass, MixturePass, NeuronPredictor, SplitProduct and the dense FFN; engine thread.
#pragma once

#include <cstdint>

#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/neurons/neuron_layout.h"
#include "kernels/backend.h"

namespace hearth {

/// Returns a Buffer of the same memory that does not own it. `lent` must outlive it.
inline Buffer view_of(const Buffer& lent) {
  return {lent.data(), lent.bytes(), [](void*, size_t) {}};
}

/// Buffers and neuron sets of the FFN in one device's memory, without those of mixtures (MixtureWorkspace).
struct FfnWorkspace {
  FfnWorkspace() = default;
  bool empty() const { return gate.bytes() == 0; }
  FfnWorkspace(Memory& memory, const ModelSpec& spec, const Weights& weights, int max_tokens);
  /// Returns the same buffers, without sets; this object must outlive them.
  FfnWorkspace view() const;

  /// Number of neuron sets below. The device's backend must reserve as many (StepBounds::n_sets).
  static constexpr int kSets = 3;
  void make_sets(Backend& backend);
  NeuronSetId wanted;        // neurons that the layer's tokens need
  NeuronSetId proposed;      // neurons that the tokens will probably need in a later hybrid layer
  NeuronSetId truly_active;  // neurons that pass the gate, proposed or not

  Buffer gate, up;  // [max_tokens, d_ff | d_shared]
  Buffer hidden;    // [max_tokens, largest predictor rank]
  Buffer logits;    // [max_tokens, d_ff] logits of the predictor
};

/// One layer's FFN in a step; a view, valid while the layer is computed. normed, x and out are in the
/// backend's memory. They are null if FfnPass::before_attention() creates the LayerCall.
struct LayerCall {
  Backend& backend;
  const FfnWorkspace& work;  // in the backend's memory
  int layer;                 // number in the model
  const NeuronLayer& neurons;
  const float* normed;  // [n_tokens, d_model], input of the FFN
  const float* x;       // [n_tokens, d_model], the residual stream before the FFN; may equal `out`
  int n_tokens;
  float* out;                          // [n_tokens, d_model], to which the result of the FFN is added
  std::optional<float> gate_cut = {};  // LayerSpec::gate_cut
};

/// Allocates zeroed memory for [n_rows, n_cols] floats. Throws std::bad_alloc.
inline Buffer floats(Memory& memory, int64_t n_rows, int64_t n_cols) {
  return memory.allocate(static_cast<size_t>(n_rows * n_cols) * sizeof(float));
}

/// The Product of an input with one matrix. The rows of `out` [n_tokens, n_rows] are packed.
inline Product product(const Linear& linear, float* out, bool accumulate = false) {
  return {.weight = linear.weight,
          .bias = linear.bias,
          .out = out,
          .out_stride = linear.weight.n_rows,
          .accumulate = accumulate};
}

}  // namespace hearth
