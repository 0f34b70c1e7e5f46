// HTTP/1.1 over TCP: converts bytes to HttpRequests, passes them to the gate and then to the handler that the
// gate selects, and sends the answers.
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
  int port = 8080;                           // 0: any free port
  uint64_t max_body_bytes = 16ull << 20;     // larger bodies get 413
  uint64_t max_bodies_bytes = 256ull << 20;  // limit of all bodies together; large bodies beyond it get 503
  size_t max_threads = 192;                  // limit of running requests; more requests get 503
  size_t max_idle_connections = 1000;        // connections that wait for a request
  std::chrono::milliseconds head_time{10'000};  // time limit for receiving a request's head
  // A client that reads no bytes of its answer for this long is cut off.
  std::chrono::milliseconds stall_time{30'000};
  const TlsIdentity* tls = nullptr;  // HTTPS with this certificate; null: HTTP. Must outlive the server.
  /// Clock for head_time, idle connections and slow bodies. Any thread may call it.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  /// Returns the error format for a request's client. Reads the method, path and headers. Any thread may call
  /// it.
  std::function<ErrorStyle(const HttpRequest&)> error_style = [](const HttpRequest&) {
    return ErrorStyle::kOpenAi;
  };
};

class HttpServer {
 public:
  /// Decides, from the head of a request, how it is handled. May set the request's sender and client. Called
  /// on many threads at once. An exception causes a 500 without the exception's text.
  using Gate = std::function<Admission(HttpRequest&)>;
  using AccessLog = std::function<void(const AccessRecord&)>;
  /// Called if the gate or a handler throws, with the exception's what() and the request's id. If memory runs
  /// out before the gate or after the handler, called with an empty id. Must not throw.
  using FailureLog = std::function<void(const std::string& what, const std::string& request_id)>;

  /// Binds the port. Throws ListenError.
  HttpServer(const HttpServerOptions& options, Gate gate, AccessLog access_log, FailureLog failure_log);
  /// Stops immediately and breaks off running answers.
  ~HttpServer();

  int port() const { return port_; }
  /// Starts to answer requests. Call once.
  void start();
  /// Makes every later answer contain Connection: close. Any thread may call it.
  void stop_keeping_alive() { keeping_alive_ = false; }
  /// Waits up to `time` until no request is running. The server continues to answer. Returns whether no
  /// request is running. Any thread may call it.
  bool wait_until_idle(std::chrono::milliseconds time);
  /// Closes the port, waits up to `grace` for running answers, then breaks off the rest. Later calls have no
  /// effect.
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
  // Connections in active_ whose bodies are arriving, and the time when each body began to arrive.
  std::map<Connection*, SteadyTime> receiving_ HEARTH_GUARDED_BY(mutex_);

  // Declared before the pool, because running workers return connections to the poller.
  std::unique_ptr<ConnectionPoller> poller_;
  std::unique_ptr<WorkerPool> pool_;
};

}  // namespace hearth
