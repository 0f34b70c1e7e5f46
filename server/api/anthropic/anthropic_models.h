// GET /v1/models and GET /v1/models/{id} in Anthropic's format, for clients that send the header
// anthropic-version.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/api/model_catalog.h"
#include "server/http/http_types.h"

namespace hearth {

/// Lists the names that /v1/messages accepts. The query's limit, after_id and before_id select a page of the
/// list.
HttpResponse list_anthropic_models(const ApiContext& api, const HttpRequest& request);
/// id: from the path, percent-decoded; may contain slashes.
HttpResponse retrieve_anthropic_model(const ApiContext& api, std::string_view id);

// The answers if the server has several models. The limits of a model that is not loaded are the ones it
// would have.
HttpResponse list_anthropic_catalog(const ModelCatalog& catalog, const HttpRequest& request);
HttpResponse retrieve_from_anthropic_catalog(const ModelCatalog& catalog, std::string_view id);

}  // namespace hearth
