// POST /v1/completions and POST /v1/chat/completions.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/http/http_types.h"
#include "server/http/response_writer.h"

namespace hearth {

/// path_model: the model in the request's path; used if the body has no `model`.
void completions(const ApiContext& api, const HttpRequest& request, std::string_view path_model,
                 ResponseWriter& writer);
void chat_completions(const ApiContext& api, const HttpRequest& request, std::string_view path_model,
                      ResponseWriter& writer);

}  // namespace hearth
