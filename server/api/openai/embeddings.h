// POST /v1/embeddings: converts texts to vectors, with the served model or the embedding model.
#pragma once

#include <string_view>

#include "server/api/answer/reply.h"
#include "server/api/api_context.h"
#include "server/api/openai/embedding_answer.h"
#include "server/api/openai/embedding_request.h"
#include "server/http/http_types.h"
#include "server/http/response_writer.h"

namespace hearth {

/// Embeds the inputs of a request to any embeddings endpoint. In `spec`, the caller sets the format, the
/// model's name, the error format and, for a body that is not OpenAI's, the function that creates the body.
/// Returns the answer, or an error response if the engine refuses the inputs. Throws RequestError.
Reply respond_with_embeddings(const ApiContext& api, const HttpRequest& from, const EmbeddingTarget& target,
                              EmbeddingRequest asked, EmbeddingAnswer::Spec spec);

/// Submits the sequences of a request to the target's engine. Returns the answer, which waits for the results
/// and sends them in the form that `spec` defines. Sets n_inputs, n_prompt_tokens, served_model and
/// blank_line_interval of `spec`. param: the parameter that errors name.
Reply respond_with_results(const ApiContext& api, const HttpRequest& from, const EmbeddingTarget& target,
                           GenerationRequest request, EmbeddingAnswer::Spec spec, const char* param);

/// path_model: the model in the request's path; used if the body has no `model`.
void embeddings(const ApiContext& api, const HttpRequest& request, std::string_view path_model,
                ResponseWriter& writer);

}  // namespace hearth
