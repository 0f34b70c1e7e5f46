// OpenAI's Responses API: POST /v1/responses, and operations on stored responses.
//
// Handlers for the table in server/endpoints/endpoints.h. Any HTTP thread calls them. Errors have OpenAI's
// format and the parameter names of this API.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/http/http_types.h"
#include "server/http/response_writer.h"

namespace hearth {

void create_response(const ApiContext& api, const HttpRequest& request, std::string_view path_model,
                     ResponseWriter& writer);
/// Returns the conversation with its earlier part replaced by a summary, for clients whose context is full:
/// {"object": "response.compaction", "output": [items]}.
void compact_response(const ApiContext& api, const HttpRequest& request, std::string_view path_model,
                      ResponseWriter& writer);
/// Returns the number of prompt tokens of a request: {"object": "response.input_tokens", "input_tokens"}.
HttpResponse count_input_tokens(const ApiContext& api, const HttpRequest& request,
                                std::string_view path_model);

HttpResponse retrieve_response(const ApiContext& api, const HttpRequest& request, std::string_view id);
HttpResponse delete_response(const ApiContext& api, const HttpRequest& request, std::string_view id);
/// Cancels a response that is being generated. If a client is waiting for it, the client receives it marked
/// as cancelled.
HttpResponse cancel_response(const ApiContext& api, const HttpRequest& request, std::string_view id);
/// Lists the input items of the response. Query parameters: order (desc, asc), limit and after.
HttpResponse list_input_items(const ApiContext& api, const HttpRequest& request, std::string_view id);

}  // namespace hearth
