// POST /v1/rerank, /rerank and /v2/rerank: scores documents by their relevance to a query, with the served
// model or the model of --embedding-model, whichever ranks. Body and answer have the form of Cohere's and
// Jina's APIs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/api_context.h"
#include "server/api/rerank/rerank_request.h"
#include "server/http/http_types.h"
#include "server/http/response_writer.h"

namespace hearth {

/// Returns the relevance of a document. scores: the scores that the head gives: one number, or the scores of
/// the answers yes and no. raw: returns a logit instead of a probability.
double relevance_of(const std::vector<float>& scores, bool raw);

/// Returns the answer's body. scores: of each document. Documents with equal relevance keep their order.
std::string rerank_json(const RerankRequest& asked, const std::vector<std::vector<float>>& scores,
                        const std::string& id, std::string_view model, int64_t n_prompt_tokens);

/// path_model: the model in the request's path; used if the body has no `model`.
void rerank(const ApiContext& api, const HttpRequest& request, std::string_view path_model,
            ResponseWriter& writer);

}  // namespace hearth
