// GET /v1/models and GET /v1/models/{id} as Anthropic has them, for its clients, who are known by their header
// anthropic-version.
#pragma once

#include <string_view>

#include "server/api/api_context.h"
#include "server/http/http_types.h"

namespace hearth {

/// The names that /v1/messages takes; the query's limit, after_id and before_id choose a page of them.
HttpResponse list_anthropic_models(const ApiContext& api, const HttpRequest& request);
/// id: as it stands in the path, percent-decoded; it may hold slashes.
HttpResponse retrieve_anthropic_model(const ApiContext& api, std::string_view id);

}  // namespace hearth
