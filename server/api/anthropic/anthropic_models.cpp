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

/// name: one of the model's names.
Json catalog_json(const CatalogModel& one, const std::string& name) {
  if (const std::shared_ptr<const ReadyModel> model = one.state->model())
    return model_json(*model->api, name);
  return {{"type", "model"},
          {"id", name},
          {"display_name", name},
          {"created_at", rfc3339(one.facts ? one.facts->modified : 0)},
          {"lifecycle", "active"},
          {"max_input_tokens", one.context_tokens},
          {"max_tokens", one.context_tokens}};
}

}  // namespace

HttpResponse list_anthropic_models(const ApiContext& api, const HttpRequest& request) {
  return guarded(ErrorStyle::kAnthropic, [&] {
    Json models = Json::array();
    for (const std::string& name : api.model().names) models.push_back(model_json(api, name));
    return json_response(page_json(models, read_page(request.query, kModels), kModels));
  });
}

HttpResponse list_anthropic_catalog(const ModelCatalog& catalog, const HttpRequest& request) {
  return guarded(ErrorStyle::kAnthropic, [&] {
    Json models = Json::array();
    for (const std::shared_ptr<const CatalogModel>& one : catalog.models()) {
      if (one->facts && !one->facts->generates) continue;
      for (const std::string& name : one->names) models.push_back(catalog_json(*one, name));
    }
    return json_response(page_json(models, read_page(request.query, kModels), kModels));
  });
}

HttpResponse retrieve_from_anthropic_catalog(const ModelCatalog& catalog, std::string_view id) {
  return guarded(ErrorStyle::kAnthropic, [&] {
    return json_response(catalog_json(*catalog.find(id, /*without_tag=*/false), std::string(id)));
  });
}

HttpResponse retrieve_anthropic_model(const ApiContext& api, std::string_view id) {
  return guarded(ErrorStyle::kAnthropic,
                 [&] { return json_response(model_json(api, api.served_name(std::string(id)))); });
}

}  // namespace hearth
