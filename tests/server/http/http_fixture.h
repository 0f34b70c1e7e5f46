// A server with a handler of the test's own, for the tests of the transport over real sockets.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "server/http/http_server.h"
#include "tests/server/http/raw_client.h"

namespace hearth {

inline HttpResponse text(std::string body) {
  HttpResponse response;
  response.content_type = "text/plain";
  response.body = std::move(body);
  return response;
}

/// A gate that lets every request pass to the handler, which returns the whole answer or writes it.
template <typename Handler>
HttpServer::Gate open_gate(Handler handler) {
  return [handler](HttpRequest&) {
    Admission admission;
    admission.answer = [&handler](const HttpRequest& request, ResponseWriter& writer) {
      if constexpr (std::is_invocable_v<Handler, const HttpRequest&>) {
        writer.send(handler(request));
      } else {
        handler(request, writer);
      }
    };
    return admission;
  };
}

/// A server on any free port, and a record of the requests that its handler received.
class Fixture {
 public:
  template <typename Handler>
  explicit Fixture(Handler handler, HttpServerOptions options = {}) {
    options.port = 0;
    HttpServer::Gate gate;
    if constexpr (std::is_same_v<Handler, HttpServer::Gate>) {
      gate = std::move(handler);
    } else {
      gate = open_gate(std::move(handler));
    }
    server_ = std::make_unique<HttpServer>(
        options, std::move(gate),
        [this](const AccessRecord& record) {
          const std::lock_guard lock(mutex_);
          records_.push_back(record);
        },
        [this](const std::string& what, const std::string&) {
          const std::lock_guard lock(mutex_);
          failures_.push_back(what);
        });
    server_->start();
  }
  int port() const { return server_->port(); }
  HttpServer& server() { return *server_; }
  std::string ask(std::string_view bytes) const { return hearth::ask(port(), bytes); }
  std::vector<AccessRecord> stop_and_get_records() {
    server_->stop(std::chrono::milliseconds(60'000));
    return records_;
  }
  std::vector<std::string> failures() {
    const std::lock_guard lock(mutex_);
    return failures_;
  }

 private:
  std::mutex mutex_;
  std::vector<AccessRecord> records_;
  std::vector<std::string> failures_;
  std::unique_ptr<HttpServer> server_;
};

/// Answers with the request's method, path and body.
inline HttpResponse echo(const HttpRequest& request) {
  return text(request.method + " " + request.path + " " + request.body);
}

/// Writes a body without a length.
inline void write_braces(ResponseWriter& writer) {
  writer.begin("application/json", {});
  if (writer.write("{}")) writer.finish();
}

inline bool starts_with(const std::string& whole, const std::string& part) {
  return whole.rfind(part, 0) == 0;
}

inline const std::string kClose = "Host: h\r\nConnection: close\r\n";

}  // namespace hearth
