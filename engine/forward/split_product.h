// Multiplies the input of a shared layer by a matrix with one row for each neuron. Some rows are in host
// memory, the others in device memory. Used to check the predictor and to observe values. HybridFfn computes
// the FFN of a shared layer itself.
//
// Owned by FfnPass; engine thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/forward/layer_call.h"

namespace hearth {

class SplitProduct {
 public:
  /// `cpu` must outlive it.
  SplitProduct(Backend& cpu, const ModelSpec& spec);

  /// Allocates memory for steps of up to max_tokens; call it before the first step that calls run().
  void reserve(int max_tokens);

  /// Sets out [n_tokens, d_ff] to the products of call.normed with the rows of `weight`, plus `bias` if it is
  /// not null. `out` is in host memory. The device multiplies the rows that only it has, and the CPU
  /// multiplies the others. Overwrites work.gate. Waits for the device. REQUIRES: call.neurons.hybrid is not
  /// null.
  void run(const LayerCall& call, const Matrix FfnNeurons::*weight, const float* FfnNeurons::*bias,
           float* out);

 private:
  Backend& cpu_;
  const int64_t d_ff_, d_model_;
  std::vector<float> input_;  // [max_tokens, d_model], the layer's input in host memory
};

}  // namespace hearth
