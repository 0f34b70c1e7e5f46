// OpenAI's Responses API: POST /v1/responses, and what can be done with responses that are kept.
//
// Handlers of the table in server/endpoints/endpoints.h; called by any HTTP thread. Their errors have OpenAI's shape, and name
// parameters as this API does.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/http/http_types.h"

namespace hearth {

HttpResponse create_response(const ApiContext& api, const HttpRequest& request, std::string_view path_model);
/// How many tokens the prompt of such a request has: {"object": "response.input_tokens", "input_tokens"}.
HttpResponse count_input_tokens(const ApiContext& api, const HttpRequest& request,
                                std::string_view path_model);

HttpResponse retrieve_response(const ApiContext& api, const HttpRequest& request, std::string_view id);
HttpResponse delete_response(const ApiContext& api, const HttpRequest& request, std::string_view id);
/// Ends a response that is being generated. What its client gets is marked as cancelled.
HttpResponse cancel_response(const ApiContext& api, const HttpRequest& request, std::string_view id);
/// The items of its own input, with the query's order (desc, asc), limit and after.
HttpResponse list_input_items(const ApiContext& api, const HttpRequest& request, std::string_view id);

}  // namespace hearth
