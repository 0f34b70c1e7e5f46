// HTTP/1.1 over TCP: turns bytes into HttpRequests, hands them to one handler, sends what it returns.
//
// Sockets, waiting, threads and the parsing of requests are ours; cpp-httplib frames answers (http_framing). hearthd starts one server before the model is loaded and stops it last.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/http/http_types.h"
#include "server/json/api_error.h"

namespace hearth {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                        // 0: any free one
  uint64_t max_body_bytes = 16ull << 20;  // larger bodies are answered 413
  uint64_t max_bodies_bytes =
      256ull << 20;                    // bodies of all requests together; large ones beyond are told 503
  size_t max_threads = 192;            // requests answered at once; more are told 503
  size_t max_idle_connections = 1000;  // connections that wait for a request
  std::chrono::milliseconds head_time{10'000};  // a request's head must have arrived within
  std::chrono::milliseconds stall_time{
      30'000};  // a client that takes nothing of its answer for so long is cut
  /// The clock of head_time, of idle connections and of bodies that are slow to arrive. Any thread reads it.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  /// The form in which a request's client reads errors, decided by method, path and headers. Any thread.
  std::function<ErrorStyle(const HttpRequest&)> error_style = [](const HttpRequest&) {
    return ErrorStyle::kOpenAi;
  };
};

/// One answered request, for the access log.
struct AccessRecord {
  std::string method, path, remote_address, request_id;
  int status = 0;
  uint64_t bytes = 0;                          // sent, head and framing included
  double seconds = 0;                          // from the head's arrival to the last byte
  bool complete = true;                        // false: the client left, or the answer was broken off
  std::optional<GenerationRecord> generation;  // of an answer that was generated
  std::string key_name;                        // of the API key; empty: none
  std::string trace_id;                        // of the request's traceparent; empty: none, or malformed
};

class HttpServer {
 public:
  /// Called on many threads at once; may complete the request. Exceptions become 500 with nothing of them in the answer.
  using Handler = std::function<HttpResponse(HttpRequest&)>;
  using AccessLog = std::function<void(const AccessRecord&)>;
  /// Called when the handler throws, with the exception's what() and the request's id.
  using FailureLog = std::function<void(const std::string& what, const std::string& request_id)>;

  /// Binds the port; throws ListenError.
  HttpServer(const HttpServerOptions& options, Handler handler, AccessLog access_log, FailureLog failure_log);
  /// Stops at once.
  ~HttpServer();

  int port() const;
  /// Begins to answer. Call once.
  void start();
  /// From now on every answer carries Connection: close. Any thread.
  void stop_keeping_alive();
  /// Waits until nothing is being answered, or the time is over; goes on to answer meanwhile. Any thread.
  bool wait_until_idle(std::chrono::milliseconds time);
  /// Closes the port, waits until running answers have ended or the time is over, breaks off the rest.
  /// Idempotent.
  void stop(std::chrono::milliseconds grace);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace hearth
