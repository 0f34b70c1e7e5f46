// What passes between the HTTP transport and the handlers: plain structs that know neither sockets nor JSON.
//
// The transport (server/http/http_server) fills an HttpRequest, calls a handler and sends the HttpResponse it
// returns; handlers (server/api and the operational endpoints) never see the HTTP library. One HTTP thread
// carries a request from end to end.
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
  std::string query;           // what follows the path's '?', as it was sent; empty: nothing
  std::string body;            // whole, within the transport's limit
  std::string remote_address;  // numeric; a proxy's, behind one
  std::string
      sender;  // numeric: the client's address, as a trusted proxy tells it; Routes sets it. Empty: remote_address
  std::string client;  // who asks: a key's, else the address; Routes sets it. For sharing out, not for logs
  std::string request_id;  // the client's x-request-id, else one the transport made
  std::vector<std::pair<std::string, std::string>> headers;  // in the order they came

  /// The first header of that name, compared without regard to ASCII case; empty if absent. Valid as long as
  /// the request.
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

/// What a generation has cost and how it ended, for the access log.
struct GenerationRecord {
  int64_t n_prompt = 0, n_cached = 0, n_generated = 0;  // tokens of all its sequences
  bool has_times = false;  // the engine has told the times of at least one sequence
  // Each is the longest of the request's finished sequences.
  double queue_seconds = 0, prefill_seconds = 0, decode_seconds = 0;
  const char* ended = "complete";  // or "client left", "failed"; static storage
  const char* finish_reason =
      "";                  // of the first choice: "stop", "length", "tool_calls"; empty: none; static storage
  std::string model = {};  // the served name of the model that answered
};

/// The client that waits for an answer. Used by the HTTP thread of the request only.
class ResponseClient {
 public:
  virtual ~ResponseClient() = default;
  /// Is anyone still reading? Cheap (one poll of the socket); asked several times a second while the engine
  /// works.
  virtual bool client_alive() = 0;
  /// Tells the transport what to log; sends nothing.
  virtual void report(const GenerationRecord& record) = 0;
};

/// The client that a produced body is sent to.
class ResponseSink : public ResponseClient {
 public:
  /// Sends the bytes now, without buffering. False: the client is gone, nothing more can be sent.
  virtual bool write(std::string_view bytes) = 0;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;  // besides Content-Type and the framing
  std::string body;                                          // the body, if produce is empty
  std::shared_ptr<const void> model = {};  // what the answer is made of and with; goes with the response
  std::shared_ptr<void> place = {};        // held until the response is gone (server/gate/key_limits.h)
  std::string key_name;  // of the API key that the request carries, for the access log; empty: none
  /// If set, called once before anything is sent, when produce is set too: waits for what decides the status.
  /// A response that it returns takes this one's place, but for the headers, which it gets besides its own (those
  /// that let a web page read the answer, say). It must have neither before_status nor produce.
  std::function<std::optional<HttpResponse>(ResponseClient&)> before_status;
  /// If set, makes the body on the HTTP thread after status and headers are out, in a chunked response; the
  /// transport calls it once, or never if the client is gone already (destroying it then cancels the work
  /// behind it). Returns true when the body is complete; false asks the transport to break the connection
  /// without ending the body, so that the client cannot take a part for the whole.
  std::function<bool(ResponseSink&)> produce;
};

}  // namespace hearth
