// See the header.
#include "server/api/openai/models.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "server/api/answer/respond.h"

namespace hearth {
namespace {

/// An extension of OpenAI's model object: how the FFN is computed, and how many bytes this saves. Shares are
/// fractions of all FFN neurons, measured when the model is loaded.
Json sparsity_json(const SparsityReport& report) {
  Json json = Json::object();
  json["mode"] = std::string(sparsity_name(report.mode));
  json["reason"] = report.reason;
  if (report.activity.n_tokens > 0) json["active_share"] = report.activity.active;
  if (report.mode == Sparsity::kPredicted) {
    json["proposed_share"] = report.activity.proposed;
    json["predictor_threshold"] = report.predictor_threshold;
  }
  json["bytes_per_token"] = std::llround(report.bytes_per_token);
  json["dense_bytes_per_token"] = std::llround(report.dense_bytes_per_token);
  return json;
}

/// An extension of OpenAI's model object: the dimensions and the pooling of embeddings.
Json embedding_json(int n_dimensions, Pooling pooling) {
  return {{"dimensions", n_dimensions}, {"pooling", std::string(pooling_name(pooling))}};
}

/// Returns the model's other names. Clients can then show the model once.
Json aliases_json(const std::vector<std::string>& names, std::string_view name) {
  Json json = Json::array();
  for (const std::string& other : names) {
    if (other != name) json.push_back(other);
  }
  return json;
}

/// target: one of api.targets().
Json model_json(const ApiContext& api, const EmbeddingTarget& target, std::string_view name) {
  Json json = Json::object();
  json["id"] = name;
  json["aliases"] = aliases_json(target.names, name);
  json["object"] = "model";
  json["created"] = target.created;
  json["owned_by"] = "hearth";
  json["max_model_len"] = target.context_tokens;
  json["device"] = target.device;
  if (!target.ranks()) json["embedding"] = embedding_json(target.n_dimensions, target.pooling);
  json["ranks"] = target.ranks();
  const bool is_first = &target == api.targets().front();
  json["generates"] = is_first && api.model().generates();
  if (is_first) json["sparsity"] = sparsity_json(api.model().sparsity);
  return json;
}

bool is_of(const EmbeddingTarget& target, const std::string& name) {
  return std::ranges::find(target.names, name) != target.names.end();
}

/// name: one of the model's names.
Json catalog_json(const CatalogModel& one, const std::string& name) {
  Json json = Json::object();
  const std::shared_ptr<const ReadyModel> model = one.state->model();
  if (model != nullptr) {
    const std::vector<const EmbeddingTarget*> targets = model->api->targets();
    json = model_json(*model->api, is_of(*targets.back(), name) ? *targets.back() : *targets.front(), name);
  } else {
    json = {{"id", name},
            {"aliases", aliases_json(one.names, name)},
            {"object", "model"},
            {"created", one.facts ? one.facts->modified : 0},
            {"owned_by", "hearth"}};
    if (one.context_tokens > 0) json["max_model_len"] = one.context_tokens;
    if (one.facts) json["generates"] = one.facts->generates;
  }
  json["status"] = status_json(*one.state);
  return json;
}

}  // namespace

HttpResponse list_models(const ApiContext& api) {
  Json models = Json::array();
  for (const EmbeddingTarget* target : api.targets()) {
    for (const std::string& name : target->names) models.push_back(model_json(api, *target, name));
  }
  return json_response({{"object", "list"}, {"data", std::move(models)}});
}

HttpResponse retrieve_model(const ApiContext& api, std::string_view id) {
  return guarded(ErrorStyle::kOpenAi, [&] {
    const std::string name(id);
    const std::vector<const EmbeddingTarget*> targets = api.targets();
    if (is_of(*targets.back(), name)) return json_response(model_json(api, *targets.back(), name));
    return json_response(model_json(api, *targets.front(), api.served_name(name)));
  });
}

HttpResponse list_catalog(const ModelCatalog& catalog) {
  Json models = Json::array();
  for (const std::shared_ptr<const CatalogModel>& one : catalog.models()) {
    for (const std::string& name : one->names) models.push_back(catalog_json(*one, name));
  }
  return json_response({{"object", "list"}, {"data", std::move(models)}});
}

HttpResponse retrieve_from_catalog(const ModelCatalog& catalog, std::string_view id) {
  return guarded(ErrorStyle::kOpenAi, [&] {
    return json_response(catalog_json(*catalog.find(id, /*without_tag=*/false), std::string(id)));
  });
}

}  // namespace hearth
