// Which mode of sparsity a model is run in, and what it reads per token.
//
// Used by ModelRuntime::load; pure arithmetic besides probe_activity, which runs the model on a short text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "engine/forward/ffn_pass.h"
#include "engine/forward/forward_pass.h"
#include "engine/forward/kv_memory.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/residency/sparsity.h"

namespace hearth {

/// What a request comes to for this model, before anything is measured.
struct SparsityChoice {
  Sparsity mode = Sparsity::kDense;  // with compare: exact, unless predicted turns out to read less
  bool compare = false;              // "auto" and the model has predictors
  std::string reason;
};

/// Throws ModelFileError (one sentence) if this model cannot be run as asked, std::invalid_argument if what
/// is asked is nothing that can be.
SparsityChoice choose_sparsity(const SparsityRequest& request, const std::filesystem::path& model,
                               const ModelSpec& spec, const Weights& weights);

/// Weights read for one decoded token in `mode`, in bytes, when neurons are active as in `activity`.
double bytes_per_token(const ModelSpec& spec, const Weights& weights, Sparsity mode,
                       const NeuronActivity& activity);

/// Shares from counts, over neurons of n_layers layers of d_ff.
NeuronActivity activity_of(const FfnCounts& counts, const ModelSpec& spec);

/// How many tokens a probe of this model takes: about as long for any size, 8 to 64.
int probe_length(const ModelSpec& spec);

/// Runs `tokens` as the beginning of a sequence in the pass's present mode, and tells what was active. The KV
/// cache is left with them in its first blocks.
NeuronActivity probe_activity(ForwardPass& pass, const ModelSpec& spec, std::span<const int32_t> tokens,
                              int max_tokens);

/// What probes read: a few sentences of different kinds.
std::string_view probe_text();

}  // namespace hearth
