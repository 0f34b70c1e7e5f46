// The models that requests can choose by name, if the server has several.
//
// Main fills the catalog at start and after SIGHUP; HTTP threads read it. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/mutex.h"
#include "server/api/model_file_facts.h"
#include "server/api/server_state.h"
#include "server/http/http_types.h"
#include "server/json/json.h"

namespace hearth {

struct CatalogModel {
  std::vector<std::string> names;            // at least one; the first is shown
  bool is_default = false;                   // answers requests that name no model
  bool any_name = false;                     // --alias '*': also answers requests that name an unknown model
  std::optional<ModelFileFacts> facts = {};  // absent if the file cannot be read as a model
  int context_tokens = 0;                    // that a request can have; 0: unknown until the model is loaded
  ServerState* state = nullptr;              // not null; outlives the catalog
};

class ModelCatalog {
 public:
  using Models = std::vector<std::shared_ptr<const CatalogModel>>;

  void set(Models models);
  /// Returns all models, in the order of lists.
  Models models() const;

  /// Returns the model with this name. An empty name selects the default model, or else the only model that
  /// is loaded or exists. without_tag: also accepts names with Ollama's ":latest". Throws RequestError (404),
  /// which lists the models.
  std::shared_ptr<const CatalogModel> find(std::string_view name, bool without_tag) const;
  /// Returns the model that stores this response, or null.
  std::shared_ptr<const CatalogModel> keeper_of(const std::string& response_id) const;
  /// Returns the loaded model that is listed first, or null.
  std::shared_ptr<const ReadyModel> first_loaded() const;

  /// Whether a model is loaded or can be, and no engine has failed.
  bool serves() const;
  /// False if only a restart of the process helps.
  bool is_alive() const;
  // The answers to probes, like those of ServerState. While the first model is loaded at the start of the
  // process, they are that model's.
  HttpResponse health() const;
  HttpResponse live() const;
  HttpResponse ready() const;

 private:
  mutable Mutex mutex_;
  Models models_ HEARTH_GUARDED_BY(mutex_);
};

/// The state of a model in lists: "loaded", "loading", "unloaded" or "failed". "failed": it could not be
/// loaded when it was last requested; the next request tries again.
std::string_view model_status(const ServerState& state);

/// An extension of OpenAI's model object: {"value": model_status()}, and the reason of a failure.
Json status_json(const ServerState& state);

}  // namespace hearth
