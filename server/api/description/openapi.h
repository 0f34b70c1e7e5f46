// GET /openapi.json: what this server's HTTP API is, as an OpenAPI 3.1 document.
//
// The document is server/api/description/openapi.json, which the build puts into the program; tests hold it to the table of
// endpoints, and answers to it. Called on HTTP threads.
#pragma once

#include <string_view>

#include "server/http/http_types.h"

namespace hearth {

/// The document's text: JSON.
std::string_view openapi_document();

HttpResponse openapi(const HttpRequest& request);

}  // namespace hearth
