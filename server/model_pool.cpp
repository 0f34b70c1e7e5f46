// See the header.
#include "server/model_pool.h"

#include <malloc.h>

#include <algorithm>
#include <exception>
#include <new>
#include <set>
#include <utility>
#include <variant>

#include "engine/planned_memory.h"
#include "engine/residency/memory_limit.h"
#include "profiler/engine_options.h"
#include "server/api/answer/respond.h"
#include "server/http/error_response.h"
#include "server/json/api_error.h"
#include "server/json/json.h"
#include "server/metrics/process_figures.h"
#include "server/model_files.h"
#include "server/models/eviction.h"
#include "server/process/logging.h"
#include "server/process/start_error.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

/// Part of the available memory that a budget of "auto" leaves to other programs.
constexpr double kLeftShare = 0.1;
/// Memory that requests and answers add to the process (measured by tests/soak.sh: 8 MB).
constexpr uint64_t kRequestBytes = 16'000'000;
constexpr double kGib = 1 << 30;

std::string words(uint64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

/// Returns the memory for models: the budget of the options or of the machine, less what the process itself
/// takes.
uint64_t budget_for_models(const Options& options) {
  const uint64_t bytes =
      options.ram_budget_gib
          ? bytes_of_gib(*options.ram_budget_gib)
          : static_cast<uint64_t>(static_cast<double>(available_bytes()) * (1 - kLeftShare));
  const uint64_t own = read_process_figures().resident_bytes + kRequestBytes;
  return bytes > own ? bytes - own : 0;
}

fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path found = fs::canonical(path, error);
  return error ? path : found;
}

HttpResponse admin_answer(int status, const Json& body) {
  HttpResponse response = json_response(body);
  response.status = status;
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

}  // namespace

bool names_several(const Options& options) {
  return !options.more_models.empty() || !options.models_folder.empty();
}

void check_options_of_several(const Options& options) {
  const std::pair<bool, const char*> single[] = {
      {!options.embedding_model.empty(), "--embedding-model (name this model with another --model instead)"},
      {!options.draft_model.empty(), "--draft-model"},
      {!options.chat_template_file.empty(), "--chat-template-file"},
      {!options.plan_file.empty(), "--plan-file"},
      {!options.trace.empty(), "--trace"},
      {!options.expert_trace.empty(), "--expert-trace"},
      {!options.alias.empty() && options.model.empty(), "--alias (it names the first --model)"}};
  for (const auto& [is_given, name] : single) {
    if (is_given)
      throw StartError(std::string(name) +
                       " belongs to a single model, but several are served; leave it out, or start another "
                       "hearthd for that model");
  }
}

ModelPool::Lane::Lane(ModelPool& pool, const Options& lane_options, std::string lane_name, bool is_of_folder)
    : options(lane_options),
      name(std::move(lane_name)),
      of_folder(is_of_folder),
      host(options, pool.environment_, pool.cache_, pool.version_, state, pool.recorders_,
           pool.has_several_) {}

ModelPool::ModelPool(const Options& options, const Environment& environment, CacheFolder cache,
                     std::string version, const Recorders& recorders)
    : options_(options),
      environment_(environment),
      cache_(std::move(cache)),
      version_(std::move(version)),
      recorders_(recorders),
      has_several_(names_several(options)) {
  if (has_several_) {
    add_several();
  } else {
    lanes_.push_back(std::make_unique<Lane>(*this, options_, std::string(), false));
  }
}

ModelPool::~ModelPool() = default;

void ModelPool::add_several() {
  check_options_of_several(options_);
  one_at_a_time_ =
      options_.device != Options::Device::kCpu && std::holds_alternative<cuda::Device>(find_device(options_));
  if (one_at_a_time_ && !options_.pin.empty())
    throw StartError("--pin has no use with a GPU, which has one model at a time; take --device cpu");
  budget_bytes_ = budget_for_models(options_);
  std::vector<std::string> paths = options_.more_models;
  if (!options_.model.empty()) paths.insert(paths.begin(), options_.model);
  std::set<std::string> names;
  for (size_t i = 0; i < paths.size(); ++i) {
    Options options = options_;
    options.model = paths[i];
    options.more_models.clear();
    if (i > 0) options.alias.clear();
    const std::vector<std::string> own = model_names(options);
    for (const std::string& name : own) {
      if (!names.insert(name).second)
        throw StartError("--model " + paths[i] + ": another model is also called '" + name +
                         "', so requests could not choose; rename the file");
    }
    lanes_.push_back(std::make_unique<Lane>(*this, options, own.front(), false));
    lanes_.back()->facts = describe_model(own.front(), paths[i]);
  }
  if (!options_.models_folder.empty()) add_folder(scan_models_folder(options_.models_folder));
  if (lanes_.empty())
    throw StartError("--models-folder " + options_.models_folder +
                     ": there is no model in it; put GGUF files there, or name one with --model");
  for (const std::string& pin : options_.pin) {
    const auto pinned = std::ranges::find_if(lanes_, [&](const std::unique_ptr<Lane>& lane) {
      const std::vector<std::string> own = model_names(lane->options);
      return std::ranges::find(own, pin) != own.end();
    });
    if (pinned == lanes_.end()) throw StartError("--pin " + pin + ": there is no model of this name");
    (*pinned)->is_pinned = true;
  }
  publish();
  log_info("several models share the memory",
           {{"models", lanes_.size()},
            {"budget", words(budget_bytes_)},
            {"at_a_time", one_at_a_time_ ? "one, because a GPU computes" : "as many as fit"}});
}

/// Adds the folder's models that have no lane yet, and lists exactly those that the folder has.
void ModelPool::add_folder(const FolderScan& scan) {
  for (const std::string& sentence : scan.left_out) log_warning(sentence);
  for (const std::unique_ptr<Lane>& lane : lanes_)
    if (lane->of_folder) lane->is_listed = false;
  for (const FolderModel& model : scan.models) {
    std::string name = model.name;
    const fs::path path = resolved(model.path);
    const auto same =
        std::ranges::find_if(lanes_, [&](const auto& lane) { return resolved(lane->options.model) == path; });
    if (same != lanes_.end()) {
      (*same)->is_listed = true;
      (*same)->facts = model;
      continue;
    }
    const auto is_taken = [&](const auto& lane) {
      const std::vector<std::string> own =
          lane->of_folder ? std::vector{lane->name} : model_names(lane->options);
      return lane->is_listed && std::ranges::find(own, name) != own.end();
    };
    if (std::ranges::any_of(lanes_, is_taken))
      name = model.path.lexically_relative(options_.models_folder).replace_extension().generic_string();
    if (std::ranges::any_of(lanes_, is_taken)) {
      log_warning(model.path.string() + " is left out: another model has its name");
      continue;
    }
    Options options = options_;
    options.model = model.path.string();
    options.more_models.clear();
    options.alias = {name};
    auto lane = std::make_unique<Lane>(*this, options, name, true);
    lane->facts = model;
    lane->host.begin_unloaded();
    const MutexLock lock(mutex_);
    lanes_.push_back(std::move(lane));
  }
}

/// Gives the list of models to the catalog.
void ModelPool::publish() {
  ModelCatalog::Models models;
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (!lane->is_listed) continue;
    const bool is_first = lane == lanes_.front() && !lane->of_folder;
    CatalogModel one{.names = lane->of_folder ? std::vector{lane->name} : model_names(lane->options),
                     .is_default = is_first,
                     .any_name = is_first && std::ranges::find(options_.alias, "*") != options_.alias.end(),
                     .facts = lane->facts.facts,
                     .context_tokens = std::min(lane->facts.usual_context, kDefaultContext),
                     .state = &lane->state};
    if (options_.context > 0) one.context_tokens = options_.context;
    models.push_back(std::make_shared<const CatalogModel>(std::move(one)));
  }
  catalog_.set(std::move(models));
}

/// Gives the only model, which has just been loaded, and its embedding model to the catalog.
void ModelPool::publish_only() {
  Lane& lane = *lanes_.front();
  ModelCatalog::Models models;
  const ApiContext& api = *lane.host.model()->ready().api;
  for (const EmbeddingTarget* target : api.targets()) {
    CatalogModel one{.names = target->names,
                     .any_name = models.empty() && api.model().any_name,
                     .facts = target->facts,
                     .context_tokens = target->context_tokens,
                     .state = &lane.state};
    one.facts->generates = models.empty() && api.model().generates();
    models.push_back(std::make_shared<const CatalogModel>(std::move(one)));
  }
  catalog_.set(std::move(models));
}

void ModelPool::begin(ModelFiles files) {
  if (!has_several_) return lanes_.front()->host.begin(std::move(files));
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (!lane->of_folder && lane != lanes_.front()) lane->host.begin_unloaded();
  }
  Lane& first = *lanes_.front();
  if (first.of_folder) return;
  files = {};  // plan() opens the files again
  Planned planned = plan(first);
  if (planned.bytes > budget_bytes_)
    throw StartError(first.name + " needs " + words(planned.bytes) + ", but the memory for models is " +
                     words(budget_bytes_) + " (--ram-budget); take a smaller --context or fewer --slots");
  first.held_bytes = planned.bytes;
  first.host.load_now(planned.options, std::move(planned.files));
}

std::vector<ModelPool::Event> ModelPool::tick() {
  // A model that becomes ready must not leave before the caller has heard of it, so this is first.
  if (has_several_) {
    tidy();
    if (!is_starting()) serve_waiting();
  }
  std::vector<Event> events;
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    const ModelHost::Event what = lane->host.tick();
    if (what == ModelHost::Event::kReady && !has_several_) publish_only();
    if (what != ModelHost::Event::kNone) events.push_back({what, &lane->host, lane->state.progress()});
  }
  return events;
}

/// Frees the memory of models that have left, and obeys /admin/model.
void ModelPool::tidy() {
  bool has_left = false;
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane->must_unload.exchange(false) && lane->host.model() != nullptr) unload(*lane, "it was requested");
    if (lane->host.holds_memory() || lane->held_bytes == 0) continue;
    lane->held_bytes = 0;
    has_left = true;
  }
  // The allocator would keep the small pieces, such as those of vocabularies.
  if (has_left) ::malloc_trim(0);
}

void ModelPool::serve_waiting() {
  std::vector<Lane*> waiting;
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane->host.model() != nullptr) lane->is_ordered = false;
    const bool is_wanted = lane->state.is_wanted() || lane->is_ordered;
    if (!is_wanted) lane->planned.reset();
    if (is_wanted && !lane->host.is_loading()) waiting.push_back(lane.get());
  }
  std::ranges::stable_sort(waiting, {}, [](const Lane* lane) { return lane->state.waiting_since(); });
  is_changing_ = !waiting.empty();
  for (Lane* lane : waiting) {
    if (!make_way(*lane)) return;  // the others wait for their turn
  }
}

/// Loads the model if there is room, or refuses it. Otherwise makes others leave and returns false.
bool ModelPool::make_way(Lane& lane) {
  // Its own last answers must end first, and then it has its turn.
  if (lane.host.holds_memory()) return true;
  std::optional<Planned>& planned = lane.planned;
  try {
    if (!planned) planned = plan(lane);
    if (const uint64_t pinned = memory_of_others(lane, true); planned->bytes + pinned > budget_bytes_)
      throw StartError("The model '" + lane.name + "' needs " + words(planned->bytes) +
                       " of memory, but the models may use " + words(budget_bytes_) + " together" +
                       (pinned > 0 ? ", of which pinned models hold " + words(pinned) : "") +
                       "; raise --ram-budget, or lower --context or --slots.");
  } catch (const StartError& error) {
    log_error("the model cannot be loaded", {{"model", lane.name}, {"why", error.what()}});
    planned.reset();
    lane.is_ordered = false;
    lane.state.refuse_waiting(error.what());
    return true;
  }
  const uint64_t used = memory_of_others(lane, false);
  const uint64_t needed = one_at_a_time_ ? budget_bytes_ : planned->bytes;
  if (used + needed <= budget_bytes_) {
    log_info(
        "loading",
        {{"model", lane.name}, {"memory", words(planned->bytes)}, {"free", words(budget_bytes_ - used)}});
    lane.held_bytes = planned->bytes;
    lane.is_ordered = false;
    lane.host.load_now(planned->options, std::move(planned->files));
    planned.reset();
    return true;
  }
  // Memory of models that have been told to leave will be free.
  uint64_t leaving = 0;
  std::vector<Resident> residents;
  std::vector<Lane*> owners;
  for (const std::unique_ptr<Lane>& other : lanes_) {
    if (other->host.model() == nullptr) {
      if (!other->host.is_loading()) leaving += other->held_bytes;
      continue;
    }
    residents.push_back({.bytes = other->held_bytes,
                         .may_leave = !other->is_pinned && !other->state.has_waiting(),
                         .is_busy = other->host.is_busy(),
                         .last_used = other->state.last_asked()});
    owners.push_back(other.get());
  }
  const uint64_t missing = used + needed - budget_bytes_;
  if (missing <= leaving) return false;
  if (const auto chosen = choose_leaving(residents, missing - leaving)) {
    for (const size_t i : *chosen) unload(*owners[i], "'" + lane.name + "' needs the memory");
  }
  return false;
}

void ModelPool::unload(Lane& lane, const std::string& why) {
  log_info("unloading", {{"model", lane.name},
                         {"why", why},
                         {"when", lane.host.is_busy() ? "its running answers have ended" : "now"}});
  lane.host.unload();
}

/// Returns the memory that is set aside for the other models, or only for pinned ones.
uint64_t ModelPool::memory_of_others(const Lane& lane, bool only_pinned) const {
  uint64_t sum = 0;
  for (const std::unique_ptr<Lane>& other : lanes_) {
    if (other.get() != &lane && (!only_pinned || other->is_pinned)) sum += other->held_bytes;
  }
  return sum;
}

/// Opens the model's files and computes the memory that it takes. Throws StartError.
ModelPool::Planned ModelPool::plan(const Lane& lane) const try {
  Planned planned{.files = open_checked(lane.options), .options = lane.options};
  const auto with_limit = [&](uint64_t limit) {
    planned.options.ram_budget_gib = static_cast<double>(limit) / kGib;
    LoadOptions load = engine_options(planned.options);
    load.file = planned.files.model;
    load.nextn = planned.options.speculate == Options::Speculate::kAuto;
    load.memory_limit_bytes = limit;
    planned.bytes = planned_memory(load).total();
  };
  with_limit(budget_bytes_);
  // Without room for the model and copies of its neurons, the model may do with fewer copies and contexts.
  const uint64_t file = planned.files.model->total_bytes();
  if (planned.bytes > budget_bytes_ && file < budget_bytes_) {
    try {
      with_limit(budget_bytes_ - file);
    } catch (const ModelFileError&) {  // the larger plan shows what the model needs
      with_limit(budget_bytes_);
    }
  }
  return planned;
} catch (const ModelFileError& error) {
  throw StartError(error.what());
} catch (const std::invalid_argument& error) {
  throw StartError(error.what());
}

void ModelPool::reload(const Options& now) {
  if (!has_several_) return lanes_.front()->host.reload(now);
  if (now.model != options_.model || now.more_models != options_.more_models)
    log_warning("SIGHUP: with several models, a changed --model takes effect at the next start");
  if (!options_.models_folder.empty()) {
    try {
      add_folder(scan_models_folder(options_.models_folder));
    } catch (const std::exception& error) {
      log_error(std::string("SIGHUP: ") + error.what() + "; the list of models stays");
    }
  }
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane->host.model() == nullptr || (lane->is_listed && !lane->host.file_has_changed())) continue;
    unload(*lane, lane->is_listed ? "its file has changed" : "its file is gone");
  }
  publish();
  log_info("SIGHUP: the models were listed again", {{"models", catalog_.models().size()}});
}

void ModelPool::start_profiling(const ModelHost& ready) {
  for (const std::unique_ptr<Lane>& lane : lanes_)
    if (&lane->host == &ready) lane->host.start_profiling();
}

bool ModelPool::skip_profiling() {
  bool skipped = false;
  for (const std::unique_ptr<Lane>& lane : lanes_) skipped = lane->host.skip_profiling() || skipped;
  return skipped;
}

std::optional<std::string> ModelPool::failure() const {
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (std::optional<std::string> why = lane->host.failure()) return why;
  }
  return std::nullopt;
}

void ModelPool::set_stopping() {
  for (const std::unique_ptr<Lane>& lane : lanes_) lane->state.set_stopping();
}

void ModelPool::abandon_loads() {
  for (const std::unique_ptr<Lane>& lane : lanes_) lane->host.abandon_load();
}

int ModelPool::n_unfinished() const {
  int n = 0;
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (lane->host.model() == nullptr) continue;
    const ReadyModel& ready = lane->host.model()->ready();
    for (const TokenGenerator* const engine : {ready.engine, ready.embedder}) {
      if (engine != nullptr) n += engine->status().n_running + engine->status().n_waiting;
    }
  }
  return n;
}

bool ModelPool::is_loading() const {
  return std::ranges::any_of(lanes_, [](const auto& lane) { return lane->host.is_loading(); });
}

bool ModelPool::has_ended() const {
  return std::ranges::all_of(lanes_, [](const auto& lane) { return lane->host.has_ended(); });
}

bool ModelPool::drain(Clock::time_point deadline) {
  bool whole = true;
  for (const std::unique_ptr<Lane>& lane : lanes_) whole = lane->host.drain(deadline) && whole;
  return whole;
}

void ModelPool::finish_profile() {
  for (const std::unique_ptr<Lane>& lane : lanes_) lane->host.finish_profile();
}

void ModelPool::finish_trace() {
  for (const std::unique_ptr<Lane>& lane : lanes_) lane->host.finish_trace();
}

HttpResponse ModelPool::handle_admin(const HttpRequest& request) try {
  if (!has_several_) return lanes_.front()->host.handle_admin(request);
  if (request.method == "GET" || request.method == "HEAD") return describe();
  const Json body = parse_json_body(request.body);
  const RequestFields fields(body);
  const std::string name = fields.string("model").value_or("");
  const std::string action = fields.word("action", {"load", "unload"}).value_or("load");
  const std::shared_ptr<const CatalogModel> model = catalog_.find(name, /*without_tag=*/false);
  const MutexLock lock(mutex_);
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (&lane->state != model->state) continue;
    lane->is_ordered = action == "load";
    lane->must_unload = action == "unload";
    return admin_answer(202, {{"status", action == "load" ? "loading" : "unloading"}, {"model", lane->name}});
  }
  return describe();
} catch (const RequestError& error) {
  return error_response(error.error());
}

HttpResponse ModelPool::describe() const {
  Json models = Json::array();
  uint64_t used = 0;
  const MutexLock lock(mutex_);
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    const uint64_t held = lane->held_bytes;
    used += held;
    const Json status = status_json(lane->state);
    Json one = {{"model", lane->name}, {"status", status["value"]}, {"pinned", lane->is_pinned}};
    if (held > 0) one["memory_bytes"] = held;
    if (status["value"] == "loading") one["progress"] = lane->state.progress();
    if (status.contains("error")) one["error"] = status["error"];
    models.push_back(std::move(one));
  }
  return admin_answer(200, {{"models", models}, {"budget_bytes", budget_bytes_}, {"used_bytes", used}});
}

}  // namespace hearth
