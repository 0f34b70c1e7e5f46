// POST /api/chat of Ollama's API.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/api/openai/chat_request.h"
#include "server/http/http_types.h"
#include "server/http/response_writer.h"
#include "server/json/json.h"

namespace hearth {

/// Parses the body of an /api/chat request that has messages. Throws RequestError.
ChatRequest parse_ollama_chat(const Json& body, const RequestLimits& limits);

void ollama_chat(const ApiContext& api, const HttpRequest& request, std::string_view argument,
                 ResponseWriter& writer);

}  // namespace hearth
