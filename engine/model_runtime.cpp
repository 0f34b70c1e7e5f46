// Loading a model: the numbered stages from a path to a ForwardModel.
#include "engine/model_runtime.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/forward_pass.h"
#include "engine/kv_memory.h"
#include "engine/weights.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/thread_pool.h"

namespace hearth {
namespace {

// Scoring wants logits of every prompt position; this many rows at once keep the logits buffer (rows x
// vocabulary floats) at 10-40 MB while the output matrix is still read once for many rows.
constexpr int kMaxLogitRows = 64;

/// The context of one sequence: as asked, bounded by what the model can do. Throws if what was asked is too
/// much.
int decide_context(const ModelFile& file, const ModelSpec& spec, int asked) {
  int possible = spec.context_train;
  // Attention sees every position; a model with a sliding window never saw further than its window.
  if (spec.sliding_window > 0) possible = std::min(possible, spec.sliding_window);
  if (asked == 0) return std::min(possible, kDefaultContext);
  if (asked > possible) {
    throw ModelFileError(file.path().string() + ": a context of " + std::to_string(asked) +
                         " tokens was asked for, but the model was trained on " + std::to_string(possible) +
                         "; set --context to at most that.");
  }
  return asked;
}

int blocks_for(int context_tokens, int n_slots) {
  return (context_tokens + kKvBlockTokens - 1) / kKvBlockTokens * n_slots;
}

}  // namespace

struct ModelRuntime::State {
  State(ModelFile opened, const LoadOptions& options)
      : file(std::move(opened)),
        spec(read_model_spec(file)),
        context_tokens(decide_context(file, spec, options.context_tokens)),
        max_tokens(options.prefill_chunk + options.n_slots),
        tokenizer(Tokenizer::from_model(file)),
        backend(options.n_threads > 0 ? options.n_threads : default_thread_count(),
                options.isa.value_or(supported_isas().front())),
        weights(bind_weights(file, spec, backend)),
        kv(spec, blocks_for(context_tokens, options.n_slots), backend),
        pass(backend, spec, weights, kv, max_tokens, std::max(kMaxLogitRows, options.n_slots),
             context_tokens) {
    if (tokenizer->n_vocab() > spec.n_vocab) {
      throw ModelFileError(file.path().string() + ": key tokenizer.ggml.tokens has " +
                           std::to_string(tokenizer->n_vocab()) +
                           " tokens, but tensor token_embd.weight only " + std::to_string(spec.n_vocab) +
                           " rows; the file is damaged.");
    }
  }

  ModelFile file;
  ModelSpec spec;
  int context_tokens;
  int max_tokens;
  std::unique_ptr<const Tokenizer> tokenizer;
  CpuBackend backend;
  Weights weights;
  KvMemory kv;
  ForwardPass pass;
};

std::unique_ptr<ModelRuntime> ModelRuntime::load(const LoadOptions& options) {
  // 1. Open and check the file. 2. Everything that follows from it. 3. Bring its pages into memory.
  ModelFile file = ModelFile::open(options.path);
  std::unique_ptr<ModelRuntime> runtime(new ModelRuntime(std::make_unique<State>(std::move(file), options)));
  runtime->state_->file.prefault(options.progress);
  return runtime;
}

ModelRuntime::ModelRuntime(std::unique_ptr<State> state) : state_(std::move(state)) {}
ModelRuntime::~ModelRuntime() = default;

const ModelFile& ModelRuntime::file() const { return state_->file; }
const ModelSpec& ModelRuntime::spec() const { return state_->spec; }
const Tokenizer& ModelRuntime::tokenizer() const { return *state_->tokenizer; }
int ModelRuntime::context_tokens() const { return state_->context_tokens; }
size_t ModelRuntime::weight_bytes() const { return state_->weights.bytes_per_token(); }
size_t ModelRuntime::kv_bytes() const { return state_->kv.bytes(); }
std::string ModelRuntime::backend_description() const { return state_->backend.description(); }

StepLimits ModelRuntime::limits() const {
  const State& s = *state_;
  return {.max_tokens = s.max_tokens,
          .max_logit_rows = s.pass.max_logit_rows(),
          .n_vocab = s.spec.n_vocab,
          .block_tokens = kKvBlockTokens,
          .n_blocks = s.kv.shape().n_blocks};
}

void ModelRuntime::bind_thread() { state_->backend.bind_thread(); }

std::span<const float> ModelRuntime::forward(const Batch& batch) { return state_->pass.run(batch); }

}  // namespace hearth
