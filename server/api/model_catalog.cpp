// See the header.
#include "server/api/model_catalog.h"

#include <algorithm>
#include <utility>

#include "server/api/api_context.h"
#include "server/api/responses/response_store.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

constexpr std::string_view kLatest = ":latest";

std::string_view untagged(std::string_view name) {
  return name.ends_with(kLatest) ? name.substr(0, name.size() - kLatest.size()) : name;
}

std::vector<std::string> all_names(const ModelCatalog::Models& models) {
  std::vector<std::string> names;
  for (const auto& model : models) names.insert(names.end(), model->names.begin(), model->names.end());
  return names;
}

/// Returns the state of the first model while that model begins or the process ends; otherwise null.
const ServerState* first_if_not_serving(const ModelCatalog::Models& models) {
  if (models.empty()) return nullptr;
  const ServerState* const state = models.front()->state;
  const ServerState::Phase phase = state->phase();
  return phase == ServerState::Phase::kLoading || phase == ServerState::Phase::kStopping ? state : nullptr;
}

}  // namespace

void ModelCatalog::set(Models models) {
  const MutexLock lock(mutex_);
  models_ = std::move(models);
}

ModelCatalog::Models ModelCatalog::models() const {
  const MutexLock lock(mutex_);
  return models_;
}

std::shared_ptr<const CatalogModel> ModelCatalog::find(std::string_view name, bool without_tag) const {
  const Models all = models();
  const auto first = [&all](const auto& is_it) -> std::shared_ptr<const CatalogModel> {
    const auto found = std::ranges::find_if(all, is_it);
    return found == all.end() ? nullptr : *found;
  };
  if (name.empty()) {
    if (auto model = first([](const auto& one) { return one->is_default; })) return model;
    const auto is_loaded = [](const auto& one) { return one->state->model() != nullptr; };
    if (std::ranges::count_if(all, is_loaded) == 1) return first(is_loaded);
    if (all.size() == 1) return all.front();
    throw RequestError(no_such_model(all_names(all), name));
  }
  const auto has_name = [](std::string_view wanted, bool tagless) {
    return [wanted, tagless](const auto& one) {
      return std::ranges::any_of(one->names, [&](const std::string& known) {
        return tagless ? untagged(known) == untagged(wanted) : known == wanted;
      });
    };
  };
  if (auto model = first(has_name(name, false))) return model;
  if (without_tag) {
    if (auto model = first(has_name(name, true))) return model;
  }
  if (auto model = first([](const auto& one) { return one->any_name; })) return model;
  throw RequestError(no_such_model(all_names(all), name));
}

std::shared_ptr<const CatalogModel> ModelCatalog::keeper_of(const std::string& response_id) const {
  for (const std::shared_ptr<const CatalogModel>& one : models()) {
    const std::shared_ptr<const ReadyModel> model = one->state->model();
    if (model != nullptr && model->api->responses().find(response_id)) return one;
  }
  return nullptr;
}

std::shared_ptr<const ReadyModel> ModelCatalog::first_loaded() const {
  for (const std::shared_ptr<const CatalogModel>& one : models()) {
    if (std::shared_ptr<const ReadyModel> model = one->state->model()) return model;
  }
  return nullptr;
}

bool ModelCatalog::is_alive() const {
  return std::ranges::all_of(models(), [](const auto& one) { return one->state->is_alive(); });
}

bool ModelCatalog::serves() const { return first_if_not_serving(models()) == nullptr && is_alive(); }

HttpResponse ModelCatalog::health() const {
  const Models all = models();
  if (const ServerState* const first = first_if_not_serving(all)) return first->health();
  Json loaded = Json::array();
  for (const std::shared_ptr<const CatalogModel>& one : all) {
    const std::shared_ptr<const ReadyModel> model = one->state->model();
    if (model == nullptr) continue;
    if (!one->state->is_alive()) return one->state->health();
    const EngineStatus status = model->engine->status();
    loaded.push_back({{"model", model->name},
                      {"slots", {{"total", status.n_slots}, {"running", status.n_running}}},
                      {"waiting", status.n_waiting}});
  }
  return probe_response(true,
                        {{"status", loaded.empty() ? "unloaded" : "ok"}, {"models", std::move(loaded)}});
}

HttpResponse ModelCatalog::live() const {
  for (const std::shared_ptr<const CatalogModel>& one : models())
    if (!one->state->is_alive()) return one->state->live();
  return probe_response(true, {{"status", "ok"}});
}

HttpResponse ModelCatalog::ready() const {
  if (const ServerState* const first = first_if_not_serving(models())) return first->ready();
  return live();
}

std::string_view model_status(const ServerState& state) {
  if (state.model() != nullptr) return "loaded";
  if (state.loads()) return "loading";
  return state.last_refusal().empty() ? "unloaded" : "failed";
}

Json status_json(const ServerState& state) {
  Json json = {{"value", std::string(model_status(state))}};
  if (json["value"] == "failed") json["error"] = state.last_refusal();
  return json;
}

}  // namespace hearth
