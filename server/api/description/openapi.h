// GET /openapi.json: describes this server's HTTP API as an OpenAPI 3.1 document.
//
// The build embeds server/api/description/openapi.json. Tests compare the document with the table of
// endpoints and with real answers. Called on HTTP threads.
#pragma once

#include <string_view>

#include "server/http/http_types.h"

namespace hearth {

/// Returns the document as JSON text.
std::string_view openapi_document();

HttpResponse openapi(const HttpRequest& request);

}  // namespace hearth
