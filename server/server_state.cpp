// See the header.
#include "server/server_state.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace hearth {
namespace {

void add_engine(nlohmann::ordered_json& body, const std::string& name, const EngineStatus& status) {
  body["model"] = name;
  body["slots"] = {{"total", status.n_slots}, {"running", status.n_running}};
  body["waiting"] = status.n_waiting;
}

HttpResponse probe_response(bool good, const nlohmann::ordered_json& body) {
  HttpResponse response;
  response.status = good ? 200 : 503;
  if (!good) response.headers.emplace_back("Retry-After", "1");
  response.headers.emplace_back("Cache-Control", "no-store");
  response.body = body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return response;
}

}  // namespace

void ServerState::set_ready(ReadyModel model) {
  model_ = std::move(model);
  has_model_ = true;
  Phase loading = Phase::kLoading;
  phase_.compare_exchange_strong(loading, Phase::kReady);  // a stop in between stays a stop
}

bool ServerState::is_well(const EngineStatus& status) const {
  const bool has_work = status.n_running + status.n_waiting > 0;
  const bool stale = std::chrono::steady_clock::now() - status.heartbeat > stale_after_;
  return !status.failed && !(has_work && stale);
}

bool ServerState::engines_are_well() const {
  return has_model_ && is_well(model_.engine->status()) &&
         (model_.embedder == nullptr || is_well(model_.embedder->status()));
}

HttpResponse ServerState::health() const {
  nlohmann::ordered_json body;
  bool serving = false;
  const Phase phase = phase_;
  if (phase == Phase::kLoading) {
    body = {{"status", "loading"}, {"progress", std::clamp(progress_.load(), 0.0, 1.0)}};
  } else if (phase == Phase::kStopping) {
    body["status"] = "stopping";
  } else {
    const EngineStatus status = model_.engine->status();
    const EngineStatus embedder = model_.embedder != nullptr ? model_.embedder->status() : EngineStatus();
    serving = is_well(status) && (model_.embedder == nullptr || is_well(embedder));
    body["status"] = serving ? "ok" : status.failed || embedder.failed ? "failed" : "stuck";
    if (status.failed || embedder.failed) body["reason"] = status.failed ? status.failure : embedder.failure;
    add_engine(body, model_.name, status);
    if (model_.embedder != nullptr) add_engine(body["embedding"], model_.embedder_name, embedder);
  }
  return probe_response(serving, body);
}

HttpResponse ServerState::live() const {
  if (is_alive()) return probe_response(true, {{"status", "ok"}});
  return probe_response(
      false,
      {{"status", "stuck"},
       {"message", "the engine has failed, or has work and has shown no sign of life for " +
                       std::to_string(stale_after_.count()) + " s; only a restart of the process helps"}});
}

HttpResponse ServerState::ready() const {
  const Phase phase = phase_;
  if (phase == Phase::kLoading) {
    const double done = std::clamp(progress_.load(), 0.0, 1.0);
    return probe_response(false, {{"status", "loading"},
                                  {"progress", done},
                                  {"message", "the model is being loaded (" +
                                                  std::to_string(static_cast<int>(done * 100)) + " %)"}});
  }
  if (phase == Phase::kStopping) {
    return probe_response(false, {{"status", "stopping"},
                                  {"message", "the server finishes its running answers and then ends"}});
  }
  return live();
}

}  // namespace hearth
