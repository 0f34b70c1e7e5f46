// Chooses a model's sparsity mode, and computes how many bytes per token a mode reads.
//
// Used at load, on the loading thread. Pure arithmetic, except probe_activity() and measure_read_bytes(),
// which run the model on a short text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/forward/ffn_pass.h"
#include "engine/forward/forward_pass.h"
#include "engine/forward/kv_memory.h"
#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/neurons/sparsity.h"
#include "engine/tokenizer/tokenizer.h"

namespace hearth {

/// Specifies how the FFNs of a model are run. Chosen once per placement, before neurons are laid out; const
/// afterward.
struct SparsityChoice {
  Sparsity mode = Sparsity::kDense;
  std::string reason;              // the reason for this mode, as a clause
  float predictor_threshold = 0;   // predicted: minimum predictor logit for which a neuron is proposed
  bool verify_predictor = false;   // predicted: also compute every gate, to count the predictor's errors
  std::vector<float> thresholds;   // calibrated: [n_layers], smaller contributions are skipped
  std::vector<std::string> notes;  // sentences for the log about requests that could not be met
};

/// The facts that determine the mode, together with the request.
struct SparsityFacts {
  const ModelFile& file;
  const ModelSpec& spec;
  const Weights& weights;
  bool has_device = false;       // a device computes some or all layers
  double free_memory_bytes = 0;  // host memory that bundles may use
};

/// Bytes of weights that one decoded token reads in the modes among which "auto" chooses: exact and
/// predicted, or for a mixture of experts exact and dense.
struct ReadBytes {
  double exact = 0, predicted = 0, dense = 0;
  // Mixtures: share of neurons with a nonzero value, among the neurons of the experts that tokens chose.
  double experts_active = 0;
};

/// Chooses the mode. Calls `measure` only if the request is "auto" and the model has predictors, or has
/// experts whose activation gives zeros. Throws ModelFileError (one sentence) if the model or the machine's
/// memory cannot meet the request, std::invalid_argument if the request is invalid, and whatever `measure`
/// throws.
SparsityChoice choose_sparsity(const SparsityRequest& request, const SparsityFacts& facts,
                               const std::function<ReadBytes(float predictor_threshold)>& measure);

/// Runs a short text through a separate pass, which reads the neurons from the file. The pass runs the
/// predictor and also computes every gate; in a mixture, it computes all neurons of the chosen experts.
/// `context_tokens`: the maximum number of positions of a sequence. `max_tokens`: the maximum number of
/// tokens of a step.
ReadBytes measure_read_bytes(const ModelSpec& spec, const Weights& weights, const Tokenizer& tokenizer,
                             Backend& cpu, int context_tokens, int max_tokens, float predictor_threshold);

/// Bytes of weights that one decoded token reads in `mode`, for the given activity of neurons.
double bytes_per_token(const ModelSpec& spec, const Weights& weights, Sparsity mode,
                       const NeuronActivity& activity);

/// Converts sums over layers and tokens to shares of all neurons.
NeuronActivity activity_of(const FfnCounts& counts, const ModelSpec& spec);

/// The tokens for probes: the beginning of a text with sentences of different kinds. The limit is 64 tokens,
/// and as few as 8 for large models, so that a probe takes about equally long for every model size. Returns
/// at most context_tokens tokens, but at least one.
std::vector<int32_t> probe_tokens(const Tokenizer& tokenizer, const ModelSpec& spec, int context_tokens);

/// Runs `tokens` as the start of a sequence in the pass's current mode, and returns the share of active
/// neurons. Leaves the keys and values of `tokens` in the first KV blocks.
NeuronActivity probe_activity(ForwardPass& pass, const ModelSpec& spec, std::span<const int32_t> tokens,
                              int max_tokens);

}  // namespace hearth
