// Which mode of sparsity a model is run in, and what it reads per token.
//
// Used while a model is loaded, on the loading thread. Pure arithmetic, but for probe_activity() and
// measure_read_bytes(), which run the model on a short text.
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
#include "engine/residency/sparsity.h"
#include "engine/tokenizer/tokenizer.h"

namespace hearth {

/// How the FFN of a model is run. Chosen once per placement, before anything is laid out; const afterwards.
struct SparsityChoice {
  Sparsity mode = Sparsity::kDense;
  std::string reason;              // why this one: half a sentence
  float predictor_threshold = 0;   // predicted: logits from it on propose a neuron
  bool verify_predictor = false;   // predicted: compute every gate too, to count the predictor's errors
  std::vector<float> thresholds;   // calibrated: [n_layers], least contribution that counts
  std::vector<std::string> notes;  // for the log: what was asked for and could not be done
};

/// What a choice depends on besides the request.
struct SparsityFacts {
  const ModelFile& file;
  const ModelSpec& spec;
  const Weights& weights;
  bool has_device = false;       // a device computes some or all layers
  double free_memory_bytes = 0;  // of the host, that neurons laid together may take
};

/// Weights that one decoded token reads in the two modes "auto" chooses from.
struct ReadBytes {
  double exact = 0, predicted = 0;
};

/// Chooses the mode. `measure` is called with the predictor's threshold for "auto" on the CPU if the model has
/// predictors, else not at all. Throws ModelFileError (one sentence) if this model or this machine's memory
/// cannot do what is asked, std::invalid_argument if the request is not valid; and what `measure` throws.
SparsityChoice choose_sparsity(const SparsityRequest& request, const SparsityFacts& facts,
                               const std::function<ReadBytes(float predictor_threshold)>& measure);

/// Runs a short text through a pass of its own, with the neurons as they lie in the file and every gate computed
/// beside the predictor. `context_tokens`: positions a sequence may reach; `max_tokens`: of one step.
ReadBytes measure_read_bytes(const ModelSpec& spec, const Weights& weights, const Tokenizer& tokenizer,
                             Backend& cpu, int context_tokens, int max_tokens, float predictor_threshold);

/// Weight bytes that one decoded token reads in `mode`, when neurons are active as in `activity`.
double bytes_per_token(const ModelSpec& spec, const Weights& weights, Sparsity mode,
                       const NeuronActivity& activity);

/// Turns sums over layers and tokens into shares of all neurons.
NeuronActivity activity_of(const FfnCounts& counts, const ModelSpec& spec);

/// The tokens that probes read: a few sentences of different kinds, cut so that a probe takes about as long for
/// any size of model: 8 to 64 tokens, at most context_tokens, at least one.
std::vector<int32_t> probe_tokens(const Tokenizer& tokenizer, const ModelSpec& spec, int context_tokens);

/// Runs `tokens` as the beginning of a sequence in the pass's present mode, and returns what was active. Their
/// keys and values are left in the first KV blocks.
NeuronActivity probe_activity(ForwardPass& pass, const ModelSpec& spec, std::span<const int32_t> tokens,
                              int max_tokens);

}  // namespace hearth
