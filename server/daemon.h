// Runs hearthd after its configuration has been accepted: binds the port, loads the model, serves, drains,
// and returns the exit code.
//
// Runs on main's thread. The HTTP server, the engine and the load have their own threads.
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <string>

#include "config/invocation.h"
#include "server/gate/auth.h"
#include "server/gate/routes.h"
#include "server/http/connection/tls_identity.h"
#include "server/http/http_server.h"
#include "server/metrics/metrics_page.h"
#include "server/model_pool.h"
#include "server/process/service_manager.h"
#include "server/process/stop_signals.h"
#include "server/sandbox.h"
#include "server/serving_model.h"

namespace hearth {

class Daemon {
 public:
  /// Binds the port. files: from open_checked(); ignored if the options name several models. signals and
  /// recorders must outlive the daemon. Throws ListenError, KeyFileError, TlsError, StartError or
  /// ReferenceError.
  Daemon(const Invocation& invocation, const Environment& environment, const std::string& version,
         ModelFiles files, const StopSignals& signals, const Recorders& recorders);
  ~Daemon();

  struct Outcome {
    int exit_code = 0;
    bool at_once = false;  // whether to end the process without waiting for its threads
  };
  /// Answers requests with 503 while the model loads, then serves until a stop signal arrives or the engine
  /// fails. Drains after a signal. Passes on the exceptions of the first load.
  Outcome run();

 private:
  using Clock = std::chrono::steady_clock;

  /// Called several times a second. Calls ModelPool::tick(), which loads, replaces and unloads models, and
  /// reports changes to the log and the service manager. Passes on the exceptions of the first load.
  void look_after_models();
  void log_progress(const ModelPool::Event& event);
  void tell_ready(const ModelHost& host);
  std::string of_requests() const;
  std::string url_of(const HttpServer& server) const;
  void skip_profiling();
  Outcome drain();
  Outcome end_after_failure(const std::string& why);
  Outcome abandon_loading();

  const Invocation invocation_;
  const Options& options_;  // options of invocation_
  const std::string version_;
  const Environment environment_;
  const Auth auth_;
  const std::unique_ptr<TlsIdentity> tls_;  // null without --tls-cert
  const CacheFolder cache_;
  Sandbox sandbox_;
  ModelFiles files_;  // empty after the load has begun
  const StopSignals& signals_;
  ServiceManager service_manager_;
  ModelPool pool_;  // declared before the servers, because they use it
  MetricsPage metrics_;
  const Routes routes_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<HttpServer> metrics_server_;  // null without --metrics-port

  std::future<bool> draining_;  // valid after a signal has requested a stop
  Clock::time_point last_progress_;
};

}  // namespace hearth
