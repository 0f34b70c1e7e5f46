// See the header.
#include "server/api/openai/models.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "server/api/answer/respond.h"

namespace hearth {
namespace {

/// An extension to OpenAI's model object: how the FFN is computed and what that saves. Shares are of all FFN
/// neurons, as measured at load.
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

/// An extension too: what /v1/embeddings makes with the model.
Json embedding_json(int n_dimensions, Pooling pooling) {
  return {{"dimensions", n_dimensions}, {"pooling", std::string(pooling_name(pooling))}};
}

/// What the entries of both models have: facts is the model as /v1/embeddings knows it, owner the one that answers.
Json entry_json(const EmbeddingTarget& facts, const std::string& owner, std::string_view name) {
  Json json = Json::object();
  json["id"] = name;
  json["object"] = "model";
  json["created"] = facts.created;
  json["owned_by"] = owner;
  json["max_model_len"] = facts.context_tokens;
  json["device"] = facts.device;
  json["embedding"] = embedding_json(facts.n_dimensions, facts.pooling);
  return json;
}

Json model_json(const ServedModel& model, std::string_view name) {
  Json json = entry_json({.names = {},
                          .created = model.created,
                          .context_tokens = model.context_tokens,
                          .n_dimensions = model.n_dimensions,
                          .pooling = model.pooling,
                          .device = model.device},
                         model.owned_by, name);
  json["sparsity"] = sparsity_json(model.sparsity);
  return json;
}

bool is_embedders(const ServedModel& model, const std::string& name) {
  return model.embedder && std::ranges::find(model.embedder->names, name) != model.embedder->names.end();
}

}  // namespace

HttpResponse list_models(const ApiContext& api) {
  Json models = Json::array();
  for (const std::string& name : api.model().names) models.push_back(model_json(api.model(), name));
  if (const std::optional<EmbeddingTarget>& embedder = api.model().embedder) {
    for (const std::string& name : embedder->names)
      models.push_back(entry_json(*embedder, api.model().owned_by, name));
  }
  HttpResponse response;
  response.body = json_text({{"object", "list"}, {"data", std::move(models)}});
  return response;
}

HttpResponse retrieve_model(const ApiContext& api, std::string_view id) {
  return guarded(ErrorStyle::kOpenAi, [&] {
    HttpResponse response;
    const ServedModel& model = api.model();
    const std::string name(id);
    response.body = json_text(is_embedders(model, name) ? entry_json(*model.embedder, model.owned_by, name)
                                                        : model_json(model, api.served_name(name)));
    return response;
  });
}

}  // namespace hearth
