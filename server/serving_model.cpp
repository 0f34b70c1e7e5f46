// See the header.
#include "server/serving_model.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <variant>

#include "engine/model/ffn_activation.h"
#include "engine/residency/memory_limit.h"
#include "engine/residency/plan.h"
#include "engine/warm_up.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cuda/runtime/device.h"
#include "profiler/engine_options.h"
#include "profiler/machine/known_machine.h"
#include "profiler/placement/known_activity.h"
#include "server/draft_model_file.h"
#include "server/process/logging.h"
#include "server/process/start_error.h"
#include "server/profiling.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

// Real templates are a few KiB; the limit stops hearthd from reading a large file given by mistake.
constexpr std::uintmax_t kMaxTemplateBytes = 1 << 20;

/// The instruction set that the options ask for; nullopt selects the best one of this machine.
std::optional<Isa> wanted_isa(const Options& options) {
  const std::optional<Isa> isa = engine_isa(options.isa);
  if (!isa) return std::nullopt;
  const std::vector<Isa> supported = supported_isas();
  if (std::find(supported.begin(), supported.end(), *isa) != supported.end()) return isa;
  throw StartError("--isa " + std::string(isa_name(*isa)) + ": " + isa_refusal(*isa));
}

/// The GPU, or the reason why none is used. Throws StartError if the options ask for a GPU and there is none.
std::variant<cuda::Device, std::string> find_device(const Options& options) {
  std::variant<cuda::Device, std::string> found = cuda::probe();
  const std::string* reason = std::get_if<std::string>(&found);
  if (reason != nullptr && options.device == Options::Device::kCuda) {
    throw StartError("--device cuda: there is no GPU that can be used (" + *reason +
                     "); --device auto or cpu runs on the CPU");
  }
  return found;
}

void log_device(const Options& options) {
  log_info(options.device == Options::Device::kCpu ? "CUDA: not used (--device cpu), running on the CPU"
                                                   : cuda::describe(find_device(options)));
}

std::string token_text(const Tokenizer& tokenizer, int32_t token) {
  std::string text;
  if (token >= 0) tokenizer.append_bytes(token, true, text);
  return text;
}

/// The model's chat template. Null if it has none or an unusable one: completions are served, chat is
/// refused.
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

/// An FNV-1a hash that changes with the build, the file and the arithmetic. These change the numbers:
/// sparsity mode, activation, the split of neurons between devices, the float summation order of neurons, the
/// type of keys and values.
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

std::string megabytes(size_t bytes) { return std::to_string((bytes + 500'000) / 1'000'000) + " MB"; }

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%", 100 * share);
  return text;
}

/// "keys and values of 16384 tokens: 4 requests of 4096 each, or 2 of 8192"
std::string pool_text(const ModelRuntime& model, int n_slots) {
  const StepLimits limits = model.limits();
  const int64_t n_tokens = int64_t{limits.n_blocks} * limits.block_tokens;
  const int context = model.facts().context_tokens;
  const int64_t n_whole = n_tokens / context;
  const auto requests = [](int64_t n, int64_t tokens) {
    return std::to_string(n) + (n == 1 ? " request" : " requests") + " of " + std::to_string(tokens) +
           (n == 1 ? " tokens" : " tokens each");
  };
  std::string text = "keys and values of " + std::to_string(n_tokens) +
                     " tokens: " + requests(n_slots, std::min<int64_t>(n_tokens / n_slots, context));
  if (n_whole < n_slots) text += ", or " + requests(n_whole, context);
  return text;
}

/// Logs the memory of weights and KV cache, its capacity in tokens, and which layers keep only a window.
void log_memory(const ModelRuntime& model, int n_slots) {
  LogFields fields = {{"weights", megabytes(model.facts().weight_bytes)},
                      {"kv_cache", megabytes(model.placed().kv_bytes)},
                      {"kv_type", kv_type_name(model.placed().kv_type)}};
  if (const KvWindow window = model.limits().window) {
    const ModelSpec& spec = model.facts().spec;
    const auto n =
        std::ranges::count_if(spec.layers, [](const LayerSpec& layer) { return layer.window > 0; });
    fields.push_back({"kv_windows", std::to_string(n) + " of " + std::to_string(spec.n_layers) +
                                        " layers keep what a window of " +
                                        std::to_string(window.n_positions) + " tokens sees"});
  }
  log_info("memory", fields);
  log_info(pool_text(model, n_slots));
}

/// Logs which part of the model the GPU has, and why it does not have more.
void log_placement(const ModelRuntime& runtime) {
  if (runtime.placed().plan != nullptr) {
    for (const std::string& line : runtime.placed().plan->lines(runtime.facts().spec)) log_info(line);
  }
  for (const std::string& note : runtime.placed().notes) log_warning(note);
}

void log_sparsity(const SparsityReport& report) {
  LogFields fields = {{"mode", std::string(sparsity_name(report.mode))}, {"why", report.reason}};
  if (report.activity.n_tokens > 0) fields.push_back({"active_neurons", percent(report.activity.active)});
  if (report.mode == Sparsity::kPredicted) {
    fields.push_back({"proposed_neurons", percent(report.activity.proposed)});
    fields.push_back({"predictor_threshold", report.predictor_threshold});
  }
  fields.push_back({"per_token", megabytes(static_cast<size_t>(report.bytes_per_token))});
  fields.push_back({"dense_per_token", megabytes(static_cast<size_t>(report.dense_bytes_per_token))});
  log_info("sparsity", fields);
  for (const std::string& note : report.notes) log_info("sparsity", {{"note", note}});
}

/// Makes the machine's measurements decide how the model is placed and its prompts are split, if an earlier
/// start made them for a machine with a GPU.
void use_kept_machine(LoadOptions& load, const ModelIdentity& model, const Environment& environment) {
  const std::optional<MachineProfile> machine = kept_machine(environment);
  if (!machine || !machine->gpu) return;
  load.placement = placement_facts(*machine, kept_activity(load.activity, model), log_solution);
  load.prompt_rates = prompt_rates(*machine);
}

/// Sets where activity is kept and how the model is placed by known activity. Without a cache folder it sets
/// neither.
void use_what_is_known(const Options& options, const Environment& environment, const CacheFolder& cache,
                       LoadOptions& load) {
  const fs::path* folder = std::get_if<fs::path>(&cache);
  if (folder == nullptr) return;
  const ModelIdentity model = identify(*load.file, read_model_spec(*load.file, options.ffn_activation));
  load.activity = *folder / kept_activity_name(model);
  if (load.device != DeviceChoice::kCpu) use_kept_machine(load, model, environment);
}

/// Why single neurons or experts cannot be counted, as the end of "not counted: ..."; empty if they can.
std::string why_not_counted(const ModelRuntime& runtime) {
  const ModelSpec& spec = runtime.facts().spec;
  if (spec.activation.has_zeros() || spec.has_experts() ||
      runtime.placed().sparsity.mode == Sparsity::kCalibrated) {
    return runtime.observation().why_not_counted();
  }
  return "every neuron of this model is active for every token";
}

/// Starts counting single neurons, paused. Returns false if they cannot be counted; start_profile() logs why.
bool starts_counting(ModelRuntime& runtime) try {
  if (!why_not_counted(runtime).empty()) return false;
  runtime.observation().count_activity({.decode_only = true});
  runtime.observation().pause_activity(true);
  return true;
} catch (const std::invalid_argument&) {
  return false;
}

/// Runs the model as the engine will, so that the first request finds everything ready. counted: also warm up
/// the counting of neurons, where it is possible.
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
/// counted or kept; the model is served all the same.
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

/// Opens a model file and checks its metadata. Throws StartError.
std::shared_ptr<const ModelFile> open_model(const std::string& path, const std::string& ffn_activation) try {
  auto file = std::make_shared<const ModelFile>(ModelFile::open(path));
  read_model_spec(*file, ffn_activation);
  return file;
} catch (const ModelFileError& error) {
  throw StartError(error.what());
} catch (const std::invalid_argument& error) {
  throw StartError(error.what());
}

/// A file's name without ".gguf" and without a split's "-00001-of-00002".
std::string own_name(const std::string& path) {
  std::string name = fs::path(path).filename().string();
  if (name.size() > 5 && name.substr(name.size() - 5) == ".gguf") name.resize(name.size() - 5);
  const size_t split = name.rfind("-00001-of-");
  if (split != std::string::npos && split > 0) name.resize(split);
  return name;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

uint64_t reserved_bytes(const ModelRuntime& model) {
  const PlacedModel& placed = model.placed();
  return placed.kv_bytes + placed.work_bytes + placed.neuron_bytes;
}

/// Subtracts another model's memory from the limit in `load`. A budget excludes the files' pages, so only
/// `reserved` counts against it; the machine's memory also holds `file` bytes of pages.
void leave_memory_to(uint64_t reserved, uint64_t file, LoadOptions& load) {
  const bool budget = load.memory_limit_bytes > 0;
  const uint64_t limit = budget ? load.memory_limit_bytes : memory_limit_bytes();
  const uint64_t taken = reserved + (budget ? 0 : file);
  load.memory_limit_bytes = limit > taken ? limit - taken : 1;
}

}  // namespace

std::string read_template_file(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw StartError(path + ": there is no such chat template file");
  if (!std::filesystem::is_regular_file(status) ||
      std::filesystem::file_size(path, error) > kMaxTemplateBytes) {
    throw StartError(path + ": a chat template must be a plain file of at most 1 MiB");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) throw StartError(path + ": the chat template file cannot be read; check its permissions");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

ModelFiles open_checked(const Options& options) {
  if (options.model.empty()) {
    throw StartError(
        "no model was given: say --model FILE.gguf, set HEARTH_MODEL, or put model into the --config file; "
        "hearthd pull shows models to fetch");
  }
  wanted_isa(options);
  if (options.device == Options::Device::kCuda) find_device(options);
  if (!options.chat_template_file.empty()) read_template_file(options.chat_template_file);
  ModelFiles files{
      .model = open_model(options.model, options.ffn_activation), .embedding = nullptr, .draft = nullptr};
  files.draft = open_draft_model(options, *files.model);
  if (options.embedding_model.empty()) return files;
  if (embedding_model_names(options).empty()) {
    throw StartError(
        "--embedding-model " + options.embedding_model +
        ": its name is the model's too, so requests could not choose it; --embedding-alias gives it another");
  }
  files.embedding = open_model(options.embedding_model, {});
  return files;
}

std::vector<std::string> model_names(const Options& options) {
  std::vector<std::string> names;
  for (const std::string& alias : options.alias) {
    if (alias != "*" && !contains(names, alias)) names.push_back(alias);
  }
  const std::string own = own_name(options.model);
  if (!contains(names, own)) names.push_back(own);
  return names;
}

std::vector<std::string> embedding_model_names(const Options& options) {
  const std::vector<std::string> taken = model_names(options);
  std::vector<std::string> asked = options.embedding_alias, names;
  asked.push_back(own_name(options.embedding_model));
  for (std::string& name : asked) {
    if (!contains(taken, name) && !contains(names, name)) names.push_back(std::move(name));
  }
  return names;
}

std::unique_ptr<ServingModel> ServingModel::load(ModelFiles files, const Options& options,
                                                 const Environment& environment, const CacheFolder& cache,
                                                 const std::string& version, Trace* trace,
                                                 std::function<void(double)> progress) try {
  log_device(options);
  std::unique_ptr<ServingModel> model = std::make_unique<ServingModel>();
  LoadOptions& load = model->load_;
  load = engine_options(options);
  const double all_bytes = static_cast<double>(files.bytes());
  double begin = 0;  // start of the served model's share of the progress
  if (files.embedding) {
    begin = static_cast<double>(files.embedding->total_bytes()) / all_bytes;
    model->embedder_ =
        EmbeddingModel::load(std::move(files.embedding), options, embedding_model_names(options),
                             [&](double done) { progress(begin * done); });
    leave_memory_to(model->embedder_->reserved_bytes(), model->embedder_->file_bytes(), load);
  }
  if (files.draft) {
    const double share = static_cast<double>(files.draft->total_bytes()) / all_bytes;
    model->drafter_ = load_draft_model(std::move(files.draft), *files.model, options,
                                       [&](double done) { progress(begin + share * done); });
    begin += share;
    leave_memory_to(reserved_bytes(*model->drafter_), model->drafter_->facts().file.total_bytes(), load);
  }
  load.file = std::move(files.model);
  load.trace = trace;
  load.warn = [](const std::string& sentence) { log_warning(sentence); };
  use_what_is_known(options, environment, cache, load);
  load.progress = [&](double done) { progress(begin + (1 - begin) * done); };
  model->runtime_ = ModelRuntime::load(load);
  load.progress = nullptr;
  LiveActivity* const live =
      options.page == Options::Page::kOn ? &model->runtime_->observation().show_live() : nullptr;
  EngineOptions engine;
  engine.n_slots = options.slots;
  engine.context_tokens = model->runtime_->facts().context_tokens;
  warm_up(*model->runtime_, engine, options.profile == Options::Profile::kOnline);
  model->profiles_ = options.profile != Options::Profile::kOff && model->runtime_->placed().plan != nullptr &&
                     !load.activity.empty() && model->runtime_->facts().spec.has_zero_neurons();
  if (!options.plan_file.empty()) write_plan(options.plan_file, *model->runtime_);
  model->chat_template_ = make_chat_template(options, *model->runtime_);
  if (options.profile == Options::Profile::kOnline)
    model->activity_ = start_profile(*model->runtime_, load.activity, cache);

  engine.queue_capacity = options.queue;
  const PromptStep& step = model->runtime_->facts().prompt_step;
  engine.prefill_chunk = step.tokens;
  engine.prefill_beside = step.beside_streams;
  engine.speculation = {.on = options.speculate == Options::Speculate::kAuto,
                        .max_draft = options.draft_tokens,
                        .drafter = nullptr,
                        .draft_model = model->drafter_.get(),
                        .draft_context = model->drafter_ ? model->drafter_->facts().context_tokens : 0};
  model->engine_ = std::make_unique<Engine>(*model->runtime_, engine);

  ServedModel served;
  served.names = model_names(options);
  served.any_name = std::find(options.alias.begin(), options.alias.end(), "*") != options.alias.end();
  served.created = static_cast<int64_t>(std::time(nullptr));
  served.fingerprint = fingerprint_of(*model->runtime_, version);
  served.max_tokens_default = options.max_tokens_default;
  served.blank_line_interval = std::chrono::seconds(options.keepalive_seconds);
  served.context_tokens = model->runtime_->facts().context_tokens;
  served.facts = read_model_file_facts(model->runtime_->facts().file, model->runtime_->facts().spec);
  const Plan* plan = model->runtime_->placed().plan;
  served.facts.device_bytes = plan != nullptr ? static_cast<int64_t>(plan->device.total()) : 0;
  served.device = model->runtime_->placed().backend;
  served.sparsity = model->runtime_->placed().sparsity;
  served.tokenizer = &model->runtime_->facts().tokenizer;
  served.chat_template = model->chat_template_.get();
  served.engine = model->engine_.get();
  served.generates = model->generates();
  served.n_dimensions = model->runtime_->facts().spec.d_model;
  served.pooling = model->runtime_->facts().spec.pooling;
  if (model->embedder_) served.embedder = model->embedder_->target();
  model->name_ = served.names.front();
  if (live != nullptr) {
    model->live_events_ = std::make_unique<LiveEvents>(LiveEvents::Source{
        .engine = *model->engine_, .live = *live, .model = model->name_, .device = served.device});
    served.live_events = model->live_events_.get();
  }
  model->api_ = std::make_unique<ApiContext>(std::move(served));
  return model;
} catch (const ModelFileError& error) {
  throw StartError(error.what());
} catch (const std::invalid_argument& error) {
  throw StartError(error.what());
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

void ServingModel::finish_profile() {
  profiling_.reset();
  if (!activity_) return;
  activity_->finish();
  log_info("activity", {{"counted_tokens", static_cast<int64_t>(activity_->n_written())},
                        {"file", activity_->file().string()}});
}

ReadyModel ServingModel::ready() const {
  ReadyModel ready{
      .api = api_.get(), .engine = engine_.get(), .name = name_, .embedder = nullptr, .embedder_name = {}};
  if (embedder_) {
    ready.embedder = &embedder_->engine();
    ready.embedder_name = embedder_->name();
  }
  return ready;
}

void ServingModel::log_summary() const {
  const ModelSpec& spec = runtime_->facts().spec;
  int64_t n_parameters = 0;
  for (const TensorInfo& tensor : runtime_->facts().file.tensors()) {
    n_parameters += tensor.shape[0] * tensor.shape[1] * tensor.shape[2] * tensor.shape[3];
  }
  log_info("model", {{"name", name_},
                     {"architecture", std::string(spec.arch.name)},
                     {"parameters", std::to_string((n_parameters + 500'000) / 1'000'000) + " M"},
                     {"layers", spec.n_layers},
                     {"trained_context", spec.context_train},
                     {"chat", chat_template_ != nullptr}});
  if (!generates()) {
    log_info("the model is an encoder: it serves /v1/embeddings, with " + std::to_string(spec.d_model) +
             " dimensions, and generates no text");
  }
  log_info("engine", {{"backend", runtime_->placed().backend},
                      {"slots", engine_->options().n_slots},
                      {"context", runtime_->facts().context_tokens},
                      {"prefill_chunk", runtime_->facts().prompt_step.tokens},
                      {"beside_streams", runtime_->facts().prompt_step.beside_streams},
                      {"queue", engine_->options().queue_capacity}});
  log_sparsity(runtime_->placed().sparsity);
  log_placement(*runtime_);
  log_memory(*runtime_, engine_->options().n_slots);
  if (embedder_) embedder_->log_summary();
  if (!drafter_) return;
  log_info("draft model",
           {{"file", drafter_->facts().file.path().filename().string()},
            {"layers", drafter_->facts().spec.n_layers},
            {"backend", drafter_->placed().backend},
            {"context", drafter_->facts().context_tokens},
            {"memory", megabytes(drafter_->facts().file.total_bytes() + reserved_bytes(*drafter_))}});
}

}  // namespace hearth
