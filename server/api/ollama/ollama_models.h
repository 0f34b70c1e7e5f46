// Endpoints of Ollama's API about models and the server: lists and describes the served models. Requests that
// would change the set of models are refused.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/api/model_catalog.h"
#include "server/http/http_types.h"

namespace hearth {

/// GET /api/version. Returns the version of an Ollama release with this API, because clients require a
/// minimum version.
HttpResponse ollama_version(const HttpRequest& request);
/// GET /api/tags: lists all names of the model and of the embedding model.
HttpResponse ollama_tags(const ApiContext& api, const HttpRequest& request, std::string_view argument = {});
/// GET /api/ps: lists the models of /api/tags, and reports that they stay loaded.
HttpResponse ollama_ps(const ApiContext& api, const HttpRequest& request, std::string_view argument = {});
/// The lists if the server has several models: /api/tags has all of them, and /api/ps those that are loaded.
HttpResponse ollama_tags_of_catalog(const ModelCatalog& catalog);
HttpResponse ollama_ps_of_catalog(const ModelCatalog& catalog);
/// POST /api/show.
HttpResponse ollama_show(const ApiContext& api, const HttpRequest& request, std::string_view argument = {});
/// /api/pull, /api/create and similar: returns status 501.
HttpResponse refuse_management(const HttpRequest& request);
/// GET /: returns one line of text, for clients that check whether a server runs.
HttpResponse greeting(const HttpRequest& request);

}  // namespace hearth
