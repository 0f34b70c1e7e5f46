// Ollama's embeddings: POST /api/embed, and POST /api/embeddings, its older form for one text.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/api/openai/embedding_request.h"
#include "server/http/http_types.h"
#include "server/http/response_writer.h"
#include "server/json/json.h"

namespace hearth {

/// member: the member that contains the texts, "input" or "prompt". The result has no inputs if the body has
/// no texts. n_dimensions: dimensions of the model's vectors. Throws RequestError.
EmbeddingRequest parse_ollama_embed(const Json& body, const char* member, const RequestLimits& limits,
                                    int n_dimensions);

void ollama_embed(const ApiContext& api, const HttpRequest& request, std::string_view argument,
                  ResponseWriter& writer);
void ollama_embeddings(const ApiContext& api, const HttpRequest& request, std::string_view argument,
                       ResponseWriter& writer);

}  // namespace hearth
