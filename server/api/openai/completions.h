// POST /v1/completions and POST /v1/chat/completions.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/http/http_types.h"

namespace hearth {

/// path_model: the model in the request's path, used if the body names none.
HttpResponse completions(const ApiContext& api, const HttpRequest& request, std::string_view path_model = {});
HttpResponse chat_completions(const ApiContext& api, const HttpRequest& request,
                              std::string_view path_model = {});

}  // namespace hearth
