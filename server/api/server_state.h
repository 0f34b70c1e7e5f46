// The server's state (loading, ready, unloaded, stopping or failed), the served model, and the probes that
// report them.
//
// The load thread and main change the state; HTTP threads read it. Thread-safe.
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

/// The loaded model as the routes use it. A reference to this object keeps the model loaded.
struct ReadyModel {
  const ApiContext* api = nullptr;
  const TokenGenerator* engine = nullptr;
  std::string name;
  const TokenGenerator* embedder = nullptr;  // the embedding model's engine; null: no embedding model
  std::string embedder_name = {};
  std::shared_ptr<const void> owner = {};  // owns everything that the pointers above point to
};

class ServerState {
 public:
  /// kUnloaded: the model was unloaded because no request came for a long time (--idle-unload). The next
  /// request makes it load again and waits for it.
  enum class Phase { kLoading, kReady, kUnloaded, kStopping };
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  /// stale_after: while the engine has work, /health reports a failure if the engine's heartbeat is older
  /// than this.
  explicit ServerState(std::chrono::seconds stale_after = kStaleAfter,
                       Clock now = std::chrono::steady_clock::now)
      : stale_after_(stale_after), now_(std::move(now)) {}

  /// How old a heartbeat may be: longer than the slowest step that still makes progress. A prefill chunk of a
  /// 70B model on a CPU takes a minute.
  static constexpr std::chrono::seconds kStaleAfter{180};
  /// How long a request waits for an unloaded model. A large model takes this long to load from a slow disk.
  static constexpr std::chrono::seconds kPatience{900};

  void set_progress(double fraction) { progress_ = fraction; }
  /// Makes this model serve all requests from now on.
  void set_ready(ReadyModel model);
  /// Records that no model serves from now on. why: kLoading or kUnloaded. name: the model served last.
  void set_absent(Phase why, std::string name);
  void set_stopping();

  Phase phase() const;
  double progress() const { return progress_; }
  /// Returns the loaded model, or null if there is none now.
  std::shared_ptr<const ReadyModel> model() const;
  /// Like model(), for a request: if the model is unloaded, makes it load and waits for it up to `patience`.
  std::shared_ptr<const ReadyModel> await_model(std::chrono::seconds patience = kPatience) const;
  /// Whether a request waits for an unloaded model.
  bool is_wanted() const;
  /// Whether the engines are alive and, if they have work, send heartbeats. False while no model is loaded.
  bool engines_are_well() const;
  /// False if only a restart of the process helps. This is reported by /livez and to the service manager's
  /// watchdog.
  bool is_alive() const;
  /// Whether requests are served: the model is loaded, the server is not stopping, and engines_are_well().
  bool serves() const { return phase() == Phase::kReady && engines_are_well(); }
  // Answers to probes. They never wait for the engine. They need no key and reveal little: only health()
  // names the model.
  /// Returns 200 if requests are served, even if the model must first be loaded again; else 503 with
  /// Retry-After.
  HttpResponse health() const;
  /// Returns 200 while process and engines are alive, even while loading or stopping; 503 if only a restart
  /// helps.
  HttpResponse live() const;
  /// Returns the status code of health(). If that is 503, the body says why in a sentence and, while loading,
  /// contains the progress.
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
  std::string last_name_ HEARTH_GUARDED_BY(mutex_);      // name of the model served last
  mutable int n_wanting_ HEARTH_GUARDED_BY(mutex_) = 0;  // requests in await_model()
};

}  // namespace hearth
