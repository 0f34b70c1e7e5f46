// See the header.
#include "server/serving_model.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <variant>

#include "engine/model/assistant_weights.h"
#include "engine/model/ffn_activation.h"
#include "engine/residency/memory_limit.h"
#include "engine/residency/plan.h"
#include "engine/warm_up.h"
#include "kernels/cuda/runtime/device.h"
#include "profiler/engine_options.h"
#include "profiler/machine/known_machine.h"
#include "profiler/placement/known_activity.h"
#include "profiler/store/known_models.h"
#include "server/api/model_sampling.h"
#include "server/draft_model_file.h"
#include "server/model_log.h"
#include "server/prefix_cache.h"
#include "server/process/logging.h"
#include "server/process/start_error.h"
#include "server/runtime_facts.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

void log_device(const Options& options) {
  log_info(options.device == Options::Device::kCpu ? "CUDA: not used (--device cpu), running on the CPU"
                                                   : cuda::describe(find_device(options)));
}

std::string token_text(const Tokenizer& tokenizer, int32_t token) {
  std::string text;
  if (token >= 0) tokenizer.append_bytes(token, true, text);
  return text;
}

/// Returns the model's chat template. Returns null if the model has none or its template is unusable; chat
/// requests are then refused, and completions are served.
std::unique_ptr<ChatTemplate> make_chat_template(const Options& options, const ModelRuntime& runtime) {
  const Tokenizer& tokenizer = runtime.facts().tokenizer;
  const std::string bos = token_text(tokenizer, tokenizer.bos()),
                    eos = token_text(tokenizer, tokenizer.eos());
  if (!options.chat_template_file.empty()) {
    const std::string source = read_template_file(options.chat_template_file);
    try {
      return std::make_unique<ChatTemplate>(ChatTemplate::parse(source, bos, eos));
    } catch (const TemplateError& error) {
      throw StartError(options.chat_template_file + ": " + error.what());
    }
  }
  const std::optional<std::string_view> source = runtime.facts().file.find_string("tokenizer.chat_template");
  if (!runtime.facts().spec.arch.has_output) return nullptr;
  if (!source) {
    log_warning(
        "the model has no chat template: /v1/chat/completions is refused; --chat-template-file gives it one");
    return nullptr;
  }
  try {
    return std::make_unique<ChatTemplate>(ChatTemplate::parse(*source, bos, eos));
  } catch (const TemplateError& error) {
    log_warning(std::string("the model's chat template cannot be used, so chat is refused; "
                            "--chat-template-file replaces it: ") +
                error.what());
    return nullptr;
  }
}

/// Returns an FNV-1a hash that changes with the build, the file and the arithmetic. The arithmetic depends on
/// the sparsity mode, the activation function, the split of neurons between devices, the order in which
/// neurons are summed, and the type of keys and values.
std::string fingerprint_of(const ModelRuntime& runtime, const std::string& version) {
  const SparsityReport& sparsity = runtime.placed().sparsity;
  const bool predicted = sparsity.mode == Sparsity::kPredicted;
  const bool shares = runtime.placed().plan != nullptr && runtime.placed().plan->shares;
  const KvType kv_type = runtime.placed().kv_type;
  const std::string kv_words = kv_type == KvType::kF16 ? "" : std::string("\n") + kv_type_name(kv_type);
  const std::string identity = version + '\n' + runtime.facts().file.path().filename().string() + '\n' +
                               std::to_string(runtime.facts().file.total_bytes()) + '\n' +
                               runtime.placed().backend + (shares ? ", shared" : "") + '\n' +
                               std::string(sparsity_name(sparsity.mode)) + '\n' +
                               std::to_string(predicted ? sparsity.predictor_threshold : 0.0) + '\n' +
                               ffn_activation_name(runtime.facts().spec.activation) + '\n' +
                               std::to_string(runtime.placed().order_hash) + kv_words;
  uint64_t hash = 14695981039346656037ull;
  for (const char c : identity) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  std::ostringstream text;
  text << "hearth-" << version << "-" << std::hex << (hash >> 32);
  return text.str();
}

void write_plan(const std::string& path, const ModelRuntime& runtime) {
  if (runtime.placed().plan == nullptr) {
    log_warning("no plan was written to " + path + ": the CPU has all of the model");
    return;
  }
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << runtime.placed().plan->json(runtime.facts().spec) << std::flush;
  if (!out) throw StartError(path + ": the plan could not be written there; check --plan-file");
}

/// If the machine has a GPU and was measured at an earlier start, sets how the model is placed and how its
/// prompts are split.
void use_kept_machine(LoadOptions& load, const ModelIdentity& model, const Environment& environment) {
  const std::optional<MachineProfile> machine = kept_machine(environment);
  if (!machine || !machine->gpu) return;
  load.placement = placement_facts(*machine, kept_activity(load.activity, model), log_solution);
  load.prompt_rates = prompt_rates(*machine);
}

/// Sets the file for activity. Unless the options request the CPU, also sets the placement from measurements
/// of earlier starts. Does nothing without a cache folder.
void use_what_is_known(const Options& options, const Environment& environment, const CacheFolder& cache,
                       LoadOptions& load) {
  const fs::path* folder = std::get_if<fs::path>(&cache);
  if (folder == nullptr) return;
  const ModelIdentity model = identify(*load.file, read_model_spec(*load.file, options.ffn_activation));
  load.activity = *folder / kept_activity_name(model);
  if (load.device != DeviceChoice::kCpu) use_kept_machine(load, model, environment);
}

/// Returns the reason why neurons or experts cannot be counted, or an empty text if they can. The reason is
/// the end of a sentence: "not counted: ...".
std::string why_not_counted(const ModelRuntime& runtime) {
  const ModelSpec& spec = runtime.facts().spec;
  if (spec.activation.has_zeros() || spec.has_experts() ||
      runtime.placed().sparsity.mode == Sparsity::kCalibrated) {
    return runtime.observation().why_not_counted();
  }
  return "every neuron of this model is active for every token";
}

/// Prepares the counting of neurons and leaves it paused. Returns false if neurons cannot be counted;
/// start_profile() logs the reason.
bool starts_counting(ModelRuntime& runtime) try {
  if (!why_not_counted(runtime).empty()) return false;
  runtime.observation().count_activity({.decode_only = true});
  runtime.observation().pause_activity(true);
  return true;
} catch (const std::invalid_argument&) {
  return false;
}

/// Runs the model as the engine does, so that the first request is not slower than later ones. counted: also
/// warms up the counting of neurons, if they can be counted.
void warm_up(ModelRuntime& runtime, const EngineOptions& engine, bool counted) {
  NeuronObservation& observation = runtime.observation();
  WarmUp how{.n_slots = engine.n_slots, .context_tokens = engine.context_tokens};
  const bool counts = counted && runtime.limits().long_step > 0 && starts_counting(runtime);
  if (counts) how.count = [&](bool on) { observation.pause_activity(!on); };
  hearth::warm_up(runtime, how);
  if (counts) observation.end_counting();
  observation.reset_activity();
}

/// Starts counting active neurons, or chosen experts, while the model serves. Returns null if nothing can be
/// counted or stored; the model then serves without counting.
std::unique_ptr<OnlineActivity> start_profile(ModelRuntime& runtime, const fs::path& file,
                                              const CacheFolder& cache) {
  const std::string kNone = "--profile online: activity is not counted: ";
  if (const std::string* why = std::get_if<std::string>(&cache)) {
    log_warning(kNone + "there is no cache folder to keep it in (" + *why + ")");
    return nullptr;
  }
  if (const std::string why = why_not_counted(runtime); !why.empty()) {
    log_warning(kNone + why);
    return nullptr;
  }
  try {
    OnlineActivityOptions online;
    online.file = file;
    online.warn = [](const std::string& sentence) { log_warning("activity: " + sentence); };
    return std::make_unique<OnlineActivity>(runtime, std::move(online));
  } catch (const std::invalid_argument& error) {
    log_warning(kNone + error.what());
    return nullptr;
  }
}

/// Subtracts the memory of another model, of which n_reserved bytes are reserved, from the limit in `load`.
/// If the options set this limit, it does not include the pages of model files, so only the reserved bytes
/// are subtracted. Otherwise, the limit is the machine's memory, which must also hold the pages of the other
/// model's file.
void leave_memory(uint64_t n_reserved, const ModelFile& file, LoadOptions& load) {
  const bool budget = load.memory_limit_bytes > 0;
  const uint64_t limit = budget ? load.memory_limit_bytes : memory_limit_bytes();
  const uint64_t taken = n_reserved + (budget ? 0 : file.total_bytes());
  load.memory_limit_bytes = limit > taken ? limit - taken : 1;
}

void leave_memory_to(const ModelRuntime& other, LoadOptions& load) {
  leave_memory(reserved_bytes(other), other.facts().file, load);
}

}  // namespace

/// Combines the progress of several files, which are loaded one after another. Each file's share of the whole
/// is proportional to its bytes.
class LoadProgress {
 public:
  LoadProgress(uint64_t bytes, std::function<void(double)> report)
      : bytes_(static_cast<double>(bytes)), report_(std::move(report)) {}

  /// Returns a function that receives the progress of the next file, in [0, 1]. This object must outlive the
  /// function.
  std::function<void(double)> next(const ModelFile& file) {
    const double begin = begin_, share = static_cast<double>(file.total_bytes()) / bytes_;
    begin_ += share;
    return [this, begin, share](double done) { report_(begin + share * done); };
  }
  /// Returns a function that receives the progress of the last file.
  std::function<void(double)> last() {
    return [this](double done) { report_(begin_ + (1 - begin_) * done); };
  }

 private:
  const double bytes_;
  const std::function<void(double)> report_;
  double begin_ = 0;
};

std::unique_ptr<ServingModel> ServingModel::load(ModelFiles files, const Options& options,
                                                 const Environment& environment, const CacheFolder& cache,
                                                 const std::string& version, const Recorders& recorders,
                                                 std::function<void(double)> progress) try {
  log_device(options);
  std::unique_ptr<ServingModel> model = std::make_unique<ServingModel>();
  LoadProgress shares(files.bytes(), std::move(progress));
  // 1. Load the draft and embedding models first, because they reduce the memory for the served model.
  model->load_ = engine_options(options);
  model->load_.nextn = options.speculate == Options::Speculate::kAuto && options.draft_model.empty();
  model->load_beside(files, options, shares);
  // 2. Load the served model. Its placement uses the measurements of earlier starts.
  model->load_runtime(std::move(files.model), options, environment, cache, recorders.timeline, shares);
  LiveActivity* const live =
      options.page == Options::Page::kOn ? &model->runtime_->observation().show_live() : nullptr;
  // 3. Warm up, so that the first request is not slower than later ones, and start the engine.
  model->start_engine(options, cache, version, recorders.experts);
  // 4. Create the API.
  model->make_api(options, version, live);
  return model;
} catch (const ModelFileError& error) {
  throw StartError(error.what());
} catch (const std::invalid_argument& error) {
  throw StartError(error.what());
}

void ServingModel::load_beside(ModelFiles& files, const Options& options, LoadProgress& progress) {
  if (files.embedding) {
    const std::function<void(double)> share = progress.next(*files.embedding);
    embedder_ =
        EmbeddingModel::load(std::move(files.embedding), options, embedding_model_names(options), share);
    leave_memory_to(embedder_->runtime(), load_);
  }
  if (files.draft && is_assistant(*files.draft)) {
    // It is loaded with the model. Its pages take memory like those of another model.
    progress.next(*files.draft);
    leave_memory(0, *files.draft, load_);
    load_.assistant = std::move(files.draft);
  } else if (files.draft) {
    const std::function<void(double)> share = progress.next(*files.draft);
    drafter_ = load_draft_model(std::move(files.draft), *files.model, options, share);
    leave_memory_to(*drafter_, load_);
  }
}

void ServingModel::load_runtime(std::shared_ptr<const ModelFile> file, const Options& options,
                                const Environment& environment, const CacheFolder& cache, Trace* trace,
                                LoadProgress& progress) {
  load_.file = std::move(file);
  load_.trace = trace;
  load_.warn = [](const std::string& sentence) { log_warning(sentence); };
  use_what_is_known(options, environment, cache, load_);
  load_.progress = progress.last();
  runtime_ = ModelRuntime::load(load_);
  load_.progress = nullptr;
  profiles_ = options.profile != Options::Profile::kOff && runtime_->placed().plan != nullptr &&
              !load_.activity.empty() && runtime_->facts().spec.has_zero_neurons();
}

void ServingModel::start_engine(const Options& options, const CacheFolder& cache, const std::string& version,
                                ServedTrace* experts) {
  EngineOptions engine = engine_for(*runtime_, options.slots, options.queue);
  engine.speculation = {.on = options.speculate != Options::Speculate::kOff,
                        .max_draft = options.draft_tokens,
                        .drafter = nullptr,
                        .draft_model = drafter_.get(),
                        .draft_context = drafter_ ? drafter_->facts().context_tokens : 0};
  const bool counts = options.profile == Options::Profile::kOnline;
  // Steps whose experts are recorded are other steps to a device, so warm up with them.
  if (experts != nullptr) recording_ = experts->record(*runtime_);
  warm_up(*runtime_, engine, counts);
  if (recording_) recording_->begin();
  if (!options.plan_file.empty()) write_plan(options.plan_file, *runtime_);
  chat_template_ = make_chat_template(options, *runtime_);
  if (counts) activity_ = start_profile(*runtime_, load_.activity, cache);
  engine.disk = prefix_options(options, cache, *runtime_, version);
  engine_ = std::make_unique<Engine>(*runtime_, engine);
}

void ServingModel::make_api(const Options& options, const std::string& version, LiveActivity* live) {
  ServedModel served{target_of(*runtime_, *engine_, model_names(options), std::time(nullptr))};
  served.any_name = std::find(options.alias.begin(), options.alias.end(), "*") != options.alias.end();
  served.fingerprint = fingerprint_of(*runtime_, version);
  served.blank_line_interval = std::chrono::seconds(options.keepalive_seconds);
  served.max_tokens_default = options.max_tokens_default;
  served.reasoning_budget = options.reasoning_budget;
  served.sampling = model_sampling(served.facts.keys);
  if (served.generates())
    served.suggested_model = suggested_model(runtime_->facts().weight_bytes, memory_limit_bytes());
  served.sparsity = runtime_->placed().sparsity;
  served.chat_template = chat_template_.get();
  if (embedder_) served.embedder = embedder_->target();
  if (live != nullptr) {
    live_events_ = std::make_unique<LiveEvents>(LiveEvents::Source{
        .engine = *engine_, .live = *live, .model = served.names.front(), .device = served.device});
    served.live_events = live_events_.get();
  }
  api_ = std::make_unique<ApiContext>(std::move(served));
}

void ServingModel::start_profiling(const Environment& environment) {
  if (!profiles_) return;
  profiling_ = std::make_unique<Profiling>(Profiling::Inputs{.runtime = *runtime_,
                                                             .engine = *engine_,
                                                             .load = load_,
                                                             .activity_file = load_.activity,
                                                             .environment = environment});
}

bool ServingModel::skip_profiling() { return profiling_ != nullptr && profiling_->skip(); }

std::optional<std::string> ServingModel::failure() const {
  const EngineStatus status = engine_->status();
  if (status.failed) return status.failure;
  if (!embedder_) return std::nullopt;
  const EngineStatus embedder = embedder_->engine().status();
  if (!embedder.failed) return std::nullopt;
  return "the embedding model: " + embedder.failure;
}

void ServingModel::close_watchers() {
  if (live_events_) live_events_->close();
}

bool ServingModel::drain(std::chrono::steady_clock::time_point deadline) {
  close_watchers();
  const bool drained = engine_->drain(deadline);
  return (!embedder_ || embedder_->engine().drain(deadline)) && drained;
}

void ServingModel::finish_trace() {
  if (!recording_) return;
  recording_->finish();
  const ServedTrace& trace = recording_->trace();
  if (!trace.is_written()) return;
  log_info("expert trace", {{"tokens", static_cast<int64_t>(trace.n_tokens())},
                            {"sequences", static_cast<int64_t>(trace.n_sequences())},
                            {"file", trace.file().string()}});
}

void ServingModel::finish_profile() {
  profiling_.reset();
  finish_trace();
  if (!activity_) return;
  activity_->finish();
  log_info("activity", {{"counted_tokens", static_cast<int64_t>(activity_->n_written())},
                        {"file", activity_->file().string()}});
}

ReadyModel ServingModel::ready() const {
  ReadyModel ready{
      .api = api_.get(), .engine = engine_.get(), .name = name(), .embedder = nullptr, .embedder_name = {}};
  if (embedder_) {
    ready.embedder = &embedder_->engine();
    ready.embedder_name = embedder_->name();
  }
  return ready;
}

void ServingModel::log_summary() const {
  log_model(name(), *runtime_, engine_->options(), can_chat());
  if (embedder_) embedder_->log_summary();
  if (drafter_) log_draft_model(*drafter_);
}

}  // namespace hearth
