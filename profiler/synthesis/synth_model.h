// The tensors of a random-weight model whose FFN activity is planted, made in memory in their final types.
//
// What varies from layer to layer does not matter for speed, so two distinct layers are made and the file
// repeats them: a 70B shape takes the memory of two of its layers. Models whose neurons are never zero have plain random
// FFNs; mixtures have planted routing (planted_routing.h). The same options give the same bytes with
// any number of threads. Called by the profiler's synth command on one thread; it uses others itself.
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
  double expert_skew = 1.0;   // mixtures: exponent of the power law of experts' use
  double expert_reuse = 0.5;  // mixtures: share of a token's experts that the token before it chose
  DType dtype = DType::kQ4_0;
  uint64_t seed = 1;
  bool plain = true;    // make what the plain GGUF holds: ffn_down
  bool sparse = false;  // make what PowerInfer's file holds: ffn_down_t and the predictors
  int n_threads = 1;
};

struct SynthModel {
  std::vector<SynthTensor> before;                 // before the layers: embeddings
  std::array<std::vector<SynthTensor>, 2> layers;  // the file repeats these in turn, but for
  struct OfLayer {
    int layer = 0;
    SynthTensor tensor;
  };
  std::vector<OfLayer> special;    // these, which single layers have instead of their tensors of that name
  std::vector<SynthTensor> after;  // output norm and, unless tied, output matrix
};

/// How much there is to make and to write, without norms, biases and routers (thousandths of the rest).
struct SynthSizes {
  int64_t made_elements = 0;  // of all matrices that make_synth_model fills
  uint64_t memory_bytes = 0;  // of the result
  uint64_t plain_bytes = 0;   // of a plain file
  uint64_t sparse_bytes = 0;  // of PowerInfer's
};
SynthSizes synth_sizes(const SynthOptions& options);

/// Makes the model. Calls `progress` with the share done; what it throws goes on to the caller. REQUIRES:
/// can_quantize(dtype); a vocabulary that make_synth_vocabulary makes; d_model a multiple of 64, d_ff of 32.
SynthModel make_synth_model(const SynthOptions& options, const std::function<void(double)>& progress);

}  // namespace hearth
