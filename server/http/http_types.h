// The structs that the HTTP server and the handlers exchange. They depend neither on sockets nor on JSON.
//
// HttpServer fills an HttpRequest and calls a handler, which answers through a ResponseWriter. Handlers do
// not use the HTTP library. One thread serves a request from start to end.
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
  std::string path;            // percent-decoded, without query, doubled slashes or trailing slash
  std::string query;           // text after the path's '?', not decoded; empty if absent
  std::string body;            // the whole body
  std::string remote_address;  // numeric; behind a proxy, the address of the proxy
  /// The client's numeric address: remote_address, or the address that a trusted proxy reports. Set by the
  /// gate.
  std::string sender;
  /// "key NAME" if the request has a known key, otherwise the sender. Used to share slots among clients, not
  /// for logs. Set by the gate.
  std::string client;
  std::string request_id;  // the client's x-request-id, or a generated id
  HttpHeaders headers;     // in order of arrival

  /// Returns the first header with this name, ignoring ASCII case. Empty if absent. Valid as long as the
  /// request.
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
  // Tokens, summed over the request's sequences. n_matched: FinishedEvent::n_matched_tokens.
  int64_t n_prompt = 0, n_cached = 0, n_matched = 0, n_generated = 0;
  // The number of leading messages of a chat that are in the prefix cache with all their tokens; nullopt if
  // the request has no chat, or a chat of one message.
  std::optional<int> n_matched_messages = {};
  bool has_times = false;  // whether the times of a sequence are known
  // Each time is the maximum over the request's finished sequences.
  double queue_seconds = 0, prefill_seconds = 0, decode_seconds = 0;
  const char* ended = "complete";  // "complete", "client left" or "failed"; static storage
  // Finish reason of the first choice: "stop", "length", "tool_calls" or empty. Static storage.
  const char* finish_reason = "";
  std::string model = {};  // name of the model that answered
};

/// One answered request, for the access log.
struct AccessRecord {
  std::string method, path, remote_address, request_id;
  int status = 0;
  uint64_t bytes = 0;    // bytes sent, with head and framing
  double seconds = 0;    // from the arrival of the head to the last byte sent
  bool complete = true;  // false if the client disconnected or the answer was broken off
  std::optional<GenerationRecord> generation;  // set if the answer was generated
  std::string key_name;                        // name of the API key, or empty
  std::string trace_id;                        // from the request's traceparent; empty if absent or malformed
};

/// A whole answer.
struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  HttpHeaders headers = {};  // all headers except Content-Type and those for framing
  std::string body = {};
};

}  // namespace hearth
