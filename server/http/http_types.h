// The structs that the HTTP transport and the handlers exchange; they contain neither sockets nor JSON.
//
// The transport (server/http/http_server) fills an HttpRequest, calls a handler and sends the HttpResponse it
// returns; handlers (server/api and the operational endpoints) never see the HTTP library. One HTTP thread
// serves a request from start to end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {

struct HttpRequest {
  std::string method;          // "GET", "POST", ...; upper case
  std::string path;            // normalised: percent-decoded, no doubled slashes, no query, no trailing slash
  std::string query;           // text after the path's '?', not decoded; empty: none
  std::string body;            // whole, within the transport's limit
  std::string remote_address;  // numeric; behind a proxy, the proxy's address
  std::string sender;  // the client's numeric address, from a trusted proxy if there is one; set by Routes
  std::string
      client;  // "key NAME", else the address; set by Routes. Used to share slots fairly, not for logs
  std::string key_name;  // name of the request's API key, for the access log; empty: none. Set by Routes
  std::shared_ptr<void>
      place;               // the key's place in its limits, held until the answer has ended. Set by Routes
  std::string request_id;  // the client's x-request-id, else one made by the transport
  std::vector<std::pair<std::string, std::string>> headers;  // in order of arrival

  /// The first header with that name, ignoring ASCII case; empty if absent. Valid as long as the request.
  std::string_view header(std::string_view name) const {
    const auto same_name = [name](std::string_view other) {
      if (other.size() != name.size()) return false;
      const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
      for (size_t i = 0; i < name.size(); ++i) {
        if (lower(other[i]) != lower(name[i])) return false;
      }
      return true;
    };
    for (const auto& [key, value] : headers) {
      if (same_name(key)) return value;
    }
    return {};
  }
};

/// Cost and outcome of a generation, for the access log.
struct GenerationRecord {
  int64_t n_prompt = 0, n_cached = 0, n_generated = 0;  // tokens, summed over the request's sequences
  bool has_times = false;  // the engine has reported the times of at least one sequence
  // Each is the maximum over the request's finished sequences.
  double queue_seconds = 0, prefill_seconds = 0, decode_seconds = 0;
  const char* ended = "complete";  // or "client left", "failed"; static storage
  const char* finish_reason =
      "";                  // of the first choice: "stop", "length", "tool_calls"; empty: none; static storage
  std::string model = {};  // served name of the model that answered
};

/// The client that waits for an answer. Used only by the request's HTTP thread.
class ResponseClient {
 public:
  virtual ~ResponseClient() = default;
  /// Whether the client still reads. Cheap (one poll of the socket); called several times a second while the
  /// engine works.
  virtual bool client_alive() = 0;
  /// Tells the transport what to log; sends nothing.
  virtual void report(const GenerationRecord& record) = 0;
};

/// The client that receives a produced body.
class ResponseSink : public ResponseClient {
 public:
  /// Sends the bytes now, without buffering. Returns false if the client is gone.
  virtual bool write(std::string_view bytes) = 0;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;  // besides Content-Type and framing headers
  std::string body;                                          // the body, if produce is empty
  std::shared_ptr<const void> model = {};  // the model that makes the answer; kept alive by the response
  /// If set (together with produce), called once before anything is sent; waits for whatever decides the
  /// status. A returned response replaces this one but also gets this one's headers (such as those that let a
  /// web page read the answer). It must have neither before_status nor produce.
  std::function<std::optional<HttpResponse>(ResponseClient&)> before_status;
  /// If set, makes the body on the HTTP thread after status and headers were sent, in a chunked response. The
  /// transport calls it once, or never if the client is already gone (destroying it then cancels its work).
  /// Returns true if the body is complete; false makes the transport break the connection without ending the
  /// body, so that the client cannot take a part for the whole.
  std::function<bool(ResponseSink&)> produce;
};

}  // namespace hearth
