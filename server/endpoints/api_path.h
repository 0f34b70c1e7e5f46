// Reads a request's path: the endpoint, the model and the family of clients, for all usual base URLs.
//
// Clients put different things before an endpoint's name: nothing, /v1, /v1 twice (if the configured base URL
// ends with /v1 and the client adds it again), or Azure's /openai/deployments/NAME. Pure; called by the
// transport and by Routes on HTTP worker threads.
#pragma once

#include <string_view>

#include "server/http/http_types.h"
#include "server/json/api_error.h"

namespace hearth {

struct ApiPath {
  std::string_view endpoint;  // "/chat/completions"; the whole path if it has no known prefix
  std::string_view model;     // the model in an Azure path; may contain slashes; empty: none
};

/// path: normalized (HttpRequest::path). The result points into it.
ApiPath read_api_path(std::string_view path);

/// Returns the error format that the request's client reads. The path determines the format, even if there is
/// no such endpoint. If several families share the path, the header that only Anthropic's clients send
/// determines it. Needs only the request's path and headers.
ErrorStyle error_style(const HttpRequest& request);

}  // namespace hearth
