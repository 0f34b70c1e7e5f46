// Embeddings in Ollama's API: POST /api/embed, and POST /api/embeddings, an older form for one text.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/api/openai/embedding_request.h"
#include "server/http/http_types.h"
#include "server/http/response_writer.h"
#include "server/json/json.h"

namespace hearth {

/// Parses a body of /api/embed or /api/embeddings. member: the member with the texts, "input" or "prompt";
/// without texts, the result has no inputs. n_dimensions: the length of the model's vectors. Throws
/// RequestError.
EmbeddingRequest parse_ollama_embed(const Json& body, const char* member, const RequestLimits& limits,
                                    int n_dimensions);

void ollama_embed(const ApiContext& api, const HttpRequest& request, std::string_view argument,
                  ResponseWriter& writer);
void ollama_embeddings(const ApiContext& api, const HttpRequest& request, std::string_view argument,
                       ResponseWriter& writer);

}  // namespace hearth
