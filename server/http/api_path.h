// A request's path, however the client's base URL spells it, as the table of endpoints has it.
//
// Clients differ in what they put before an endpoint's name: nothing, /v1, /v1 twice (their setting ends with it and
// they add it too), or Azure's /openai/deployments/NAME. Pure; called by Routes on HTTP worker threads.
#pragma once

#include <string_view>

namespace hearth {

struct ApiPath {
  std::string_view endpoint;  // "/chat/completions"; the whole path if none of the known beginnings is there
  std::string_view model;     // the model that an Azure path names; may hold slashes; empty: none
};

/// path: normalised (HttpRequest::path). The result points into it.
ApiPath read_api_path(std::string_view path);

}  // namespace hearth
