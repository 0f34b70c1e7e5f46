// See the header.
#include "server/model_host.h"

#include <exception>
#include <utility>

#include "engine/residency/memory_limit.h"
#include "server/api/answer/respond.h"
#include "server/http/error_response.h"
#include "server/json/api_error.h"
#include "server/json/json.h"
#include "server/process/logging.h"
#include "server/process/start_error.h"

namespace hearth {
namespace {

using std::chrono::seconds;

/// Thrown by the progress function to end a load that was abandoned.
struct LoadAbandoned : std::exception {};

/// Upper estimate of a model's memory (weights, KV cache, scratch and neuron bundles), divided by the bytes
/// of its file.
constexpr double kBesideWeights = 1.5;

HttpResponse json_answer(int status, const Json& body) {
  HttpResponse response = json_response(body);
  response.status = status;
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

/// Returns the served model's options with the changes in the body. Throws RequestError.
Options wished_options(const Json& body, Options options) {
  const RequestFields fields(body);
  const std::optional<std::string> model = fields.string("model");
  if (!model || model->empty())
    refuse_param("model", "'model' must be the path of a GGUF file on the server's machine.");
  options.model = *model;
  if (const Json* names = fields.array("alias")) {
    options.alias.clear();
    for (const Json& name : *names) {
      if (!name.is_string())
        refuse_param("alias", "'alias' must hold strings, found " + describe(name) + ".");
      options.alias.push_back(name.get<std::string>());
    }
  }
  options.chat_template_file = fields.string("chat_template_file").value_or("");
  options.draft_model = fields.string("draft_model").value_or("");
  if (const std::optional<int64_t> context = fields.integer("context", 0, 1 << 24))
    options.context = static_cast<int>(*context);
  return options;
}

}  // namespace

ModelHost::ModelHost(const Options& options, const Environment& environment, CacheFolder cache,
                     std::string version, ServerState& state, const Recorders& recorders, bool one_of_several)
    : options_(options),
      environment_(environment),
      cache_(std::move(cache)),
      version_(std::move(version)),
      state_(state),
      recorders_(recorders),
      one_of_several_(one_of_several) {}

ModelHost::~ModelHost() = default;

void ModelHost::begin(ModelFiles files) { load({.options = options_, .files = std::move(files)}); }

void ModelHost::begin_unloaded() {
  is_starting_ = false;
  state_.set_absent(ServerState::Phase::kUnloaded, model_names(options_).front());
}

void ModelHost::load_now(const Options& options, ModelFiles files) {
  load({.options = options, .files = std::move(files)});
}

void ModelHost::unload() {
  state_.set_absent(ServerState::Phase::kUnloaded, current_->ready().name);
  leave(Clock::time_point::max());
}

ModelHost::Event ModelHost::tick() {
  const bool ready = loading_.valid() && take_loaded();
  look_after_leaving();
  take_wish();
  look_whether_idle();
  if (!one_of_several_) wake();
  if (ready) return Event::kReady;
  return loading_.valid() ? Event::kProgress : Event::kNone;
}

void ModelHost::load(Wish wish) {
  load_start_ = Clock::now();
  loading_options_ = wish.options;
  state_.set_progress(0);
  state_.set_loads(true);
  loading_ = std::async(std::launch::async, [this, wish = std::move(wish)]() mutable {
    return ServingModel::load(std::move(wish.files), wish.options, environment_, cache_, version_, recorders_,
                              [this](double fraction) {
                                state_.set_progress(fraction);
                                if (abandon_) throw LoadAbandoned();
                              });
  });
}

// If the load has ended, the loaded model begins to serve. Returns true if so.
bool ModelHost::take_loaded() {
  if (loading_.wait_for(seconds(0)) != std::future_status::ready) return false;
  state_.set_loads(false);
  std::string error;
  std::shared_ptr<ServingModel> loaded;
  try {
    loaded = loading_.get();
  } catch (const std::exception& failed) {
    if (is_starting_) throw;
    error = dynamic_cast<const std::bad_alloc*>(&failed) != nullptr ? "there is not enough free memory for it"
                                                                    : failed.what();
  }
  {
    const MutexLock lock(mutex_);
    replacing_by_.clear();
    last_error_ = error;
  }
  if (!loaded) {
    log_error("the model could not be loaded", {{"model", loading_options_.model}, {"why", error}});
    if (one_of_several_) {
      state_.refuse_waiting(error);
      return false;
    }
    if (current_ != nullptr) return false;  // the current model served during the load and still serves
    if (std::exchange(falls_back_, true)) {
      lose("neither " + loading_options_.model + " nor the previous model can be loaded: " + error);
      return false;
    }
    log_info("loading the previous model again", {{"model", options_.model}});
    load_again();
    return false;
  }
  falls_back_ = false;
  if (current_ != nullptr) leave(Clock::time_point::max());
  {
    const MutexLock lock(mutex_);
    options_ = loading_options_;
  }
  current_ = std::move(loaded);
  stamp_ = stamp_of(options_.model);
  last_busy_ = Clock::now();
  current_->log_summary();
  ReadyModel ready = current_->ready();
  ready.owner = current_;
  state_.set_ready(std::move(ready));
  is_starting_ = false;
  return true;
}

// Begins the requested replacement, if any.
void ModelHost::take_wish() {
  if (next_ && leaving_.empty() && !loading_.valid()) {
    load(*std::exchange(next_, std::nullopt));
    return;
  }
  if (is_starting_ || loading_.valid() || next_ || !leaving_.empty()) return;
  std::optional<Wish> wish;
  {
    const MutexLock lock(mutex_);
    wish = std::exchange(wish_, std::nullopt);
    if (wish) replacing_by_ = wish->options.model;
  }
  if (!wish) return;
  const bool beside = current_ != nullptr && has_room_beside(*wish);
  log_info("loading another model",
           {{"model", wish->options.model},
            {"loaded", beside ? "beside the current one" : "after the current one is unloaded"}});
  if (!beside && current_ != nullptr) {
    state_.set_absent(ServerState::Phase::kLoading, current_->ready().name);
    leave(Clock::now() + seconds(options_.drain_seconds));
    next_ = std::move(wish);
    return;
  }
  load(*std::move(wish));
}

// Stops serving the current model. It is freed after its last answer has ended. Answers that are running at
// the deadline are cut off.
void ModelHost::leave(Clock::time_point deadline) {
  current_->close_watchers();  // the event streams of open pages would keep the model alive
  leaving_.push_back({.model = std::move(current_), .deadline = deadline, .drained = {}});
  current_ = nullptr;
}

void ModelHost::look_after_leaving() {
  for (Leaving& one : leaving_) {
    // Each request refers to its model until the request is answered. When no request refers to the model,
    // only background answers may still use it.
    const bool in_use = one.model.use_count() > 1;
    if (!one.drained.valid()) {
      if (in_use && Clock::now() < one.deadline) continue;
      const Clock::time_point deadline =
          in_use ? Clock::now() : Clock::now() + seconds(options_.drain_seconds);
      one.drained = std::async(std::launch::async,
                               [model = one.model.get(), deadline] { return model->drain(deadline); });
    }
    if (in_use || one.drained.wait_for(seconds(0)) != std::future_status::ready) continue;
    one.model->finish_profile();
    log_info("unloaded", {{"model", one.model->ready().name}});
    one.model = nullptr;
  }
  std::erase_if(leaving_, [](const Leaving& one) { return one.model == nullptr; });
}

bool ModelHost::is_busy() const {
  if (current_ == nullptr) return false;
  const ReadyModel ready = current_->ready();
  const EngineStatus engine = ready.engine->status();
  const EngineStatus embedder = ready.embedder != nullptr ? ready.embedder->status() : EngineStatus();
  return engine.n_running + engine.n_waiting + embedder.n_running + embedder.n_waiting > 0;
}

void ModelHost::look_whether_idle() {
  if (!options_.idle_unload_minutes || current_ == nullptr || loading_.valid()) return;
  const ReadyModel ready = current_->ready();
  const EngineStatus embedder = ready.embedder != nullptr ? ready.embedder->status() : EngineStatus();
  const uint64_t steps = ready.engine->status().n_steps + embedder.n_steps;
  if (steps != std::exchange(last_steps_, steps) || is_busy()) last_busy_ = Clock::now();
  const std::chrono::duration<double, std::ratio<60>> allowed(*options_.idle_unload_minutes);
  if (Clock::now() - last_busy_ < allowed) return;
  log_info("the model was idle and is unloaded; the next request loads it",
           {{"model", ready.name}, {"minutes", *options_.idle_unload_minutes}});
  state_.set_absent(ServerState::Phase::kUnloaded, ready.name);
  leave(Clock::now() + seconds(options_.drain_seconds));
}

// Loads the unloaded model again if a request waits for it.
void ModelHost::wake() {
  if (!loading_.valid() && leaving_.empty() && state_.is_wanted()) load_again();
}

void ModelHost::load_again() try {
  load({.options = options_, .files = open_checked(options_)});
} catch (const StartError& gone) {
  lose(gone.what());
}

// Called if no model is left to serve. Waiting requests are refused, and main ends the process.
void ModelHost::lose(const std::string& why) {
  lost_ = why;
  state_.set_stopping();
}

// Whether the requested model can be loaded while the current one serves. Impossible with a GPU, which holds
// only one model at a time, or with a trace, which records only one model.
bool ModelHost::has_room_beside(const Wish& wish) const {
  if (options_.device != Options::Device::kCpu && current_->uses_device()) return false;
  return recorders_.timeline == nullptr && recorders_.experts == nullptr &&
         static_cast<double>(wish.files.bytes()) * kBesideWeights < static_cast<double>(available_bytes());
}

ModelHost::FileStamp ModelHost::stamp_of(const std::string& path) {
  std::error_code error;
  FileStamp stamp;
  stamp.time = std::filesystem::last_write_time(path, error);
  stamp.bytes = std::filesystem::file_size(path, error);
  return stamp;
}

void ModelHost::reload(const Options& now) {
  if (is_starting_) return;
  if (now.model == options_.model && stamp_of(now.model) == stamp_) return;
  Options options = options_;
  options.model = now.model;
  try {
    ModelFiles files = open_checked(options);
    const MutexLock lock(mutex_);
    wish_ = Wish{.options = std::move(options), .files = std::move(files)};
  } catch (const StartError& error) {
    log_error(std::string("SIGHUP: ") + error.what() + "; the current model stays");
  }
}

void ModelHost::start_profiling() { current_->start_profiling(environment_); }
bool ModelHost::skip_profiling() { return current_ != nullptr && current_->skip_profiling(); }

std::optional<std::string> ModelHost::failure() const {
  if (lost_) return lost_;
  return current_ != nullptr ? current_->failure() : std::nullopt;
}

bool ModelHost::drain(Clock::time_point deadline) {
  bool whole = current_ == nullptr || current_->drain(deadline);
  for (Leaving& one : leaving_) {
    whole = one.model->drain(deadline) && whole;
    if (one.drained.valid()) one.drained.wait();
  }
  return whole;
}

void ModelHost::finish_profile() {
  if (current_ != nullptr) current_->finish_profile();
  for (const Leaving& one : leaving_) one.model->finish_profile();
}

void ModelHost::finish_trace() {
  if (current_ != nullptr) current_->finish_trace();
}

HttpResponse ModelHost::handle_admin(const HttpRequest& request) try {
  if (request.method == "GET" || request.method == "HEAD") return describe();
  const Json body = parse_json_body(request.body);
  Options options;
  {
    const MutexLock lock(mutex_);
    options = options_;
  }
  options = wished_options(body, std::move(options));
  ModelFiles files = open_checked(options);
  const std::string path = options.model;
  {
    const MutexLock lock(mutex_);
    if (wish_ || !replacing_by_.empty()) {
      return error_response({409,
                             "another model is already being loaded; GET /admin/model says when it is ready",
                             "model", "busy"});
    }
    wish_ = Wish{.options = std::move(options), .files = std::move(files)};
  }
  return json_answer(202, {{"status", "loading"}, {"model", path}});
} catch (const StartError& error) {
  return error_response({400, error.what(), "model", "model_refused"});
} catch (const RequestError& error) {
  return error_response(error.error());
}

HttpResponse ModelHost::describe() const {
  const std::shared_ptr<const ReadyModel> served = state_.model();
  Json body = {{"model", served != nullptr ? Json(served->name) : Json()},
               {"status", state_.phase() == ServerState::Phase::kReady      ? "serving"
                          : state_.phase() == ServerState::Phase::kUnloaded ? "unloaded"
                          : state_.phase() == ServerState::Phase::kStopping ? "stopping"
                                                                            : "loading"}};
  const MutexLock lock(mutex_);
  const std::string coming = wish_ ? wish_->options.model : replacing_by_;
  if (!coming.empty()) body["loading"] = {{"model", coming}, {"progress", state_.progress()}};
  if (!last_error_.empty()) body["error"] = last_error_;
  return json_answer(200, body);
}

}  // namespace hearth
