// POST /v1/messages and POST /v1/messages/count_tokens: Anthropic's API.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/http/http_types.h"
#include "server/http/response_writer.h"

namespace hearth {

/// path_model: the model in the request's path; used if the body has no `model`.
void create_message(const ApiContext& api, const HttpRequest& request, std::string_view path_model,
                    ResponseWriter& writer);
HttpResponse count_message_tokens(const ApiContext& api, const HttpRequest& request,
                                  std::string_view path_model = {});

}  // namespace hearth
