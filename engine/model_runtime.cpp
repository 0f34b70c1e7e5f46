// Loading a model: the numbered stages from a path to a ForwardModel.
#include "engine/model_runtime.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/forward_pass.h"
#include "engine/gguf/fault.h"
#include "engine/kv_memory.h"
#include "engine/memory_limit.h"
#include "engine/neuron_setup.h"
#include "engine/scale_check.h"
#include "engine/sparsity_choice.h"
#include "engine/weights.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/thread_pool.h"

namespace hearth {
namespace {

// Scoring wants logits of every prompt position; this many rows at once keep the logits buffer (rows x
// vocabulary floats) at 10-40 MB while the output matrix is still read once for many rows.
constexpr int kMaxLogitRows = 64;

// More slots, tokens of a step or threads than this are a mistake; sums of two such numbers fit an int.
constexpr int kMaxOption = 1 << 20;

void check_option(const char* name, int value, int low) {
  if (value >= low && value <= kMaxOption) return;
  throw std::invalid_argument(std::to_string(value) + " " + name + " cannot be; give a number from " +
                              std::to_string(low) + " to " + std::to_string(kMaxOption) + ".");
}

const LoadOptions& checked(const LoadOptions& options) {
  check_option("slots", options.n_slots, 1);
  check_option("prompt tokens per step", options.prefill_chunk, 1);
  check_option("threads", options.n_threads, 0);
  if (options.context_tokens < 0) {
    throw std::invalid_argument("A context of " + std::to_string(options.context_tokens) +
                                " tokens cannot be; give a positive number, or 0 for the model's own.");
  }
  return options;
}

/// The context of one sequence: as asked, bounded by what the model can do. Throws if what was asked is too
/// much.
int decide_context(const ModelFile& file, const ModelSpec& spec, int asked) {
  const bool windowed = spec.sliding_window > 0 && spec.sliding_window < spec.context_train;
  // Attention sees every position; a model with a sliding window never saw further than its window.
  const int possible = windowed ? spec.sliding_window : spec.context_train;
  if (asked == 0) return std::min(possible, kDefaultContext);
  if (asked > possible) {
    gguf::fail(gguf::file_label(file.path().string()),
               "a context of " + std::to_string(asked) + " tokens was asked for, but the model " +
                   (windowed ? "attends over a window of " : "was trained on ") + std::to_string(possible) +
                   ", which is the most it can have.");
  }
  return asked;
}

std::string gigabytes(double bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), bytes < 1e8 ? "%.3f GB" : "%.1f GB", bytes / 1e9);
  return text;
}

/// What load reserves besides the file, and the sentences for when it cannot be had.
struct Reservation {
  Reservation(const ModelFile& file, const ModelSpec& spec, const LoadOptions& options)
      : label(gguf::file_label(file.path().string())),
        context_tokens(decide_context(file, spec, options.context_tokens)),
        n_slots(options.n_slots),
        max_tokens(options.prefill_chunk + options.n_slots),
        max_logit_rows(std::max(kMaxLogitRows, options.n_slots)) {
    const int64_t blocks_of_slot = (context_tokens + kKvBlockTokens - 1) / kKvBlockTokens;
    const int64_t blocks = blocks_of_slot * n_slots;
    kv_bytes = KvMemory::bytes_needed(spec, blocks);
    work_bytes = ForwardPass::bytes_needed(spec, max_tokens, max_logit_rows);
    memory_limit = options.memory_limit_bytes > 0 ? options.memory_limit_bytes : memory_limit_bytes();
    if (kv_bytes + work_bytes > static_cast<double>(memory_limit)) {
      refuse("but this process may use " + gigabytes(static_cast<double>(memory_limit)) + " in all");
    }
    if (blocks > std::numeric_limits<int>::max()) refuse("more than can be numbered");
    n_blocks = static_cast<int>(blocks);
  }

  [[noreturn]] void refuse(const std::string& why) const {
    gguf::fail(label, "a context of " + std::to_string(context_tokens) + " tokens for each of " +
                          std::to_string(n_slots) + (n_slots == 1 ? " slot" : " slots") + " needs " +
                          gigabytes(kv_bytes) + " for keys and values and " + gigabytes(work_bytes) +
                          " of work space, " + why + "; ask for a smaller context or fewer slots");
  }

  std::string label;
  int context_tokens, n_slots, max_tokens, max_logit_rows;
  int n_blocks = 0;
  double kv_bytes = 0, work_bytes = 0;
  uint64_t memory_limit = 0;
};

// Reading the file takes most of a load; laying neurons out and a short probe the rest.
constexpr double kPrefaultShare = 0.8;

/// Progress of a stage that is the stretch [begin, end] of the whole.
std::function<void(double)> part_of(const std::function<void(double)>& whole, double begin, double end) {
  if (!whole) return {};
  return [&whole, begin, end](double share) { whole(begin + share * (end - begin)); };
}

}  // namespace

struct ModelRuntime::State {
  State(ModelFile opened, ModelSpec read, const Reservation& reserved, const LoadOptions& options)
      : file(std::move(opened)),
        spec(std::move(read)),
        context_tokens(reserved.context_tokens),
        max_tokens(reserved.max_tokens),
        tokenizer(Tokenizer::from_model(file)),
        cpu(options.n_threads > 0 ? options.n_threads : default_thread_count(),
            options.isa.value_or(supported_isas().front())),
        device(options.make_device ? options.make_device(cpu) : nullptr),
        weights(bind_weights(file, spec)),
        placed(weights.resident(backend(), spec)),
        kv(spec, reserved.n_blocks, backend()),
        pass(backend(), spec, placed, kv, max_tokens, reserved.max_logit_rows, context_tokens) {
    if (tokenizer->n_vocab() > spec.n_vocab) {
      gguf::fail(reserved.label, "key \"tokenizer.ggml.tokens\" has " + std::to_string(tokenizer->n_vocab()) +
                                     " tokens, but tensor \"token_embd.weight\" only " +
                                     std::to_string(spec.n_vocab) + " rows; the file is damaged");
    }
  }

  Backend& backend() { return device ? *device : cpu; }

  ModelFile file;
  ModelSpec spec;
  int context_tokens;
  int max_tokens;
  std::unique_ptr<const Tokenizer> tokenizer;
  CpuBackend cpu;
  std::unique_ptr<Backend> device;  // null: the CPU computes
  Weights weights;                  // in host memory
  Weights placed;                   // as the backend reads them
  KvMemory kv;
  ForwardPass pass;
  NeuronSetup neurons;
  std::vector<uint32_t> hits;  // [n_layers, d_ff] in the layout's order; empty: not counted
};

std::unique_ptr<ModelRuntime> ModelRuntime::load(const LoadOptions& options) {
  // 1. Open and check the file, and what is asked of it.
  ModelFile file = ModelFile::open(checked(options).path);
  ModelSpec spec = read_model_spec(file, options.ffn_activation);
  const Reservation reservation(file, spec, options);

  // 2. Everything that follows from them.
  std::unique_ptr<ModelRuntime> runtime;
  try {
    runtime.reset(
        new ModelRuntime(std::make_unique<State>(std::move(file), std::move(spec), reservation, options)));
  } catch (const std::bad_alloc&) {
    reservation.refuse("which the system does not grant");
  }

  // 3. Bring the file's pages into memory, if it holds them: else the first would be gone before the last
  // come.
  State& state = *runtime->state_;
  const double limit = static_cast<double>(reservation.memory_limit);
  const bool fits = static_cast<double>(state.file.total_bytes()) < limit;
  if (fits) state.file.prefault(part_of(options.progress, 0.0, kPrefaultShare));

  // 4. Damage that sparse arithmetic would hide; of files beyond memory, whose pages must be read for it, in
  // a few rows.
  if (state.spec.activation.has_zeros())
    check_scales(state.file, fits ? kScaleCheckBytes : kScaleCheckBytes / 64);

  // 5. Decide how the FFN is run, and lay its neurons out for that.
  const std::vector<NeuronLayout::LayerShare> shares = options.share_neurons && state.device
                                                           ? options.share_neurons(state.spec)
                                                           : std::vector<NeuronLayout::LayerShare>{};
  const NeuronSetupInputs inputs{.file = state.file,
                                 .spec = state.spec,
                                 .weights = state.weights,
                                 .tokenizer = *state.tokenizer,
                                 .cpu = state.cpu,
                                 .device = state.device.get(),
                                 .shares = shares,
                                 .pass = state.pass,
                                 .n_threads = state.cpu.n_threads(),
                                 .max_tokens = state.max_tokens,
                                 .context_tokens = state.context_tokens,
                                 .free_memory_bytes = limit - reservation.kv_bytes - reservation.work_bytes};
  try {
    set_up_neurons(options.sparsity, inputs, part_of(options.progress, kPrefaultShare, 1.0), state.neurons);
  } catch (const std::bad_alloc&) {
    reservation.refuse("which leaves too little for the neurons");
  }
  if (options.progress) options.progress(1.0);
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
size_t ModelRuntime::neuron_bytes() const { return state_->neurons.layout.bytes(); }
const SparsityReport& ModelRuntime::sparsity() const { return state_->neurons.report; }

double ModelRuntime::bytes_per_token(const NeuronActivity& activity) const {
  return hearth::bytes_per_token(state_->spec, state_->weights, sparsity().mode, activity);
}

NeuronActivity ModelRuntime::activity() const {
  return activity_of(state_->pass.ffn().counts(), state_->spec);
}
void ModelRuntime::reset_activity() { state_->pass.ffn().reset_counts(); }

void ModelRuntime::count_hits() {
  if (state_->device) {
    throw std::invalid_argument("Hits of single neurons are counted on the CPU only, and the model runs on " +
                                state_->device->description() + "; run it on the CPU for that.");
  }
  state_->hits.assign(static_cast<size_t>(spec().n_layers) * static_cast<size_t>(spec().d_ff), 0);
  state_->pass.ffn().count_hits(state_->hits.data());
}

std::vector<uint32_t> ModelRuntime::hits() const {
  const NeuronLayout::Order& order = state_->neurons.order;
  if (order.empty()) return state_->hits;
  std::vector<uint32_t> in_file_order(state_->hits.size());
  const size_t d_ff = static_cast<size_t>(spec().d_ff);
  for (size_t at = 0; at < state_->hits.size(); ++at) {
    const int32_t neuron = order[at / d_ff][at % d_ff];
    in_file_order[at - at % d_ff + static_cast<size_t>(neuron)] = state_->hits[at];
  }
  return in_file_order;
}

void ModelRuntime::set_thresholds(std::span<const float> thresholds) {
  state_->pass.ffn().set_thresholds(thresholds);
}
void ModelRuntime::observe_values(ValueObserver observer) {
  state_->pass.ffn().observe_values(std::move(observer));
}

std::string ModelRuntime::backend_description() const { return state_->backend().description(); }

StepLimits ModelRuntime::limits() const {
  const State& s = *state_;
  return {.max_tokens = s.max_tokens,
          .max_logit_rows = s.pass.max_logit_rows(),
          .n_vocab = s.spec.n_vocab,
          .block_tokens = kKvBlockTokens,
          .n_blocks = s.kv.shape().n_blocks};
}

void ModelRuntime::bind_thread() { state_->backend().bind_thread(); }

std::span<const float> ModelRuntime::forward(const Batch& batch) { return state_->pass.run(batch); }

}  // namespace hearth
