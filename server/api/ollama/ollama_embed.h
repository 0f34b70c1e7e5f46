// Ollama's embeddings: POST /api/embed, and POST /api/embeddings, its older form for one text.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/api/openai/embedding_request.h"
#include "server/http/http_types.h"
#include "server/json/json.h"

namespace hearth {

/// member: "input" or "prompt". The result has no inputs if the body has no texts. n_dimensions: of the
/// model's vectors. Throws RequestError.
EmbeddingRequest parse_ollama_embed(const Json& body, const char* member, const RequestLimits& limits,
                                    int n_dimensions);

HttpResponse ollama_embed(const ApiContext& api, const HttpRequest& request, std::string_view argument = {});
HttpResponse ollama_embeddings(const ApiContext& api, const HttpRequest& request,
                               std::string_view argument = {});

}  // namespace hearth
