// A random layer of neurons, and the result of a sparse FFN by its definition, in plain code.
#pragma once

#include <random>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/weight_rows.h"

namespace hearth::test {

struct LayerShape {
  int64_t d_model = 64;
  int64_t d_ff = 96;
  DType type = DType::kQ4_0;       // the type of gate and up
  DType down_type = DType::kQ4_0;  // the type of down rows
  bool gated = true;
  bool biases = false;
  bool bundled = false;  // a neuron's rows are adjacent
};

/// Owns the memory that `ffn` views.
struct Layer {
  LayerShape shape;
  OwnedMatrix gate, up, down;
  std::vector<std::byte> bundles;
  std::vector<float> gate_bias, up_bias, down_bias;
  FfnNeurons ffn;
};

Layer random_layer(const LayerShape& shape, std::mt19937& rng);

/// A set in which each token wants each neuron with the probability `share`.
NeuronSet random_set(int n_tokens, int64_t n_neurons, double share, std::mt19937& rng);

/// Computes the sums by the definition in kernels/cpu/sparse_ffn.h and kernels/neurons.h.
void reference_down(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set,
                    float* out);

/// The values [n_tokens, d_ff] of all neurons, computed by the backend's dense operations.
std::vector<float> dense_values(CpuBackend& backend, const FfnNeurons& ffn, const std::vector<float>& x,
                                int n_tokens);

}  // namespace hearth::test
