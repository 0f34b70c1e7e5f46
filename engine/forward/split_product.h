// Products of a shared layer's input with one matrix of all its neurons, whose rows are in two memories. They
// check the predictor and observe values; a shared layer's own FFN is HybridFfn's work.
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

  /// out [n_tokens, d_ff], in host memory = the products of call.normed with the rows of `weight`, plus
  /// `bias` if that is not null. The device multiplies the rows that only it has, the CPU multiplies the
  /// others. Overwrites work.gate. Waits for the device. REQUIRES: call.neurons.hybrid is not null.
  void run(const LayerCall& call, const Matrix FfnNeurons::*weight, const float* FfnNeurons::*bias,
           float* out);

 private:
  Backend& cpu_;
  const int64_t d_ff_, d_model_;
  std::vector<float> input_;  // [max_tokens, d_model], the layer's input in host memory
};

}  // namespace hearth
