// GET /openapi.json: describes this server's HTTP API as an OpenAPI 3.1 document.
//
// The build embeds server/api/description/openapi.json; tests compare the document with the table of
// endpoints and with actual answers. Called on HTTP threads.
#pragma once

#include <string_view>

#include "server/http/http_types.h"

namespace hearth {

/// The document's text: JSON.
std::string_view openapi_document();

HttpResponse openapi(const HttpRequest& request);

}  // namespace hearth
