// The structs that the HTTP transport and the handlers exchange; they contain neither sockets nor JSON.
//
// The transport (server/http/http_server) fills an HttpRequest and calls a handler, which answers through a
// ResponseWriter (server/http/response_writer.h); handlers (server/api and the operational endpoints) never
// see the HTTP library. One HTTP thread serves a request from start to end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;          // "GET", "POST", ...; upper case
  std::string path;            // normalized: percent-decoded, no doubled slashes, no query, no trailing slash
  std::string query;           // text after the path's '?', not decoded; empty: none
  std::string body;            // whole, within the transport's limit
  std::string remote_address;  // numeric; behind a proxy, the proxy's address
  /// The client's numeric address, as reported by a trusted proxy if there is one. Set by the gate.
  std::string sender;
  /// "key NAME" if the request has a known key, else the sender. Set by the gate. Used to share slots among
  /// clients, not for logs.
  std::string client;
  std::string request_id;  // the client's x-request-id, else one made by the transport
  HttpHeaders headers;     // in order of arrival

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
  // Each of these times is the maximum over the request's finished sequences.
  double queue_seconds = 0, prefill_seconds = 0, decode_seconds = 0;
  const char* ended = "complete";  // or "client left", "failed"; static storage
  const char* finish_reason =
      "";                  // of the first choice: "stop", "length", "tool_calls"; empty: none; static storage
  std::string model = {};  // served name of the model that answered
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

/// A whole answer.
struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  HttpHeaders headers = {};  // besides Content-Type and framing headers
  std::string body = {};
};

}  // namespace hearth
