// HTTP/1.1 over TCP: turns bytes into HttpRequests, passes them to the gate and the handler it names, and
// sends the answers.
//
// This folder implements sockets, waiting, threads and request parsing; cpp-httplib writes the heads of
// answers (http_framing). hearthd starts the server before the model is loaded and stops it last.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/http/admission.h"
#include "server/http/http_types.h"
#include "server/json/api_error.h"

namespace hearth {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                              // 0: any free port
  uint64_t max_body_bytes = 16ull << 20;        // larger bodies get 413
  uint64_t max_bodies_bytes = 256ull << 20;     // total of all bodies; large ones beyond it get 503
  size_t max_threads = 192;                     // requests answered at once; more get 503
  size_t max_idle_connections = 1000;           // connections that wait for a request
  std::chrono::milliseconds head_time{10'000};  // limit for the arrival of a request's head
  std::chrono::milliseconds stall_time{
      30'000};  // a client that takes no bytes of its answer for this long is cut
  /// Clock for head_time, idle connections and slow bodies. Any thread reads it.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  /// The error format that a request's client reads, chosen by method, path and headers. Any thread.
  std::function<ErrorStyle(const HttpRequest&)> error_style = [](const HttpRequest&) {
    return ErrorStyle::kOpenAi;
  };
};

/// One answered request, for the access log.
struct AccessRecord {
  std::string method, path, remote_address, request_id;
  int status = 0;
  uint64_t bytes = 0;                          // sent, including head and framing
  double seconds = 0;                          // from the head's arrival to the last byte
  bool complete = true;                        // false: the client left, or the answer was broken off
  std::optional<GenerationRecord> generation;  // set if the answer was generated
  std::string key_name;                        // name of the API key; empty: none
  std::string trace_id;                        // from the request's traceparent; empty: none or malformed
};

class HttpServer {
 public:
  /// Decides what becomes of a request from its head; may set its sender and client. Called on many threads
  /// at once. An exception becomes a 500 that does not repeat its text.
  using Gate = std::function<Admission(HttpRequest&)>;
  using AccessLog = std::function<void(const AccessRecord&)>;
  /// Called when the gate or a handler throws, with the exception's what() and the request's id.
  using FailureLog = std::function<void(const std::string& what, const std::string& request_id)>;

  /// Binds the port; throws ListenError.
  HttpServer(const HttpServerOptions& options, Gate gate, AccessLog access_log, FailureLog failure_log);
  /// Stops at once, breaking off running answers.
  ~HttpServer();

  int port() const;
  /// Starts answering. Call once.
  void start();
  /// Makes every later answer carry Connection: close. Any thread.
  void stop_keeping_alive();
  /// Waits until no request is being answered, or until the time is over; the server keeps answering. Returns
  /// whether it is idle. Any thread.
  bool wait_until_idle(std::chrono::milliseconds time);
  /// Closes the port, waits up to `grace` for running answers to end, then breaks off the rest. Idempotent.
  void stop(std::chrono::milliseconds grace);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace hearth
