// HTTP/1.1 over TCP: turns bytes into HttpRequests, passes them to the gate and to the handler that the gate
// chooses, and sends the answers.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "kernels/base/mutex.h"
#include "server/http/admission.h"
#include "server/http/connection/connection_poller.h"
#include "server/http/connection/worker_pool.h"
#include "server/http/http_types.h"
#include "server/http/message/body_memory.h"
#include "server/json/api_error.h"

namespace hearth {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                              // 0: any free port
  uint64_t max_body_bytes = 16ull << 20;        // larger bodies get 413
  uint64_t max_bodies_bytes = 256ull << 20;     // for all bodies together; a large body beyond it gets 503
  size_t max_threads = 192;                     // requests answered at once; more get 503
  size_t max_idle_connections = 1000;           // connections that wait for a request
  std::chrono::milliseconds head_time{10'000};  // limit for the arrival of a request's head
  std::chrono::milliseconds stall_time{
      30'000};  // a client that takes no bytes of its answer for this long is cut off
  /// Clock for head_time, idle connections and slow bodies. Any thread reads it.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  /// The error format that a request's client reads, chosen by method, path and headers. Any thread.
  std::function<ErrorStyle(const HttpRequest&)> error_style = [](const HttpRequest&) {
    return ErrorStyle::kOpenAi;
  };
};

class HttpServer {
 public:
  /// Decides from a request's head how the request is handled; may set its sender and client. Called on many
  /// threads at once. An exception becomes a 500 that does not repeat its text.
  using Gate = std::function<Admission(HttpRequest&)>;
  using AccessLog = std::function<void(const AccessRecord&)>;
  /// Called when the gate or a handler throws, with the exception's what() and the request's id. Also called,
  /// with an empty id, if memory runs out before the gate is called or after the handler has returned. Must
  /// not throw.
  using FailureLog = std::function<void(const std::string& what, const std::string& request_id)>;

  /// Binds the port; throws ListenError.
  HttpServer(const HttpServerOptions& options, Gate gate, AccessLog access_log, FailureLog failure_log);
  /// Stops at once, breaking off running answers.
  ~HttpServer();

  int port() const { return port_; }
  /// Starts answering. Call once.
  void start();
  /// Makes every later answer carry Connection: close. Any thread.
  void stop_keeping_alive() { keeping_alive_ = false; }
  /// Waits until no request is being answered or `time` has passed; the server keeps answering. Returns
  /// whether it is idle. Any thread.
  bool wait_until_idle(std::chrono::milliseconds time);
  /// Closes the port, waits up to `grace` for running answers to end, then breaks off those that still run.
  /// Idempotent.
  void stop(std::chrono::milliseconds grace);

 private:
  class Active;
  class Exchange;
  class Receiving;

  void serve(std::unique_ptr<Connection> connection);
  bool answer_request(Connection& connection);
  bool hand_over(std::unique_ptr<Connection>& connection);
  void cut_slow_bodies(const Connection* except);

  const HttpServerOptions options_;
  const Gate gate_;
  const AccessLog access_log_;
  const FailureLog failure_log_;
  int port_ = 0;
  std::atomic<bool> keeping_alive_{true};
  BodyMemory body_memory_;
  LargeBodyPlaces large_bodies_;

  Mutex mutex_;
  std::condition_variable served_;
  std::set<Connection*> active_ HEARTH_GUARDED_BY(mutex_);  // connections held by workers
  // Connections of active_ whose bodies are still arriving, with the times when they began to arrive.
  std::map<Connection*, SteadyTime> receiving_ HEARTH_GUARDED_BY(mutex_);

  // Declared before the pool, because workers give connections back to the poller until they are joined.
  std::unique_ptr<ConnectionPoller> poller_;
  std::unique_ptr<WorkerPool> pool_;
};

}  // namespace hearth
