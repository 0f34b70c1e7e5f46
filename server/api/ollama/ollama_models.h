// Ollama's endpoints about models and the server: lists and descriptions of those that are served, and refusals of what
// would change which models there are.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/http/http_types.h"

namespace hearth {

/// GET /api/version. The version of Ollama whose API this is, because programs demand a least one.
HttpResponse ollama_version(const HttpRequest& request);
/// GET /api/tags: every name of the model, and of the embedding model if there is one.
HttpResponse ollama_tags(const ApiContext& api, const HttpRequest& request, std::string_view argument = {});
/// GET /api/ps: the same models, which stay loaded.
HttpResponse ollama_ps(const ApiContext& api, const HttpRequest& request, std::string_view argument = {});
/// POST /api/show.
HttpResponse ollama_show(const ApiContext& api, const HttpRequest& request, std::string_view argument = {});
/// /api/pull, /api/create and the like: 501.
HttpResponse refuse_management(const HttpRequest& request);
/// GET /: one line of text, for programs that look whether anything is there.
HttpResponse greeting(const HttpRequest& request);

}  // namespace hearth
