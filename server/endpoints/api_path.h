// Splits a request's path into the endpoint and the model, and determines the error format for the client.
//
// Clients put different prefixes before an endpoint's name: none, /v1, /v1 twice (if the configured base URL
// ends with /v1 and the client adds it again), or Azure's /openai/deployments/NAME. Pure; the HTTP server and
// Routes call these functions on worker threads.
#pragma once

#include <string_view>

#include "server/http/http_types.h"
#include "server/json/api_error.h"

namespace hearth {

struct ApiPath {
  std::string_view endpoint;  // "/chat/completions"; the whole path if it has no known prefix
  std::string_view model;     // the model in an Azure path; may contain slashes; empty: none
};

/// path: normalized (HttpRequest::path). The result refers to it.
ApiPath read_api_path(std::string_view path);

/// Returns the error format for the request's client, even if the endpoint does not exist. The path
/// determines the format. If several APIs share the path, a header that only Anthropic's clients send
/// decides. Reads only the request's path and headers.
ErrorStyle error_style(const HttpRequest& request);

}  // namespace hearth
