// The last stage of loading a model: decide how its FFN is run, lay its neurons out for that, measure what it
// saves.
//
// Called once by ModelRuntime::load on the loading thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/forward_pass.h"
#include "engine/model_file.h"
#include "engine/model_spec.h"
#include "engine/neuron_layout.h"
#include "engine/sparsity.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/weights.h"
#include "kernels/backend.h"

namespace hearth {

/// What the setup works on; all of it outlives the pass.
struct NeuronSetupInputs {
  const ModelFile& file;
  const ModelSpec& spec;
  const Weights& weights;
  const Tokenizer& tokenizer;
  Backend& cpu;     // host memory
  Backend* device;  // what computes, if not the CPU
  std::span<const NeuronLayout::LayerShare>
      shares;  // [n_layers] what of the neurons the device gets; empty: all
  ForwardPass& pass;
  int n_threads = 1;
  int max_tokens = 1;            // of one step of the pass
  int context_tokens = 1;        // positions the pass can take
  double free_memory_bytes = 0;  // that bundles may take
};

struct NeuronSetup {
  NeuronLayout layout;  // in host memory
  NeuronLayout placed;  // what the pass reads; must not move while it does
  NeuronLayout::Order order;
  SparsityReport report;
};

/// Fills `out`, which must stay where it is, and sets the pass to it. Throws ModelFileError or
/// std::invalid_argument (one sentence) if the model cannot be run as asked, std::bad_alloc, and what
/// progress throws.
void set_up_neurons(const SparsityRequest& request, const NeuronSetupInputs& in,
                    const std::function<void(double)>& progress, NeuronSetup& out);

}  // namespace hearth
