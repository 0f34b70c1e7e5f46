// The server's state (loading, ready, unloaded or stopping) and the loaded model. ServerState also
// answers the probes.
//
// The load thread and main change the state, and HTTP threads read it. Thread-safe.
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
#include "server/json/json.h"

namespace hearth {

/// The loaded model as the routes use it. The model stays loaded while a reference to its ReadyModel exists.
struct ReadyModel {
  const ApiContext* api = nullptr;
  const TokenGenerator* engine = nullptr;
  std::string name;
  const TokenGenerator* embedder = nullptr;  // engine of the embedding model, or null
  std::string embedder_name = {};
  std::shared_ptr<const void> owner = {};  // owns the objects of the pointers above
};

/// Returns the answer to a probe: status 200 if all is good, otherwise 503.
HttpResponse probe_response(bool good, const Json& body);

class ServerState {
 public:
  /// kUnloaded: the model was unloaded because no request came for a long time (--idle-unload). The next
  /// request makes the server load the model again, and waits for it.
  enum class Phase { kLoading, kReady, kUnloaded, kStopping };
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  /// stale_after: /health reports a failure if the engine has work but its heartbeat is older than this.
  explicit ServerState(std::chrono::seconds stale_after = kStaleAfter,
                       Clock now = std::chrono::steady_clock::now)
      : stale_after_(stale_after), now_(std::move(now)) {}

  /// A heartbeat older than this is stale. The slowest step, a prefill chunk of a 70B model on a CPU, takes a
  /// minute.
  static constexpr std::chrono::seconds kStaleAfter{180};
  /// The maximum wait of a request while a model is loaded again. A large model on a slow disk takes this
  /// long to load.
  static constexpr std::chrono::seconds kPatience{900};

  void set_progress(double fraction) { progress_ = fraction; }
  /// Whether the model is being loaded now, also while the phase is kUnloaded.
  void set_loads(bool loads) { loads_ = loads; }
  bool loads() const { return loads_; }
  /// All requests from now on use this model.
  void set_ready(ReadyModel model);
  /// Records that no model is loaded from now on. why: kLoading or kUnloaded. name: the name of the last
  /// model.
  void set_absent(Phase why, std::string name);
  void set_stopping();

  Phase phase() const;
  double progress() const { return progress_; }
  /// Returns the loaded model, or null.
  std::shared_ptr<const ReadyModel> model() const;
  /// Like model(), but if the model is unloaded, waits up to `patience` until it is loaded again. During the
  /// wait, is_wanted() is true.
  std::shared_ptr<const ReadyModel> await_model(std::chrono::seconds patience = kPatience) const;
  /// The outcome of a wait. If `model` is null and the other members have their defaults, phase() shows why.
  struct Awaited {
    std::shared_ptr<const ReadyModel> model = {};
    std::string refusal = {};  // sentence of refuse_waiting()
    bool full = false;         // too many requests wait already
  };
  /// Like await_model(), for one of several models. At most `most` requests wait. Calls client_alive about
  /// once a second, and ends the wait if it returns false. A model that was set while the call waited is
  /// returned, even if it is unloaded soon after.
  Awaited await_turn(int most, const std::function<bool()>& client_alive,
                     std::chrono::seconds patience = kPatience) const;
  /// Ends all waits of await_turn(). why: a sentence for the clients.
  void refuse_waiting(std::string why);
  /// Returns the sentence of the last refusal, or an empty text if the model was loaded after it.
  std::string last_refusal() const;
  /// Whether a request waits for an unloaded model. ModelHost then loads the model again.
  bool is_wanted() const;
  /// Whether requests wait, or have not yet taken the model for which they waited.
  bool has_waiting() const;
  /// Returns the time since when requests have been waiting, or the current time if none waits.
  std::chrono::steady_clock::time_point waiting_since() const;
  /// Returns the time of the last request for the model.
  std::chrono::steady_clock::time_point last_asked() const;
  /// Whether a model is loaded, its engines have not failed, and engines with work send heartbeats.
  bool engines_are_well() const;
  /// False if only a restart of the process helps. /livez and the service manager's watchdog report this.
  bool is_alive() const;
  /// Whether the model is loaded, the server is not stopping, and engines_are_well().
  bool serves() const { return phase() == Phase::kReady && engines_are_well(); }
  // The answers to probes never wait for the engine. They need no key and reveal little: only health()
  // contains the model's name.
  /// Returns 200 if requests are served, even if the model must first be loaded again. Otherwise returns 503
  /// with Retry-After.
  HttpResponse health() const;
  /// Returns 503 if only a restart of the process helps. Otherwise returns 200, also while the model is
  /// loading or the server is stopping.
  HttpResponse live() const;
  /// Returns the status code of health(). With status 503, the body contains a sentence that explains the
  /// reason and, while the model is loading, the progress.
  HttpResponse ready() const;

 private:
  bool is_well(const EngineStatus& status) const;
  bool is_well(const ReadyModel& model) const;

  const std::chrono::seconds stale_after_;
  const Clock now_;
  std::atomic<double> progress_{0};
  std::atomic<bool> loads_{false};
  mutable Mutex mutex_;
  mutable std::condition_variable changed_;
  Phase phase_ HEARTH_GUARDED_BY(mutex_) = Phase::kLoading;
  std::shared_ptr<const ReadyModel> model_ HEARTH_GUARDED_BY(mutex_);
  std::string last_name_ HEARTH_GUARDED_BY(mutex_);      // name of the model served last
  mutable int n_wanting_ HEARTH_GUARDED_BY(mutex_) = 0;  // requests in await_model() or await_turn()
  mutable std::chrono::steady_clock::time_point waiting_since_ HEARTH_GUARDED_BY(mutex_);
  mutable std::chrono::steady_clock::time_point last_asked_ HEARTH_GUARDED_BY(mutex_);
  uint64_t n_refusals_ HEARTH_GUARDED_BY(mutex_) = 0;
  std::string refusal_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth
