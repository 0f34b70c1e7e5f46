// See the header.
#include "server/api/anthropic/anthropic_models.h"

#include <string>

#include "server/api/answer/respond.h"
#include "server/api/request/pagination.h"

namespace hearth {
namespace {

// The parameters' names and the maximum are those of Anthropic's API.
constexpr PageRules kModels = {.after = "after_id", .before = "before_id", .max_items = 1000};

Json model_json(const ApiContext& api, const std::string& name) {
  const ServedModel& model = api.model();
  return {{"type", "model"},
          {"id", name},
          {"display_name", name},
          {"created_at", rfc3339(model.created)},
          {"lifecycle", "active"},
          {"max_input_tokens", model.context_tokens},
          {"max_tokens", model.context_tokens}};
}

}  // namespace

HttpResponse list_anthropic_models(const ApiContext& api, const HttpRequest& request) {
  return guarded(ErrorStyle::kAnthropic, [&] {
    Json models = Json::array();
    for (const std::string& name : api.model().names) models.push_back(model_json(api, name));
    return json_response(page_json(models, read_page(request.query, kModels), kModels));
  });
}

HttpResponse retrieve_anthropic_model(const ApiContext& api, std::string_view id) {
  return guarded(ErrorStyle::kAnthropic,
                 [&] { return json_response(model_json(api, api.served_name(std::string(id)))); });
}

}  // namespace hearth
