// What a request's path says, however the client's base URL spells it: the endpoint, the model, the family of clients.
//
// Clients differ in what they put before an endpoint's name: nothing, /v1, /v1 twice (their setting ends with it and
// they add it too), or Azure's /openai/deployments/NAME. Pure; called by the transport and by Routes on HTTP worker threads.
#pragma once

#include <string_view>

#include "server/http/http_types.h"
#include "server/json/api_error.h"

namespace hearth {

struct ApiPath {
  std::string_view endpoint;  // "/chat/completions"; the whole path if none of the known beginnings is there
  std::string_view model;     // the model that an Azure path names; may hold slashes; empty: none
};

/// path: normalised (HttpRequest::path). The result points into it.
ApiPath read_api_path(std::string_view path);

/// How this client reads errors: by the path, whether there is such an endpoint or not, and on paths that families share
/// by the header that Anthropic's clients send. Needs the request's path and headers only.
ErrorStyle error_style(const HttpRequest& request);

}  // namespace hearth
