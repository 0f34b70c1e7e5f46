// The server's state (loading, ready, unloaded, stopping or failed), the model that is served, and the answers to probes,
// which report it.
//
// The load thread and main change it, HTTP threads read it. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "engine/engine.h"
#include "kernels/base/mutex.h"
#include "server/api/api_context.h"
#include "server/http/http_types.h"

namespace hearth {

/// The loaded model as the routes need it. Whoever holds one keeps the model loaded.
struct ReadyModel {
  const ApiContext* api = nullptr;
  const TokenGenerator* engine = nullptr;
  std::string name;
  const TokenGenerator* embedder = nullptr;  // the embedding model's engine; null: there is none
  std::string embedder_name = {};
  std::shared_ptr<const void> owner = {};  // of all that is pointed to
};

class ServerState {
 public:
  /// kUnloaded: nobody has asked for long (--idle-unload); the next request has the model loaded, and waits for it.
  enum class Phase { kLoading, kReady, kUnloaded, kStopping };
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  /// stale_after: how old the engine's heartbeat may be while there is work before /health says so.
  explicit ServerState(std::chrono::seconds stale_after = kStaleAfter,
                       Clock now = std::chrono::steady_clock::now)
      : stale_after_(stale_after), now_(std::move(now)) {}

  /// Longer than the slowest step that is still progress: a chunk of prefill of a 70B model on a CPU takes a
  /// minute.
  static constexpr std::chrono::seconds kStaleAfter{180};
  /// How long a request waits for an unloaded model: as long as large ones take from slow disks.
  static constexpr std::chrono::seconds kPatience{900};

  void set_progress(double fraction) { progress_ = fraction; }
  /// From now on requests are served by this model.
  void set_ready(ReadyModel model);
  /// There is no model from now on: kLoading or kUnloaded says why. name: what was served last.
  void set_absent(Phase why, std::string name);
  void set_stopping();

  Phase phase() const;
  double progress() const { return progress_; }
  /// The loaded model; null: there is none now.
  std::shared_ptr<const ReadyModel> model() const;
  /// The same for a request. If the model is unloaded, has it loaded and waits for it, at most so long.
  std::shared_ptr<const ReadyModel> await_model(std::chrono::seconds patience = kPatience) const;
  /// Whether a request waits for an unloaded model.
  bool is_wanted() const;
  /// Are the engines alive and, if they have work, beating? False while loading.
  bool engines_are_well() const;
  /// False if only a restart of the process helps; what /livez and the watchdog of the service manager are told.
  bool is_alive() const;
  /// Whether requests are served: the model is loaded, nothing stops, and engines_are_well().
  bool serves() const { return phase() == Phase::kReady && engines_are_well(); }
  // The answers to probes. They never wait for the engine, and need no key, so only health() names the model.
  /// 200 if requests are served; else 503 with Retry-After.
  HttpResponse health() const;
  /// 200 while process and engines are alive, also while loading and stopping; 503 if only a restart helps.
  HttpResponse live() const;
  /// The status of health(), with a sentence and, while loading, the progress.
  HttpResponse ready() const;

 private:
  bool is_well(const EngineStatus& status) const;
  bool is_well(const ReadyModel& model) const;

  const std::chrono::seconds stale_after_;
  const Clock now_;
  std::atomic<double> progress_{0};
  mutable Mutex mutex_;
  mutable std::condition_variable changed_;
  Phase phase_ HEARTH_GUARDED_BY(mutex_) = Phase::kLoading;
  std::shared_ptr<const ReadyModel> model_ HEARTH_GUARDED_BY(mutex_);
  std::string last_name_ HEARTH_GUARDED_BY(mutex_);      // of the model that was served last
  mutable int n_wanting_ HEARTH_GUARDED_BY(mutex_) = 0;  // requests in await_model()
};

}  // namespace hearth
