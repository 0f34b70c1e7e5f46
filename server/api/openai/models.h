// GET /v1/models and GET /v1/models/{id}: the names that the model answers to.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/http/http_types.h"

namespace hearth {

HttpResponse list_models(const ApiContext& api);
/// id: as it stands in the path, percent-decoded; it may hold slashes.
HttpResponse retrieve_model(const ApiContext& api, std::string_view id);

}  // namespace hearth
