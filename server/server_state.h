// The server's state (loading, ready, stopping or failed), and the answer of /health, which reports it.
//
// The load thread and main change it, HTTP threads read it. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "engine/engine.h"
#include "server/api/api_context.h"
#include "server/http/http_types.h"

namespace hearth {

/// The loaded model as the routes need it. What it points to outlives the server.
struct ReadyModel {
  const ApiContext* api = nullptr;
  const TokenGenerator* engine = nullptr;
  std::string name;
  const TokenGenerator* embedder = nullptr;  // the embedding model's engine; null: there is none
  std::string embedder_name = {};
};

class ServerState {
 public:
  enum class Phase { kLoading, kReady, kStopping };

  /// stale_after: how old the engine's heartbeat may be while there is work before /health says so.
  explicit ServerState(std::chrono::seconds stale_after = kStaleAfter) : stale_after_(stale_after) {}

  /// Longer than the slowest step that is still progress: a chunk of prefill of a 70B model on a CPU takes a
  /// minute.
  static constexpr std::chrono::seconds kStaleAfter{180};

  void set_progress(double fraction) { progress_ = fraction; }
  /// Called once.
  void set_ready(ReadyModel model);
  void set_stopping() { phase_ = Phase::kStopping; }

  Phase phase() const { return phase_; }
  double progress() const { return progress_; }
  /// The loaded model, valid as long as this object; null while loading.
  const ReadyModel* model() const { return has_model_ ? &model_ : nullptr; }
  /// Are the engines alive and, if they have work, beating? False while loading.
  bool engines_are_well() const;
  /// False if only a restart of the process helps; what /livez and the watchdog of the service manager are told.
  bool is_alive() const { return !has_model_ || engines_are_well(); }
  /// Whether requests are served: the model is loaded, nothing stops, and engines_are_well().
  bool serves() const { return phase_ == Phase::kReady && engines_are_well(); }
  // The answers to probes. They never wait for the engine, and need no key, so only health() names the model.
  /// 200 if requests are served; else 503 with Retry-After.
  HttpResponse health() const;
  /// 200 while process and engines are alive, also while loading and stopping; 503 if only a restart helps.
  HttpResponse live() const;
  /// The status of health(), with a sentence and, while loading, the progress.
  HttpResponse ready() const;

 private:
  bool is_well(const EngineStatus& status) const;

  const std::chrono::seconds stale_after_;
  std::atomic<Phase> phase_{Phase::kLoading};
  std::atomic<double> progress_{0};
  std::atomic<bool> has_model_{false};  // model_ is written before this becomes true, and never again
  ReadyModel model_;
};

}  // namespace hearth
