// POST /api/embed and POST /api/embeddings, its older form for one text: Ollama's embeddings.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/api/openai/embedding_request.h"
#include "server/http/http_types.h"
#include "server/json/json.h"

namespace hearth {

/// member: "input" or "prompt". Without texts, the result has no inputs. n_dimensions: what the model's vectors have. Throws
/// RequestError.
EmbeddingRequest parse_ollama_embed(const Json& body, const char* member, const RequestLimits& limits,
                                    int n_dimensions);

HttpResponse ollama_embed(const ApiContext& api, const HttpRequest& request, std::string_view argument = {});
HttpResponse ollama_embeddings(const ApiContext& api, const HttpRequest& request,
                               std::string_view argument = {});

}  // namespace hearth
