// Ollama's endpoints about models and the server: lists and descriptions of the one that is served, and refusals of what
// would change which models there are.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/http/http_types.h"

namespace hearth {

/// GET /api/version. The version of Ollama whose API this is, because programs demand a least one.
HttpResponse ollama_version(const ApiContext& api, const HttpRequest& request,
                            std::string_view argument = {});
/// GET /api/tags: every name of the model.
HttpResponse ollama_tags(const ApiContext& api, const HttpRequest& request, std::string_view argument = {});
/// GET /api/ps: the model, which stays loaded.
HttpResponse ollama_ps(const ApiContext& api, const HttpRequest& request, std::string_view argument = {});
/// POST /api/show.
HttpResponse ollama_show(const ApiContext& api, const HttpRequest& request, std::string_view argument = {});
/// /api/pull, /api/create and the like: 501.
HttpResponse refuse_management(const ApiContext& api, const HttpRequest& request,
                               std::string_view argument = {});
/// GET /: one line of text, for programs that look whether anything is there.
HttpResponse greeting(const ApiContext& api, const HttpRequest& request, std::string_view argument = {});

}  // namespace hearth
