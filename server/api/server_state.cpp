// See the header.
#include "server/api/server_state.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace hearth {
namespace {

void add_engine(nlohmann::ordered_json& body, const std::string& name, const EngineStatus& status) {
  body["model"] = name;
  body["slots"] = {{"total", status.n_slots}, {"running", status.n_running}};
  body["waiting"] = status.n_waiting;
}

}  // namespace

HttpResponse probe_response(bool good, const Json& body) {
  HttpResponse response;
  response.status = good ? 200 : 503;
  if (!good) response.headers.emplace_back("Retry-After", "1");
  response.headers.emplace_back("Cache-Control", "no-store");
  response.body = json_text(body);
  return response;
}

void ServerState::set_ready(ReadyModel model) {
  const MutexLock lock(mutex_);
  last_name_ = model.name;
  model_ = std::make_shared<const ReadyModel>(std::move(model));
  refusal_.clear();
  // The server may have begun to stop during the load.
  if (phase_ != Phase::kStopping) phase_ = Phase::kReady;
  changed_.notify_all();
}

void ServerState::set_absent(Phase why, std::string name) {
  const MutexLock lock(mutex_);
  model_ = nullptr;
  last_name_ = std::move(name);
  if (phase_ != Phase::kStopping) phase_ = why;
  changed_.notify_all();
}

void ServerState::set_stopping() {
  const MutexLock lock(mutex_);
  phase_ = Phase::kStopping;
  changed_.notify_all();
}

ServerState::Phase ServerState::phase() const {
  const MutexLock lock(mutex_);
  return phase_;
}

std::shared_ptr<const ReadyModel> ServerState::model() const {
  const MutexLock lock(mutex_);
  return model_;
}

std::shared_ptr<const ReadyModel> ServerState::await_model(std::chrono::seconds patience) const {
  MutexLock lock(mutex_);
  if (phase_ != Phase::kUnloaded) return model_;
  ++n_wanting_;
  changed_.wait_for(lock.for_wait(), patience,
                    [this]() HEARTH_REQUIRES(mutex_) { return phase_ != Phase::kUnloaded; });
  --n_wanting_;
  return model_;
}

ServerState::Awaited ServerState::await_turn(int most, const std::function<bool()>& client_alive,
                                             std::chrono::seconds patience) const {
  using SteadyClock = std::chrono::steady_clock;
  MutexLock lock(mutex_);
  last_asked_ = SteadyClock::now();
  if (phase_ != Phase::kUnloaded) return {.model = model_};
  if (n_wanting_ >= most) return {.full = true};
  if (n_wanting_++ == 0) waiting_since_ = last_asked_;
  const SteadyClock::time_point deadline = last_asked_ + patience;
  const uint64_t n_refusals = n_refusals_;
  const auto has_ended = [this, n_refusals]() HEARTH_REQUIRES(mutex_) {
    return phase_ != Phase::kUnloaded || n_refusals_ != n_refusals;
  };
  while (!has_ended() && SteadyClock::now() < deadline) {
    changed_.wait_for(lock.for_wait(), std::chrono::seconds(1), has_ended);
    if (has_ended()) break;
    lock.unlock();
    const bool alive = client_alive();
    lock.lock();
    if (!alive) break;
  }
  if (n_refusals_ != n_refusals) return {.refusal = refusal_};  // which has set n_wanting_ to 0
  --n_wanting_;
  return {.model = model_};
}

void ServerState::refuse_waiting(std::string why) {
  const MutexLock lock(mutex_);
  ++n_refusals_;
  n_wanting_ = 0;
  refusal_ = std::move(why);
  changed_.notify_all();
}

std::string ServerState::last_refusal() const {
  const MutexLock lock(mutex_);
  return refusal_;
}

bool ServerState::has_waiting() const {
  const MutexLock lock(mutex_);
  return n_wanting_ > 0;
}

std::chrono::steady_clock::time_point ServerState::waiting_since() const {
  const MutexLock lock(mutex_);
  return n_wanting_ > 0 ? waiting_since_ : std::chrono::steady_clock::now();
}

std::chrono::steady_clock::time_point ServerState::last_asked() const {
  const MutexLock lock(mutex_);
  return last_asked_;
}

bool ServerState::is_wanted() const {
  const MutexLock lock(mutex_);
  return phase_ == Phase::kUnloaded && n_wanting_ > 0;
}

bool ServerState::is_well(const EngineStatus& status) const {
  const bool has_work = status.n_running + status.n_waiting > 0;
  const bool stale = now_() - status.heartbeat > stale_after_;
  return !status.failed && !(has_work && stale);
}

bool ServerState::is_well(const ReadyModel& model) const {
  return is_well(model.engine->status()) && (model.embedder == nullptr || is_well(model.embedder->status()));
}

bool ServerState::engines_are_well() const {
  const std::shared_ptr<const ReadyModel> ready = model();
  return ready != nullptr && is_well(*ready);
}

bool ServerState::is_alive() const {
  const std::shared_ptr<const ReadyModel> ready = model();
  return ready == nullptr || is_well(*ready);
}

HttpResponse ServerState::health() const {
  nlohmann::ordered_json body;
  bool serving = false;
  std::shared_ptr<const ReadyModel> ready;
  Phase phase;
  std::string last_name;
  {
    const MutexLock lock(mutex_);
    ready = model_;
    phase = phase_;
    last_name = last_name_;
  }
  if (phase == Phase::kLoading) {
    body = {{"status", "loading"}, {"progress", std::clamp(progress_.load(), 0.0, 1.0)}};
  } else if (phase == Phase::kStopping) {
    body["status"] = "stopping";
  } else if (phase == Phase::kUnloaded) {
    serving = true;
    body = {{"status", "unloaded"}, {"model", last_name}};
  } else {
    const EngineStatus status = ready->engine->status();
    const EngineStatus embedder = ready->embedder != nullptr ? ready->embedder->status() : EngineStatus();
    serving = is_well(status) && (ready->embedder == nullptr || is_well(embedder));
    body["status"] = serving ? "ok" : status.failed || embedder.failed ? "failed" : "stuck";
    if (status.failed || embedder.failed) body["reason"] = status.failed ? status.failure : embedder.failure;
    add_engine(body, ready->name, status);
    if (ready->embedder != nullptr) add_engine(body["embedding"], ready->embedder_name, embedder);
  }
  return probe_response(serving, body);
}

HttpResponse ServerState::live() const {
  if (is_alive()) return probe_response(true, {{"status", "ok"}});
  return probe_response(false, {{"status", "stuck"},
                                {"message", "the engine has failed, or has made no progress for " +
                                                std::to_string(stale_after_.count()) +
                                                " s although requests are running; restart the process"}});
}

HttpResponse ServerState::ready() const {
  const Phase phase = this->phase();
  if (phase == Phase::kLoading) {
    const double done = std::clamp(progress_.load(), 0.0, 1.0);
    return probe_response(false, {{"status", "loading"},
                                  {"progress", done},
                                  {"message", "the model is being loaded (" +
                                                  std::to_string(static_cast<int>(done * 100)) + " %)"}});
  }
  if (phase == Phase::kStopping) {
    return probe_response(false, {{"status", "stopping"},
                                  {"message", "the server is finishing running answers before it stops"}});
  }
  return live();
}

}  // namespace hearth
