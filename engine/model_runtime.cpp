// Loading a model: the numbered stages from a path to a ForwardModel.
#include "engine/model_runtime.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "engine/activity/activity_keeper.h"
#include "engine/forward/devices.h"
#include "engine/forward/forward_pass.h"
#include "engine/forward/kv_memory.h"
#include "engine/forward/load_bounds.h"
#include "engine/model/gguf/fault.h"
#include "engine/model/predictor_file.h"
#include "engine/model/scale_check.h"
#include "engine/model/weights.h"
#include "engine/residency/bytes_text.h"
#include "engine/residency/device_answer.h"
#include "engine/residency/down_sizes.h"
#include "engine/residency/memory_limit.h"
#include "engine/residency/neuron_setup.h"
#include "engine/residency/sparsity_choice.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/runtime/device.h"

namespace hearth {
namespace {

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

/// What load reserves besides the file, and the sentences for when it cannot be had.
struct Reservation {
  Reservation(const ModelFile& file, const ModelSpec& spec, const LoadOptions& options)
      : label(gguf::file_label(file.path().string())),
        context_tokens(decide_context(file, spec, options.context_tokens)),
        n_slots(options.n_slots),
        bounds(load_bounds(context_tokens, options.n_slots, options.prefill_chunk)) {
    const int64_t blocks = kv_blocks(context_tokens, n_slots);
    kv_bytes = KvMemory::bytes_needed(spec, blocks);
    work_bytes = ForwardPass::bytes_needed(spec, bounds.max_tokens, bounds.max_logit_rows);
    memory_limit = options.memory_limit_bytes > 0 ? options.memory_limit_bytes : memory_limit_bytes();
    if (kv_bytes + work_bytes > static_cast<double>(memory_limit)) {
      refuse("but this process may use " + bytes_text(static_cast<double>(memory_limit)) + " in all");
    }
    if (blocks > std::numeric_limits<int>::max()) refuse("more than can be numbered");
    n_blocks = static_cast<int>(blocks);
  }

  [[noreturn]] void refuse(const std::string& why) const {
    gguf::fail(label, "a context of " + std::to_string(context_tokens) + " tokens for each of " +
                          std::to_string(n_slots) + (n_slots == 1 ? " slot" : " slots") + " needs " +
                          bytes_text(kv_bytes) + " for keys and values and " + bytes_text(work_bytes) +
                          " of work space, " + why + "; ask for a smaller context or fewer slots");
  }

  PassBounds pass_bounds(bool shares, size_t stream_bytes) const {
    PassBounds steps = bounds;
    steps.shares = shares;
    steps.stream_bytes = stream_bytes;
    return steps;
  }

  void check_vocabulary(const Tokenizer& tokenizer, const ModelSpec& spec) const {
    if (tokenizer.n_vocab() <= spec.n_vocab) return;
    gguf::fail(label, "key \"tokenizer.ggml.tokens\" has " + std::to_string(tokenizer.n_vocab()) +
                          " tokens, but tensor \"token_embd.weight\" only " + std::to_string(spec.n_vocab) +
                          " rows; the file is damaged");
  }

  std::string label;
  int context_tokens, n_slots;
  PassBounds bounds;
  int n_blocks = 0;
  double kv_bytes = 0, work_bytes = 0;
  uint64_t memory_limit = 0;
};

// Page-locked memory, at most, in which a device tells what it found in a step.
constexpr double kFoundBytes = 128 << 20;

// Reading the file takes most of a load; laying neurons out and a short probe the rest.
constexpr double kPrefaultShare = 0.8;

/// Progress of a stage that is the stretch [begin, end] of the whole.
std::function<void(double)> part_of(const std::function<void(double)>& whole, double begin, double end) {
  if (!whole) return {};
  return [&whole, begin, end](double share) { whole(begin + share * (end - begin)); };
}

/// The predictors beside the model, where the FFN may be run by them; `spec` is told of them.
std::optional<ModelFile> find_predictors(const ModelFile& file, ModelSpec& spec,
                                         const SparsityRequest& request) {
  if (request.mode != "predicted" && request.mode != "auto") return std::nullopt;
  return open_predictor_file(file, spec);
}

}  // namespace

struct ModelRuntime::State {
  State(ModelFile opened, ModelSpec read, std::optional<ModelFile> beside, const LoadOptions& options)
      : file(std::move(opened)),
        predictor_file(std::move(beside)),
        spec(std::move(read)),
        tokenizer(Tokenizer::from_model(file)),
        cpu(options.n_threads > 0 ? options.n_threads : default_thread_count(),
            options.isa.value_or(supported_isas().front())),
        weights(bind_weights(file, spec)) {
    if (predictor_file) bind_predictors(*predictor_file, spec, weights);
  }

  /// Decides what lies where and lays it out: all that lies in memory besides the file.
  void place(const LoadOptions& options, const Reservation& reserved, const DeviceAnswer& answer);
  /// Gives all of that back.
  void unplace();
  void open_device(const LoadOptions& options, const Reservation& reserved, const DeviceAnswer& answer);
  void start_prefetcher(const LoadOptions& options);

  /// Takes the memory of everything but the neurons, where the plan says.
  void build_pass(const Reservation& reserved, bool predictors) {
    const PassBounds steps = reserved.pass_bounds(plan ? plan->shares : false, plan ? plan->stream_bytes : 0);
    devices.emplace(device ? Devices(cpu, *device, plan->on_device()) : Devices(cpu));
    placed.emplace(weights.placed(*devices, spec, predictors));
    kv.emplace(spec, reserved.n_blocks, *devices);
    pass.emplace(*devices, spec, *placed, *kv, steps);
  }

  ModelFile file;
  std::optional<ModelFile> predictor_file;  // beside the model; null: none, or none is wanted
  ModelSpec spec;
  int context_tokens = 0;
  int max_tokens = 0;
  int n_slots = 0;
  std::unique_ptr<const Tokenizer> tokenizer;
  CpuBackend cpu;
  Weights weights;  // in host memory
  std::optional<NeuronSetup> neurons;
  std::optional<Plan> plan;               // where there is a device
  std::unique_ptr<ComputeDevice> device;  // null: the CPU computes all
  std::optional<Devices> devices;
  std::optional<Weights> placed;  // as the devices read them
  std::optional<KvMemory> kv;
  std::optional<ForwardPass> pass;
  // Null: nothing is brought to the device while it runs. Goes before the device, when no step runs any more.
  std::unique_ptr<Prefetcher> prefetcher;
  std::vector<std::string> notes;
  ActivityKeeper activity;
};

/// Plans for the budget and takes the memory. What the device does not grant after all is planned again,
/// smaller.
void ModelRuntime::State::open_device(const LoadOptions& options, const Reservation& reserved,
                                      const DeviceAnswer& answer) {
  const PlanInputs inputs{.spec = spec,
                          .weights = weights,
                          .host = neurons->host(),
                          .mode = neurons->mode(),
                          .bounds = reserved.pass_bounds(false, 0),
                          .n_kv_blocks = reserved.n_blocks,
                          .prefetch = options.prefetch && options.cpu_share,
                          .order = &neurons->order()};
  size_t budget = answer.budget_bytes;
  for (;;) {
    std::optional<Placement> given;
    if (options.place) given = options.place(inputs, budget);
    if (given && options.stream_bytes > 0) given->stream_bytes = options.stream_bytes;
    plan = given ? placed_plan(inputs, *std::move(given), budget) : make_plan(inputs, options.split, budget);
    if (!plan) {
      throw std::invalid_argument(
          "The GPU's budget of " + bytes_text(static_cast<double>(budget)) +
          " holds nothing of the model: scratch, output and one layer's attention with its keys and values "
          "need " +
          bytes_text(static_cast<double>(least_bytes(inputs))) +
          "; give more (--vram-budget), take a smaller context or fewer slots, or --device cpu.");
    }
    try {
      cuda::DeviceOptions how{
          .budget_bytes = plan->device.total(), .graphs = options.graphs, .trace = options.trace};
      if (!options.cpu_share) how.stream_from_tokens = 1;
      device = cuda::make_device(cpu, how);
      return;
    } catch (const std::bad_alloc&) {
      const size_t taken = plan->device.total(), least = least_bytes(inputs);
      if (taken <= least) {
        throw std::invalid_argument("The GPU does not grant the " + bytes_text(static_cast<double>(taken)) +
                                    " that the smallest plan takes, though it has them free; take a smaller "
                                    "context or fewer slots, or --device cpu.");
      }
      const size_t smaller = std::max(taken / 10 * 9, least);
      notes.push_back("the GPU does not grant the " + bytes_text(static_cast<double>(taken)) +
                      " that were planned: planning for " + bytes_text(static_cast<double>(smaller)) + ", " +
                      bytes_text(static_cast<double>(taken - smaller)) + " less");
      budget = smaller;
    }
  }
}

/// Where the device has a neuron cache: who fills it. After the neurons were placed.
void ModelRuntime::State::start_prefetcher(const LoadOptions& options) {
  if (!options.prefetch || !plan) return;
  std::vector<const HybridLayer*> on_device;
  std::vector<PrefetchLayer> layers;
  bool has_cache = false;
  for (int i = 0; i < spec.n_layers; ++i) {
    const HybridLayer* hybrid = neurons->placed().layer(i).hybrid;
    if (hybrid == nullptr) continue;
    has_cache = has_cache || hybrid->has_cache();
    on_device.push_back(hybrid);
    layers.push_back({.layer = i,
                      .n_neurons = spec.d_ff,
                      .hot = neurons->placements()[static_cast<size_t>(i)].hot,
                      .n_hot = hybrid->n_hot,
                      .n_slots = hybrid->n_slots});
  }
  if (!has_cache) return;
  try {
    std::unique_ptr<BundleMover> mover =
        cuda::make_bundle_mover(on_device, {.way = options.prefetch_way, .trace = options.trace});
    if (options.wrap_mover) mover = options.wrap_mover(std::move(mover));
    prefetcher =
        std::make_unique<Prefetcher>(layers, std::move(mover), PrefetchOptions{.stopped = options.warn});
  } catch (const std::bad_alloc&) {
    notes.push_back(
        "cold neurons are not brought to the GPU ahead of their use: the system grants no "
        "page-locked memory to move them through");
    return;
  }
  device->hybrid_ffn().set_traffic(prefetcher.get());
  pass->ffn().look_ahead(true);
}

void ModelRuntime::State::place(const LoadOptions& options, const Reservation& reserved,
                                const DeviceAnswer& answer) try {
  const double limit = static_cast<double>(reserved.memory_limit);
  notes = answer.notes;
  if (predictor_file) notes.push_back("predictors are those of " + predictor_file->path().string());

  // 1. How the FFN is run.
  neurons.emplace(options.sparsity,
                  NeuronSetupInputs{.file = file,
                                    .spec = spec,
                                    .weights = weights,
                                    .tokenizer = *tokenizer,
                                    .activity = options.activity,
                                    .cpu = cpu,
                                    .has_device = answer.usable,
                                    .n_threads = cpu.n_threads(),
                                    .max_tokens = max_tokens,
                                    .context_tokens = context_tokens,
                                    .free_memory_bytes = limit - reserved.kv_bytes - reserved.work_bytes});

  // 2. Where there is a device: what it gets, and the memory for that.
  if (answer.usable) {
    cpu.sum_as_integers();
    neurons->lay_out();
    open_device(options, reserved, answer);
  }

  // 3. Weights, keys and values, and the pass over them.
  build_pass(reserved, neurons->mode() == Sparsity::kPredicted);

  // 4. The neurons.
  if (!answer.usable) {
    neurons->choose(*pass);
    neurons->lay_out();
  }
  neurons->place(*devices, plan ? &*plan : nullptr, part_of(options.progress, kPrefaultShare, 1.0));
  if (options.traffic != nullptr) {
    if (device) device->hybrid_ffn().set_traffic(options.traffic);
  } else {
    start_prefetcher(options);
  }
  neurons->use(*pass);
  pass->trace_to(options.trace);
  notes.insert(notes.end(), neurons->notes().begin(), neurons->notes().end());
} catch (const std::bad_alloc&) {
  reserved.refuse(answer.usable ? "which the system or the GPU's driver does not grant (page-locked "
                                  "memory may be limited: ulimit -l)"
                                : "which the system does not grant");
}

// In the order in which members would go.
void ModelRuntime::State::unplace() {
  prefetcher.reset();
  pass.reset();
  kv.reset();
  placed.reset();
  devices.reset();
  device.reset();
  plan.reset();
  neurons.reset();
}

std::unique_ptr<ModelRuntime> ModelRuntime::load(const LoadOptions& options) {
  // 1. Open and check the file, and what is asked of it.
  ModelFile file = ModelFile::open(checked(options).path);
  ModelSpec spec = read_model_spec(file, options.ffn_activation);
  std::optional<ModelFile> predictors = find_predictors(file, spec, options.sparsity);
  const Reservation reservation(file, spec, options);
  const DeviceAnswer device = choose_device(options);

  // 2. Tokenizer, the CPU's threads, the file's tensors by their roles.
  auto state = std::make_unique<State>(std::move(file), std::move(spec), std::move(predictors), options);
  state->context_tokens = reservation.context_tokens;
  state->max_tokens = reservation.bounds.max_tokens;
  state->n_slots = options.n_slots;
  reservation.check_vocabulary(*state->tokenizer, state->spec);

  // 3. Bring the file's pages into memory, if it holds them: else the first would be gone before the last
  // come.
  const double limit = static_cast<double>(reservation.memory_limit);
  const bool fits = static_cast<double>(state->file.total_bytes()) < limit;
  if (fits) state->file.prefault(part_of(options.progress, 0.0, kPrefaultShare));

  // 4. Damage that sparse arithmetic would hide; of files beyond memory, whose pages must be read for it, in
  // a few rows.
  if (state->spec.activation.has_zeros())
    check_scales(state->file, fits ? kScaleCheckBytes : kScaleCheckBytes / 64);

  // 5. All that lies in memory besides the file.
  state->place(options, reservation, device);
  if (options.progress) options.progress(1.0);
  return std::unique_ptr<ModelRuntime>(new ModelRuntime(std::move(state)));
}

ModelRuntime::ModelRuntime(std::unique_ptr<State> state) : state_(std::move(state)) {}
ModelRuntime::~ModelRuntime() = default;

void ModelRuntime::place_again(const LoadOptions& options) {
  State& s = *state_;
  const bool counts = s.activity.end();
  s.unplace();
  s.place(options, Reservation(s.file, s.spec, checked(options)), choose_device(options));
  if (!counts || !why_not_counted().empty()) return;
  try {
    go_on_counting(s.activity.options());
  } catch (const std::invalid_argument& error) {
    s.notes.push_back(std::string("activity is counted no more: ") + error.what());
  }
}

const ModelFile& ModelRuntime::file() const { return state_->file; }
const ModelSpec& ModelRuntime::spec() const { return state_->spec; }
const Tokenizer& ModelRuntime::tokenizer() const { return *state_->tokenizer; }
int ModelRuntime::context_tokens() const { return state_->context_tokens; }
size_t ModelRuntime::weight_bytes() const { return state_->weights.bytes_per_token(); }
size_t ModelRuntime::kv_bytes() const { return state_->kv->bytes(); }
size_t ModelRuntime::neuron_bytes() const { return state_->neurons->host_bytes(); }
const SparsityReport& ModelRuntime::sparsity() const { return state_->neurons->report(); }
const Plan* ModelRuntime::plan() const { return state_->plan ? &*state_->plan : nullptr; }
const Prefetcher* ModelRuntime::prefetcher() const { return state_->prefetcher.get(); }
const std::vector<std::string>& ModelRuntime::placement_notes() const { return state_->notes; }

uint64_t ModelRuntime::order_hash() const {
  return state_->device ? 0 : hearth::order_hash(state_->neurons->order());
}

double ModelRuntime::bytes_per_token(const NeuronActivity& activity) const {
  return token_bytes(activity).sum();
}

TokenBytes ModelRuntime::token_bytes(const NeuronActivity& activity) const {
  const std::span<const LayerPlacement> placements =
      plan() == nullptr ? std::span<const LayerPlacement>() : std::span<const LayerPlacement>(plan()->layers);
  return hearth::token_bytes(state_->spec, state_->weights, sparsity().mode, activity, placements);
}

NeuronActivity ModelRuntime::activity() const {
  return activity_of(state_->pass->ffn().counts(), state_->spec);
}
void ModelRuntime::reset_activity() { state_->pass->ffn().reset_counts(); }

std::string ModelRuntime::why_not_counted() const {
  const State& s = *state_;
  for (int i = 0; i < s.spec.n_layers && s.neurons->mode() == Sparsity::kDense; ++i) {
    if (!s.neurons->placed().layer(i).dense_down.weight) continue;
    return "A dense run looks at no single neuron, so none can be counted (dense: " +
           s.neurons->report().reason + ").";
  }
  return {};
}

int ModelRuntime::max_counted_tokens() const {
  const State& s = *state_;
  if (!s.device) return s.max_tokens;
  const double per_token = sizeof(float) * static_cast<double>(s.spec.d_ff) * s.spec.n_layers;
  return std::clamp(static_cast<int>(std::min(kFoundBytes / per_token, 1e6)), 1, s.max_tokens);
}

void ModelRuntime::count_activity(const CountOptions& options) {
  if (const std::string why = why_not_counted(); !why.empty()) throw std::invalid_argument(why);
  state_->activity.end();
  state_->activity.take();
  go_on_counting(options);
}

void ModelRuntime::go_on_counting(const CountOptions& options) {
  State& s = *state_;
  s.pass->ffn().count_activity(nullptr);
  // Steps that only decode have a token of each slot.
  const int max_tokens = std::min(options.decode_only ? s.n_slots : s.max_tokens, max_counted_tokens());
  if (s.device) {
    try {
      s.device->reserve_found(s.spec.n_layers, max_tokens, s.spec.d_ff);
    } catch (const std::bad_alloc&) {
      throw std::invalid_argument(
          "The system grants no page-locked memory to count neurons in (it may be limited: ulimit -l).");
    }
  }
  s.activity.begin(
      {.n_layers = s.spec.n_layers, .d_ff = s.spec.d_ff, .n_slots = s.n_slots, .max_tokens = max_tokens},
      options, s.neurons->order());
  s.pass->ffn().count_activity(s.activity.counter());
}

void ModelRuntime::pause_activity(bool paused) { state_->activity.counter()->pause(paused); }
ActivityCounts ModelRuntime::take_activity() { return state_->activity.take(); }

std::vector<float> ModelRuntime::down_sizes() const {
  return hearth::down_sizes(state_->weights, spec().d_model, spec().d_ff, state_->cpu.n_threads());
}

void ModelRuntime::set_thresholds(std::span<const float> thresholds) {
  state_->pass->ffn().set_thresholds(thresholds);
}
void ModelRuntime::observe_values(ValueObserver observer) {
  state_->pass->ffn().observe_values(std::move(observer));
}
void ModelRuntime::observe_neurons(NeuronObserver* observer) {
  assert(sparsity().mode == Sparsity::kDense && state_->device == nullptr);
  state_->pass->ffn().observe_neurons(observer);
}

std::string ModelRuntime::backend_description() const { return state_->devices->of_output().description(); }

StepLimits ModelRuntime::limits() const {
  const State& s = *state_;
  return {.max_tokens = s.max_tokens,
          .max_logit_rows = s.pass->max_logit_rows(),
          .n_vocab = s.spec.n_vocab,
          .block_tokens = kKvBlockTokens,
          .n_blocks = s.kv->shape().n_blocks};
}

void ModelRuntime::bind_thread() { state_->devices->of_output().bind_thread(); }

std::span<const float> ModelRuntime::forward(const Batch& batch) {
  const ActivityCounter::Step counted(state_->activity.counter(), batch);
  if (!state_->prefetcher) return state_->pass->run(batch);
  state_->prefetcher->begin_step();
  const std::span<const float> logits = state_->pass->run(batch);
  state_->prefetcher->end_step();
  return logits;
}

}  // namespace hearth
