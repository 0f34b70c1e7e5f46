// Makes the tensors of a random-weight model with planted FFN activity, in memory, in their final types.
//
// Differences between layers do not matter for speed, so two distinct layers are made and the file repeats
// them: a 70B shape takes the memory of two of its layers. If neurons are never zero, FFNs are plain random;
// mixtures have planted routing (planted_routing.h). Equal options give equal bytes with any number of
// threads. Called by the profiler's synth command on one thread; it starts others itself.
#pragma once

#include <array>
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
  double active = 0.18;       // mean share of neurons (of chosen experts) that fire, 0.005 to 0.95
  double expert_skew = 1.0;   // mixtures: exponent of the power law of how often experts are chosen
  double expert_reuse = 0.5;  // mixtures: share of a token's experts that the previous token chose too
  DType dtype = DType::kQ4_0;
  uint64_t seed = 1;
  bool plain = true;    // make the tensors of the plain GGUF: ffn_down
  bool sparse = false;  // make the tensors of PowerInfer's file: ffn_down_t and the predictors
  int n_threads = 1;
};

struct SynthModel {
  std::vector<SynthTensor> before;                 // before the layers: embeddings
  std::array<std::vector<SynthTensor>, 2> layers;  // the file repeats these in turn, except for `special`
  struct OfLayer {
    int layer = 0;
    SynthTensor tensor;
  };
  std::vector<OfLayer> special;    // replace the tensors of the same name in single layers
  std::vector<SynthTensor> after;  // output norm and, unless tied, output matrix
};

/// The amount of work and data. Leaves out norms, biases and routers, which are about a thousandth of it.
struct SynthSizes {
  int64_t made_elements = 0;  // elements of all matrices that make_synth_model fills
  uint64_t memory_bytes = 0;  // size of the result in memory
  uint64_t plain_bytes = 0;   // size of the plain file
  uint64_t sparse_bytes = 0;  // size of PowerInfer's file
};
SynthSizes synth_sizes(const SynthOptions& options);

/// Makes the model. Calls `progress` with the share done, and passes on what it throws. REQUIRES:
/// can_quantize(dtype); a vocabulary size that make_synth_vocabulary() accepts; d_model a multiple of 64,
/// d_ff of 32.
SynthModel make_synth_model(const SynthOptions& options, const std::function<void(double)>& progress);

}  // namespace hearth
