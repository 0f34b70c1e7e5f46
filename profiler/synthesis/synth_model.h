// Makes the tensors of a random-weight model with planted FFN activity, in memory, in their final types.
//
// Differences between layers do not matter for speed, so only two distinct layers are made, and the file
// repeats them. A 70B shape therefore takes the memory of two of its layers. In hybrid models
// (layer_tensors.h), one layer of each kind is made. If neurons are never zero, FFNs
// are random without planted activity. Mixtures have planted routing (planted_routing.h). Equal options give
// equal bytes with any number of threads. Called by the profiler's synth command on one thread;
// make_synth_model() starts more threads itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/dtype.h"
#include "profiler/synthesis/shapes.h"
#include "profiler/synthesis/synth_tensors.h"

namespace hearth {

struct SynthOptions {
  ModelShape shape;
  double active = 0.18;       // mean share of neurons that fire, 0.005 to 0.95; mixtures: in chosen experts
  double expert_skew = 1.0;   // mixtures: exponent of the power law for how often experts are chosen
  double expert_reuse = 0.5;  // mixtures: share of a token's experts that the previous token also chose
  DType dtype = DType::kQ4_0;
  uint64_t seed = 1;
  bool plain = true;    // whether to make the tensors of the plain GGUF file: ffn_down
  bool sparse = false;  // whether to make the tensors of PowerInfer's file: ffn_down_t and predictors
  int n_threads = 1;
};

struct SynthModel {
  std::vector<SynthTensor> before;               // before the layers: embeddings
  std::vector<std::vector<SynthTensor>> layers;  // the distinct layers
  /// [n_layers] indices of `layers`. Empty: the file alternates between two layers, except for `special`.
  std::vector<size_t> order;
  struct OfLayer {
    int layer = 0;
    SynthTensor tensor;
  };
  std::vector<OfLayer> special;    // each replaces the tensor of this name in one layer
  std::vector<SynthTensor> after;  // output norm and, unless tied, output matrix
};

/// The amounts of work and data, without norms, biases and routers, which are about a thousandth of the
/// total.
struct SynthSizes {
  int64_t made_elements = 0;  // elements of all matrices that make_synth_model fills
  uint64_t memory_bytes = 0;  // size of the result in memory
  uint64_t plain_bytes = 0;   // size of the plain file
  uint64_t sparse_bytes = 0;  // size of PowerInfer's file
};
SynthSizes synth_sizes(const SynthOptions& options);

/// Makes the model. Calls `progress` with the completed share, and passes on what it throws. REQUIRES:
/// can_quantize(dtype); make_synth_vocabulary() accepts the vocabulary size; d_model is a multiple of 64, and
/// d_ff of 32.
SynthModel make_synth_model(const SynthOptions& options, const std::function<void(double)>& progress);

}  // namespace hearth
