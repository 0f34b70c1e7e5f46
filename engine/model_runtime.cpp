// Loads a model, from a path to a ForwardModel. load() and place() list the stages by number.
#include "engine/model_runtime.h"

#include <algorithm>
#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "engine/device_plan.h"
#include "engine/forward/draft_passes.h"
#include "engine/forward/forward_pass.h"
#include "engine/forward/kv_memory.h"
#include "engine/forward/streamed_layers.h"
#include "engine/forward/text_head.h"
#include "engine/load_hooks.h"
#include "engine/model/devices.h"
#include "engine/model/drafter_weights.h"
#include "engine/model/gguf/lost_pages.h"
#include "engine/model/predictor_file.h"
#include "engine/model/scale_check.h"
#include "engine/model/weights.h"
#include "engine/residency/expert_exchanger.h"
#include "engine/residency/memory_limit.h"
#include "engine/residency/neuron_setup.h"
#include "engine/residency/sparsity_choice.h"
#include "engine/resolved_load.h"
#include "kernels/base/file_error.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/threads/numa.h"
#include "kernels/cpu/threads/thread_pool.h"
#include "kernels/cpu/threads/topology.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/hybrid/cuda_row_copier.h"

namespace hearth {
namespace {

// Share of a load's progress for reading the file. The rest is for laying out neurons and a measurement.
constexpr double kPrefaultShare = 0.8;

/// Returns a function that reports the progress of a stage, from 0 to 1, to `whole` as from `begin` to `end`.
std::function<void(double)> part_of(const std::function<void(double)>& whole, double begin, double end) {
  if (!whole) return {};
  return [&whole, begin, end](double share) { whole(begin + share * (end - begin)); };
}

/// Spreads memory over the NUMA nodes of the processors that this process may use, if the options request it
/// and there are several nodes. Returns text to append to the backend's description.
std::string spread_memory(const LoadOptions& options) {
  if (!options.spread_memory) return "";
  const std::vector<int> nodes = numa_nodes_of(allowed_cpus());
  const MemorySpread spread = hearth::spread_memory(nodes);
  if (spread == MemorySpread::kNone) return "";
  if (spread == MemorySpread::kSpread)
    return ", memory on " + std::to_string(nodes.size()) + " NUMA nodes in turn";
  if (options.warn) {
    options.warn(
        "the system refuses to spread memory over the " + std::to_string(nodes.size()) +
        " NUMA nodes, so one of them may slow down all threads; in a container, allow the system call "
        "set_mempolicy (Docker: --cap-add SYS_NICE), or start with --numa off");
  }
  return "";
}

}  // namespace

/// The model as stored in its files, and the CPU backend.
struct OpenModel {
  /// Throws as load() does.
  explicit OpenModel(const LoadOptions& options)
      : memory_words(spread_memory(options)),
        file(options.file ? options.file : std::make_shared<const ModelFile>(ModelFile::open(options.path))),
        spec(read_model_spec(*file, options.ffn_activation)),
        predictor_file(may_use_predictors(options) ? open_predictor_file(*file, spec) : std::nullopt),
        tokenizer(Tokenizer::from_model(*file)),
        cpu(options.n_threads > 0 ? options.n_threads : default_thread_count(),
            options.isa.value_or(supported_isas().front()), options.activation_bits),
        weights(bind_weights(*file, spec)) {
    if (predictor_file) bind_predictors(*predictor_file, spec, weights);
    drafters = bind_drafters(*file, spec, weights, options.nextn, options.assistant);
    if (tokenizer->n_vocab() <= spec.n_vocab) return;
    file_error::fail(file_error::file_label(file->path().string()),
                     "key \"tokenizer.ggml.tokens\" has " + std::to_string(tokenizer->n_vocab()) +
                         " tokens, but tensor \"token_embd.weight\" only " + std::to_string(spec.n_vocab) +
                         " rows; the file is damaged");
  }

  static bool may_use_predictors(const LoadOptions& options) {
    return options.sparsity.mode == "predicted" || options.sparsity.mode == "auto";
  }

  /// Reads the file's pages into memory once, if memory can hold all of them. (Otherwise the first pages
  /// would be evicted before the last ones are read.) Then looks for damage that sparse arithmetic would
  /// hide. If the file does not fit in memory, checks only a few rows of each tensor, because their pages
  /// must be read from disk.
  void read(bool fits, const std::function<void(double)>& progress) {
    if (std::exchange(was_read, true)) return;
    if (fits) file->prefault(part_of(progress, 0.0, kPrefaultShare));
    if (spec.activation.has_zeros()) check_scales(*file, fits ? kScaleCheckBytes : kScaleCheckBytes / 64);
  }

  ResolvedLoad resolve(const LoadOptions& options) {
    const auto measure = [&](const Reservation& memory, float predictor_threshold) {
      read(memory.holds(*file), options.progress);
      return measure_read_bytes(spec, weights, *tokenizer, cpu, memory.context_tokens,
                                memory.bounds.max_tokens, predictor_threshold);
    };
    const LoadFacts facts{.file = *file,
                          .spec = spec,
                          .weights = weights,
                          .nextn = drafters.nextn.get(),
                          .assistant = drafters.assistant.get()};
    return hearth::resolve(options, facts, measure);
  }

  std::string memory_words;  // the text from spread_memory(), which runs before all else, because threads
                             // inherit the memory policy
  std::shared_ptr<const ModelFile> file;
  ModelSpec spec;
  std::optional<ModelFile> predictor_file;  // file beside the model; nullopt: missing or not needed
  std::unique_ptr<const Tokenizer> tokenizer;
  CpuBackend cpu;
  Weights weights;  // in host memory
  DrafterWeights drafters;
  bool was_read = false;
};

struct ModelRuntime::State {
  State(std::unique_ptr<OpenModel> opened, const LoadHooks& test_hooks, const Reservation& reserved)
      : hooks(test_hooks),
        model(std::move(opened)),
        spec(model->spec),
        weights(model->weights),
        cpu(model->cpu),
        max_tokens(reserved.bounds.max_tokens),
        n_snapshots(reserved.bounds.n_snapshots),
        facts{.file = *model->file,
              .spec = spec,
              .tokenizer = *model->tokenizer,
              .context_tokens = reserved.context_tokens,
              .prompt_step = reserved.prompt_step,
              .weight_bytes = weights.bytes_per_token(spec)},
        observation(spec, weights, reserved.n_slots, max_tokens, cpu.n_threads()) {}

  /// Allocates and fills all memory besides the file, as `what` specifies.
  void place(const LoadOptions& options, ResolvedLoad what);
  /// Frees everything that place() allocated.
  void unplace();
  bool open_device(const LoadOptions& options);
  void place_on_cpu(const LoadOptions& options);
  void add_contexts(const PlanInputs& inputs);
  void build_pass();
  void build_drafts();
  void note_prompt_library();
  bool uses_library() const { return device && !device->prompt_library().empty(); }
  bool prefetches(const LoadOptions& options) const;
  void start_prefetcher(const LoadOptions& options);
  void start_exchanger(const LoadOptions& options);
  void start_verifier(const LoadOptions& options);
  void publish();
  MemoryByPlace memory_by_place() const;
  ModelFigures figures_of_memory() const;
  uint64_t hash_of_order() const;
  std::string why_not_counted() const;
  std::string why_not_verified(const LoadOptions& options) const;

  const LoadHooks hooks;
  const std::unique_ptr<OpenModel> model;
  const ModelSpec& spec;
  const Weights& weights;
  CpuBackend& cpu;
  const int max_tokens;   // maximum number of tokens in one step
  const int n_snapshots;  // of recurrent states; later placements keep it, as they keep n_kv_contexts
  const LoadedModel facts;

  std::optional<ResolvedLoad> resolved;
  std::optional<NeuronSetup> neurons;
  std::optional<Plan> plan;               // nullopt: there is no device
  std::unique_ptr<ComputeDevice> device;  // null: the CPU computes everything
  std::optional<Devices> devices;
  std::optional<Weights> placed;  // weights, each in the memory of the device that reads them
  std::optional<KvMemory> kv;
  std::optional<TextHead> head;  // nullopt: the model has no head
  std::optional<ForwardPass> pass;
  DraftPasses drafts;
  // Null if neurons are not prefetched. Destroyed before the device, after the last step has ended.
  std::unique_ptr<Prefetcher> prefetcher;
  std::optional<ExpertExchanger> exchanger;  // nullopt if no experts are exchanged
  std::optional<MixtureVerifier> verifier;   // nullopt if no mixtures are verified
  std::vector<std::string> notes;
  std::optional<PlacedModel> as_placed;
  ModelFigures placed_figures;  // only the memory sizes are set; the other figures change with each step
  NeuronObservation observation;
  /// The number of contexts that the first placement chose. Later placements keep it, because callers rely on
  /// the number of KV blocks. 0: not placed yet.
  int n_kv_contexts = 0;
};

/// If loading decides the number of contexts, adds contexts to the plan as long as its budget has room for
/// their keys and values.
void ModelRuntime::State::add_contexts(const PlanInputs& inputs) {
  Reservation& memory = resolved->memory;
  if (!memory.decides_contexts) return;
  const auto counts_of = [&](int n) {
    return kv_block_counts(spec, memory.context_tokens, n, memory.prompt_step.tokens, memory.kv_counts.type);
  };
  set_contexts(memory, hearth::add_contexts(*plan, inputs, 1, memory.n_slots, counts_of), spec);
}

/// Places the model within the budget and allocates its memory. If the device grants less memory than
/// planned, places the model again within a smaller budget. Returns false if the GPU would have to hold all
/// layers but cannot, and the options allow the CPU.
bool ModelRuntime::State::open_device(const LoadOptions& options) {
  PlanInputs inputs{.spec = spec,
                    .weights = weights,
                    .host = neurons->host(),
                    .mode = resolved->sparsity.mode,
                    .bounds = resolved->memory.bounds,
                    .kv_counts = resolved->memory.kv_counts,
                    .split = possible_split(spec, options.split),
                    .prefetch = prefetches(options),
                    .order = &neurons->order(),
                    .nextn = model->drafters.nextn.get()};
  size_t budget = resolved->device.budget_bytes;
  for (;;) {
    plan = plan_device(options, inputs, budget);
    if (!plan) {
      if (spec.stays_whole() && options.device == DeviceChoice::kAuto && !options.vram_budget_bytes)
        return false;
      throw std::invalid_argument(why_no_plan(inputs, budget));
    }
    try {
      add_contexts(inputs);
      const cuda::DeviceOptions how{
          .budget_bytes = plan->device.total(),
          .graphs = options.graphs,
          .trace = options.trace,
          .stream_from_tokens = options.cpu_share ? streamed_from(weights, options.prompt_rates) : 1};
      device = cuda::make_device(cpu, how);
      if (const std::string note = nextn_note(inputs, *plan); !note.empty()) notes.push_back(note);
      return true;
    } catch (const std::bad_alloc&) {
      const size_t taken = plan->device.total();
      inputs.nextn_share = NextnShare::kNone;
      const size_t least = least_bytes(inputs);
      if (taken <= least) {
        throw std::invalid_argument("The GPU does not grant the " + bytes_text(static_cast<double>(taken)) +
                                    " that the smallest plan takes, though it has them free; take a smaller "
                                    "context or fewer contexts (--kv-contexts), or --device cpu.");
      }
      const size_t smaller = std::max(taken / 10 * 9, least);
      notes.push_back("the GPU does not grant the " + bytes_text(static_cast<double>(taken)) +
                      " that were planned: planning for " + bytes_text(static_cast<double>(smaller)) + ", " +
                      bytes_text(static_cast<double>(taken - smaller)) + " less");
      budget = smaller;
    }
  }
}

/// Allocates the memory of everything except the neurons, as planned.
void ModelRuntime::State::build_pass() {
  const bool predictors = resolved->sparsity.mode == Sparsity::kPredicted;
  const PassBounds bounds = resolved->memory.pass_bounds(plan ? &*plan : nullptr);
  devices.emplace(device ? Devices(cpu, *device, plan->on_device()) : Devices(cpu));
  placed.emplace(weights.placed(*devices, spec, predictors, bounds.stream_kv_bytes > 0));
  kv.emplace(spec, resolved->memory.kv_counts, *devices);
  if (bounds.stream_kv_bytes > 0 && !pin_streamed_layers(*devices, weights, *kv)) {
    notes.push_back(
        "the layers in host memory could not be page-locked: copying them to the GPU for prompts is slower");
  }
  pass.emplace(*devices, spec, *placed, *kv, bounds);
  build_drafts();
  if (!weights.head.empty()) head.emplace(cpu, weights.head, spec.norm_eps);
  note_prompt_library();
}

/// Prepares what drafts, if anything does. It uses the scratch memory of the model's pass.
void ModelRuntime::State::build_drafts() {
  const DrafterWeights& drafters = model->drafters;
  const PassBounds bounds = resolved->memory.pass_bounds(plan ? &*plan : nullptr);
  if (!drafters.why_no_nextn.empty()) {
    notes.push_back("layer " + std::to_string(spec.n_layers) +
                    ", which predicts later tokens, is not used for drafts: " + drafters.why_no_nextn);
  }
  if (drafters.nextn) {
    drafts.nextn.emplace(*devices, *drafters.nextn, plan ? plan->nextn_share : NextnShare::kNone,
                         ModelWeights{weights, *placed}, *pass, resolved->memory.kv_counts, bounds);
  }
  if (!drafters.assistant) return;
  const std::string why = why_not_assisted(*drafters.assistant, *devices);
  if (!why.empty()) return notes.push_back("the assistant does not draft: " + why);
  drafts.assistant.emplace(cpu, *drafters.assistant, *kv, bounds);
}

/// If a library that multiplies prompts was found but is not used, adds a note that gives the reason.
void ModelRuntime::State::note_prompt_library() {
  if (!resolved->device.library || uses_library()) return;
  const std::string why = plan->shares ? "the CPU and the GPU share neurons and must compute the same bits"
                                       : device->why_no_prompt_library();
  notes.push_back("--prompt-products fast has no effect: " + why);
}

/// Whether cold neurons are prefetched or experts are exchanged. Exchanges read all experts from host memory,
/// which must have room for them.
bool ModelRuntime::State::prefetches(const LoadOptions& options) const {
  return options.prefetch && options.cpu_share &&
         (!spec.has_experts() || resolved->memory.holds(*model->file));
}

/// Starts the Prefetcher if the device has a neuron cache. Called after the neurons were placed.
void ModelRuntime::State::start_prefetcher(const LoadOptions& options) {
  if (hooks.prefetcher != nullptr) {
    if (device) device->hybrid_ffn().set_prefetcher(hooks.prefetcher);
    return;
  }
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
                      .n_device_rows = hybrid->n_device_rows,
                      .cached = neurons->placements()[static_cast<size_t>(i)].cached});
  }
  if (!has_cache) return;
  try {
    std::unique_ptr<RowCopier> copier =
        cuda::make_row_copier(on_device, {.way = options.prefetch_way, .trace = options.trace});
    if (hooks.wrap_copier) copier = hooks.wrap_copier(std::move(copier));
    prefetcher =
        std::make_unique<Prefetcher>(layers, std::move(copier), PrefetchOptions{.stopped = options.warn});
  } catch (const std::bad_alloc&) {
    notes.push_back(
        "cold neurons are not prefetched to the GPU: the system grants no page-locked memory for the copies");
    return;
  }
  device->hybrid_ffn().set_prefetcher(prefetcher.get());
  pass->ffn().look_ahead(true);
}

/// Starts to exchange experts if the device holds some experts of a layer but not all.
void ModelRuntime::State::start_exchanger(const LoadOptions& options) {
  if (!device || device->hybrid_experts() == nullptr) return;
  KnownExpertUse use;
  if (const std::optional<ModelActivity>& activity = options.placement.activity;
      activity && fits(*activity, spec))
    use = [&activity](int layer) { return activity->shares_of(layer); };
  const std::vector<ExpertExchanger::Layer> layers = neurons->exchangeable_layers(use);
  HybridExperts& experts = *device->hybrid_experts();
  if (!ExpertExchanger::can_exchange(layers, experts)) return;
  exchanger.emplace(layers, experts, options.placement.machine.ram_read_bytes_per_s());
  pass->ffn().observers().observe_choices(
      [this](int layer, const ExpertChoice& choice) { exchanger->use(layer, choice); });
}

/// Returns the reason why no mixtures can be verified, as a phrase; empty if they can.
std::string ModelRuntime::State::why_not_verified(const LoadOptions& options) const {
  if (!spec.has_experts()) return "the model is no mixture of experts";
  if (!device) return "no GPU is used";
  if (neurons->resident_experts().empty()) return "the GPU holds none of the model's experts";
  // The device's fused multiply-adds round once, and scalar code twice.
  if (options.isa.value_or(supported_isas().front()) == Isa::kScalar)
    return "the CPU's scalar code rounds differently from the GPU";
  return {};
}

/// Starts to verify mixtures of experts if the options request it. If they cannot be verified, adds a note.
void ModelRuntime::State::start_verifier(const LoadOptions& options) {
  if (!options.verify) return;
  if (const std::string why = why_not_verified(options); !why.empty()) {
    notes.push_back("--verify on has no effect: " + why);
    return;
  }
  verifier.emplace(spec, max_tokens, options.warn);
  pass->verify_mixtures(&*verifier);
}

void ModelRuntime::State::place(const LoadOptions& options, ResolvedLoad what) try {
  resolved.emplace(std::move(what));
  resolved->memory.bounds.n_snapshots = n_snapshots;
  resolved->memory.state_bytes = StateMemory::bytes_needed(spec, resolved->memory.n_slots, n_snapshots);
  notes = resolved->device.notes;
  if (model->predictor_file) {
    notes.push_back("predictors are those of " + model->predictor_file->path().string());
  }

  // 1. Lay out the neurons in host memory.
  const bool has_device = resolved->device.usable;
  if (has_device) cpu.sum_as_integers();
  neurons.emplace(resolved->sparsity, NeuronSetupInputs{.file = *model->file,
                                                        .spec = spec,
                                                        .weights = weights,
                                                        .tokenizer = *model->tokenizer,
                                                        .activity = options.activity,
                                                        .cpu = cpu,
                                                        .has_device = has_device,
                                                        .exchanges_experts = prefetches(options),
                                                        .n_threads = cpu.n_threads(),
                                                        .max_tokens = max_tokens,
                                                        .context_tokens = resolved->memory.context_tokens,
                                                        .free_memory_bytes = resolved->memory.free_bytes()});
  neurons->lay_out();
  // 2. Plan the device's share and allocate its memory.
  if (has_device && !open_device(options)) return place_on_cpu(options);
  // 3. Place weights, keys and values, and build the forward pass over them.
  build_pass();
  // 4. Place the neurons, and start the prefetch of cold neurons.
  neurons->place(*devices, plan ? &*plan : nullptr, part_of(options.progress, kPrefaultShare, 1.0));
  start_prefetcher(options);
  if (hooks.change_experts) hooks.change_experts(neurons->resident_experts());
  // 5. Set the sparsity mode of the pass, and measure the savings on a short text.
  neurons->use(*pass);
  start_exchanger(options);
  start_verifier(options);
  pass->trace_to(options.trace);
  notes.insert(notes.end(), neurons->notes().begin(), neurons->notes().end());
  publish();
} catch (const std::bad_alloc&) {
  resolved->memory.refuse(resolved->device.usable
                              ? "which the system or the GPU's driver does not grant (page-locked memory "
                                "may be limited: ulimit -l)"
                              : "which the system does not grant");
}

/// Describes the placed model, and attaches the observation of its neurons.
void ModelRuntime::State::publish() {
  as_placed.emplace(PlacedModel{.sparsity = neurons->report(),
                                .backend = devices->of_output().description() + model->memory_words,
                                .plan = plan ? &*plan : nullptr,
                                .prefetcher = prefetcher.get(),
                                .kv_bytes = kv->bytes() + drafts.kv_bytes(),
                                .kv_type = kv->counts().type,
                                .state_bytes = pass->states().host_bytes(),
                                .work_bytes = static_cast<size_t>(resolved->memory.work_bytes),
                                .neuron_bytes = neurons->host_bytes(),
                                .order_hash = hash_of_order(),
                                .notes = notes});
  placed_figures = figures_of_memory();
  const std::string uncounted = observation.attach({.ffn = &pass->ffn(),
                                                    .device = device.get(),
                                                    .order = &neurons->order(),
                                                    .mode = resolved->sparsity.mode,
                                                    .why_not_counted = why_not_counted(),
                                                    .plan = plan ? &*plan : nullptr,
                                                    .prefetcher = prefetcher.get(),
                                                    .exchanger = exchanger ? &*exchanger : nullptr,
                                                    .memory = memory_by_place()});
  if (!uncounted.empty()) notes.push_back("activity is no longer counted: " + uncounted);
}

MemoryByPlace ModelRuntime::State::memory_by_place() const {
  const size_t kv_on_device = plan ? std::min(plan->device.kv, as_placed->kv_bytes) : 0;
  return {.vram = plan ? plan->device.total() : 0,
          .ram = as_placed->kv_bytes - kv_on_device + as_placed->state_bytes + as_placed->work_bytes +
                 as_placed->neuron_bytes,
          .file = model->file->total_bytes(),
          .kv = as_placed->kv_bytes};
}

ModelFigures ModelRuntime::State::figures_of_memory() const {
  ModelFigures figures;
  figures.add_memory("file", "weights", model->file->total_bytes());
  figures.add_memory("ram", "neurons", as_placed->neuron_bytes);
  figures.add_memory("ram", "scratch", as_placed->work_bytes);
  figures.add_memory("ram", "states", as_placed->state_bytes);
  const DeviceBytes bytes = plan ? plan->device : DeviceBytes();
  figures.add_memory("ram", "kv", as_placed->kv_bytes - std::min(as_placed->kv_bytes, bytes.kv));
  figures.add_memory("vram", "attention", bytes.attention);
  figures.add_memory("vram", "output", bytes.output);
  figures.add_memory("vram", "predictors", bytes.predictors);
  figures.add_memory("vram", "kv", bytes.kv);
  figures.add_memory("vram", "states", bytes.states);
  figures.add_memory("vram", "gates", bytes.gates);
  figures.add_memory("vram", "hot_neurons", bytes.hot);
  figures.add_memory("vram", "experts", bytes.experts);
  figures.add_memory("vram", "neuron_cache", bytes.cache);
  figures.add_memory("vram", "drafts", bytes.drafts);
  figures.add_memory("vram", "tables", bytes.tables);
  figures.add_memory("vram", "scratch", bytes.scratch);
  figures.add_memory("vram", "stream", bytes.stream);
  return figures;
}

/// See PlacedModel::order_hash.
uint64_t ModelRuntime::State::hash_of_order() const {
  if (!device) return order_hash(neurons->order());
  if (!uses_library()) return 0;
  std::vector<int32_t> of_device;
  for (int32_t i = 0; i < spec.n_layers; ++i) {
    if (devices->on_device(i)) of_device.push_back(i);
  }
  return order_hash({of_device});
}

/// See NeuronObservation::why_not_counted().
std::string ModelRuntime::State::why_not_counted() const {
  if (spec.has_experts()) return {};
  for (int i = 0; i < spec.n_layers && resolved->sparsity.mode == Sparsity::kDense; ++i) {
    if (!neurons->placed().layer(i).dense_down.weight) continue;
    return "A dense run computes all neurons, so active ones cannot be counted (dense: " +
           neurons->report().reason + ").";
  }
  return {};
}

/// Begins place() again, without the GPU.
void ModelRuntime::State::place_on_cpu(const LoadOptions& options) {
  LoadOptions same = options;
  same.device = DeviceChoice::kCpu;
  same.prefill_chunk = resolved->memory.prompt_step.tokens;
  const double budget = static_cast<double>(resolved->device.budget_bytes);
  unplace();
  ResolvedLoad on_cpu = model->resolve(same);
  on_cpu.device.notes.push_back(
      "the GPU is not used: the model runs on it only as a whole, and does not fit in " + bytes_text(budget));
  place(same, std::move(on_cpu));
}

// Destroys the members in the order in which the destructor would destroy them.
void ModelRuntime::State::unplace() {
  observation.detach();
  as_placed.reset();
  verifier.reset();
  prefetcher.reset();
  exchanger.reset();
  drafts.clear();
  pass.reset();
  kv.reset();
  placed.reset();
  devices.reset();
  device.reset();
  plan.reset();
  neurons.reset();
  resolved.reset();
}

std::unique_ptr<ModelRuntime> ModelRuntime::load(const LoadOptions& options) {
  return load(options, LoadHooks());
}

std::unique_ptr<ModelRuntime> ModelRuntime::load(const LoadOptions& options, const LoadHooks& hooks) {
  // 1. Refuse options that are invalid for every model.
  check_options(options);
  // 2. Open and check the file; bind its tensors to their roles; start the CPU's threads.
  auto model = std::make_unique<OpenModel>(options);
  // 3. Resolve the options for this model and this machine: context, memory, device, sparsity.
  ResolvedLoad resolved = model->resolve(options);
  // 4. Read the file, if memory can hold it, and look for damage.
  model->read(resolved.memory.holds(*model->file), options.progress);
  // 5. Allocate and fill all memory besides the file.
  auto state = std::make_unique<State>(std::move(model), hooks, resolved.memory);
  state->place(options, std::move(resolved));
  state->n_kv_contexts = state->resolved->memory.n_kv_contexts;
  gguf::refuse_lost_file();
  if (options.progress) options.progress(1.0);
  return std::unique_ptr<ModelRuntime>(new ModelRuntime(std::move(state)));
}

ModelRuntime::ModelRuntime(std::unique_ptr<State> state) : state_(std::move(state)) {}
ModelRuntime::~ModelRuntime() = default;

void ModelRuntime::place_again(const LoadOptions& options) {
  check_options(options);
  state_->unplace();
  LoadOptions same = options;  // same number of blocks and step size
  same.n_kv_contexts = state_->n_kv_contexts;
  if (options.prefill_chunk == 0) same.prefill_chunk = facts().prompt_step.tokens;
  state_->place(same, state_->model->resolve(same));
}

const LoadedModel& ModelRuntime::facts() const { return state_->facts; }
bool ModelRuntime::assisted() const { return state_->drafts.assistant.has_value(); }
const PlacedModel& ModelRuntime::placed() const { return *state_->as_placed; }
NeuronObservation& ModelRuntime::observation() { return state_->observation; }
const NeuronObservation& ModelRuntime::observation() const { return state_->observation; }

TokenBytes ModelRuntime::token_bytes(const NeuronActivity& activity) const {
  const PlacedModel& run = placed();
  const std::span<const LayerPlacement> placements = run.plan == nullptr
                                                         ? std::span<const LayerPlacement>()
                                                         : std::span<const LayerPlacement>(run.plan->layers);
  return hearth::token_bytes(state_->spec, state_->weights, run.sparsity.mode, activity, placements);
}

StepLimits ModelRuntime::limits() const {
  const State& s = *state_;
  return {.max_tokens = s.max_tokens,
          .max_logit_rows = s.pass->max_logit_rows(),
          .n_vocab = s.spec.n_vocab,
          .d_model = s.spec.d_model,
          .block_tokens = kKvBlockTokens,
          .n_blocks = static_cast<int>(s.kv->counts().n_blocks),
          .window = s.kv->counts().window,
          .encodes = s.spec.arch.looks_ahead,
          .generates = s.spec.arch.has_output,
          .has_head = s.head.has_value(),
          .scores = s.spec.n_scores > 0,
          .recurrent = static_cast<bool>(s.spec.recurrent),
          .max_drafts = s.spec.recurrent ? kMaxStateDrafts : std::numeric_limits<int>::max(),
          .n_snapshots = s.n_snapshots,
          .predicts = s.drafts.predicts(),
          .most_predicted = s.drafts.most_predicted(),
          .block_bytes = s.kv->block_bytes() + s.drafts.block_bytes(),
          .state_bytes = static_cast<size_t>(StateMemory::snapshot_bytes(s.spec)),
          .copies = s.device == nullptr,
          .long_step = s.device ? s.device->long_step() : 0,
          .fast_prompts = s.uses_library()};
}

std::span<const float> ModelRuntime::apply_head(std::span<const float> pooled) {
  return state_->head->apply(pooled);
}

void ModelRuntime::bind_thread() { state_->devices->of_output().bind_thread(); }

StepOutput ModelRuntime::forward(const Batch& batch) {
  const ActivityCounter::StepScope counted(state_->observation.counter(), batch);
  const ExpertRecorder::StepScope recorded(state_->observation.recorder(), batch);
  const LiveActivity::StepScope shown(state_->observation.live(), batch);
  if (state_->prefetcher) state_->prefetcher->begin_step();
  if (state_->exchanger) state_->exchanger->begin_step(batch);
  const StepOutput output = state_->pass->run(batch);
  state_->drafts.after_step(batch, *state_->pass);
  if (state_->prefetcher) state_->prefetcher->end_step();
  if (state_->exchanger) state_->exchanger->end_step();
  gguf::refuse_lost_file();  // results computed from lost pages, which read as zeros, must not be returned
  return output;
}

void ModelRuntime::restore_states(int slot, int32_t snapshot, int n_tokens) {
  // The last step may still be recorded. Copies must not become a part of it.
  if (snapshot >= 0 && state_->device) state_->device->begin_step({});
  state_->pass->states().restore(slot, snapshot, n_tokens);
}

void ModelRuntime::copy_out(int32_t block, int32_t window_block, std::span<std::byte> out) const {
  out = state_->kv->copy_out(block, window_block, out);
  state_->drafts.copy_out(block, out);
}

void ModelRuntime::copy_in(int32_t block, int32_t window_block, std::span<const std::byte> in) {
  in = state_->kv->copy_in(block, window_block, in);
  state_->drafts.copy_in(block, in);
}

void ModelRuntime::copy_state_out(int32_t snapshot, std::span<std::byte> out) const {
  state_->pass->states().copy_snapshot_out(snapshot, out);
}

void ModelRuntime::copy_state_in(int32_t snapshot, std::span<const std::byte> in) {
  state_->pass->states().copy_snapshot_in(snapshot, in);
}

std::span<const float> ModelRuntime::predict(const Batch& batch, bool first) {
  const std::span<const float> logits = state_->drafts.predict(batch, first);
  gguf::refuse_lost_file();
  return logits;
}

void ModelRuntime::reject_drafts(uint64_t sequence, int n_tokens) {
  if (ExpertRecorder* const recorder = state_->observation.recorder()) recorder->reject(sequence, n_tokens);
}

void ModelRuntime::read_figures(ModelFigures& figures) const {
  figures = state_->placed_figures;  // keeps the memory of expert_layers
  const FfnPass& ffn = state_->pass->ffn();
  const FfnCounts& counts = ffn.counts();
  for (const LayerExpertTotals& layer : ffn.expert_layers()) figures.expert_layers.push_back(layer);
  figures.experts = {.chosen = static_cast<uint64_t>(counts.experts.chosen),
                     .resident = static_cast<uint64_t>(counts.experts.resident)};
  if (counts.experts.neurons > 0) {
    figures.neurons = {.n_all = static_cast<uint64_t>(counts.experts.neurons),
                       .n_active = static_cast<uint64_t>(counts.experts.active)};
  } else {
    figures.neurons = {
        .n_all = static_cast<uint64_t>(counts.n_token_layers) * static_cast<uint64_t>(state_->spec.d_ff),
        .n_active = static_cast<uint64_t>(counts.neurons.active),
        .down_rows = static_cast<uint64_t>(counts.neurons.down_rows),
        .cold_down_rows = static_cast<uint64_t>(counts.neurons.cold_down_rows)};
  }
  if (state_->prefetcher) figures.prefetch = state_->prefetcher->counters();
  if (state_->exchanger) figures.exchange = state_->exchanger->totals();
  if (state_->verifier) figures.verification = state_->verifier->totals();
}

}  // namespace hearth
