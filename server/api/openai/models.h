// GET /v1/models and GET /v1/models/{id}: the names of the served models.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/api/model_catalog.h"
#include "server/http/http_types.h"

namespace hearth {

HttpResponse list_models(const ApiContext& api);
/// id: from the path, percent-decoded; may contain slashes.
HttpResponse retrieve_model(const ApiContext& api, std::string_view id);

// The answers if the server has several models. Models that are not loaded have fewer members.
HttpResponse list_catalog(const ModelCatalog& catalog);
HttpResponse retrieve_from_catalog(const ModelCatalog& catalog, std::string_view id);

}  // namespace hearth
