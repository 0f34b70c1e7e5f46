// Finds a running hearthd, and asks which model it serves.
//
// Used by commands, before any other thread exists.
#pragma once

#include <cstdint>
#include <string>

#include "server/models/exchange.h"

namespace hearth {

/// A running server, as GET /v1/models describes it.
struct RunningServer {
  std::string url;         // "http://127.0.0.1:8080", without a path
  std::string name;        // of the model that generates
  int64_t context = 0;     // tokens of a request and its answer
  bool needs_key = false;  // whether the server refuses requests without an API key
};

/// Asks the server at this URL, which may end with /v1. key: sent only if the server requires one; may be
/// empty. Throws ConfigError if the URL is malformed, and std::runtime_error with advice if no server
/// answers, if it refuses the key, or if it serves no model that generates.
RunningServer find_server(const std::string& url, const std::string& key);

/// The settings of requests to this server, with the key if the server requires one.
RequestOptions request_options(const RunningServer& server, const std::string& key);

}  // namespace hearth
