// Owns the models that the server serves: one, or several that share a budget of memory.
//
// With one model, the pool is only its ModelHost. With several, each model has a host, and requests choose
// one by name (server/api/model_catalog.h). A model is loaded when a request asks for it. Requests wait for
// their models in order of arrival; only the model whose request has waited longest may make others leave:
//
//   1. Its memory is computed before it is loaded (engine/planned_memory.h).
//   2. If the budget has no room, idle models that were used least recently are unloaded. If these are too
//      few, busy models stop accepting requests, and are unloaded when their running answers have ended.
//   3. When the memory is free, the model is loaded.
//
// So the models in memory, including those that are loading or leaving, never exceed the budget, and no model
// waits forever. With a GPU, only one model is in memory at a time, because each plans for the whole GPU.
//
// Main calls tick() several times a second; HTTP threads use the catalog and handle_admin().
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/environment.h"
#include "config/options.h"
#include "kernels/base/mutex.h"
#include "server/api/model_catalog.h"
#include "server/api/server_state.h"
#include "server/http/http_types.h"
#include "server/model_host.h"
#include "server/models/folder_models.h"
#include "server/serving_model.h"

namespace hearth {

class ModelPool {
 public:
  using Clock = std::chrono::steady_clock;

  /// Reads the headers of the models in --models-folder. recorders must outlive the pool. Throws StartError
  /// or ReferenceError.
  ModelPool(const Options& options, const Environment& environment, CacheFolder cache, std::string version,
            const Recorders& recorders);
  ~ModelPool();

  /// Whether requests choose among models. False if there is one --model and no --models-folder.
  bool has_several() const { return has_several_; }
  /// The state of the first model. With one model, it is the server's state.
  const ServerState& state() const { return lanes_.front()->state; }
  /// All models; null if there is one.
  const ModelCatalog* catalog() const { return has_several_ ? &catalog_ : nullptr; }
  /// All models. One model and its embedding model are listed since they were loaded first.
  const ModelCatalog& listed() const { return catalog_; }

  // -- only main's thread may call these --

  /// Starts to load the first --model, if there is one. files: its open files.
  void begin(ModelFiles files);
  /// A model that is loading or has begun to serve.
  struct Event {
    ModelHost::Event what;  // kProgress or kReady
    const ModelHost* host;  // not null; as long as the pool
    double progress;        // of the load
  };
  /// Performs the actions that are due. Passes on the exceptions of the first load.
  std::vector<Event> tick();
  /// True until the first --model serves.
  bool is_starting() const { return lanes_.front()->host.is_starting(); }
  /// Whether requests wait until a model leaves. tick() should then be called more often.
  bool is_changing() const { return is_changing_; }
  bool is_alive() const { return has_several_ ? catalog_.is_alive() : state().is_alive(); }
  /// See ModelHost::reload(). With several models, reads the folder again, and unloads models whose files
  /// have changed.
  void reload(const Options& now);
  void start_profiling(const ModelHost& ready);
  bool skip_profiling();
  std::optional<std::string> failure() const;
  /// Requests that run or wait, of all models.
  int n_unfinished() const;
  void set_stopping();
  void abandon_loads();
  bool is_loading() const;
  /// Whether all abandoned loads have ended.
  bool has_ended() const;
  /// See ModelHost::drain().
  bool drain(Clock::time_point deadline);
  void finish_profile();
  void finish_trace();

  // -- any thread may call this --

  /// Answers GET and POST /admin/model.
  HttpResponse handle_admin(const HttpRequest& request);

 private:
  struct Planned {
    ModelFiles files;
    Options options;  // with the limit for memory
    uint64_t bytes = 0;
  };
  /// A model's place in the pool. It exists until the process ends, even if the model's file is removed.
  struct Lane {
    Lane(ModelPool& pool, const Options& lane_options, std::string lane_name, bool is_of_folder);

    const Options options;
    const std::string name;
    const bool of_folder;
    bool is_pinned = false;
    bool is_listed = true;  // false if the file is no longer in the folder
    FolderModel facts;
    ServerState state;
    ModelHost host;
    std::optional<Planned> planned;       // set while requests wait for the model
    std::atomic<uint64_t> held_bytes{0};  // memory that is set aside for the model while it holds memory
    std::atomic<bool> is_ordered{false}, must_unload{false};  // by handle_admin()
  };

  void add_several();
  void add_folder(const FolderScan& scan);
  void publish();
  void publish_only();
  Planned plan(const Lane& lane) const;
  uint64_t memory_of_others(const Lane& lane, bool only_pinned) const;
  void serve_waiting();
  bool make_way(Lane& lane);
  void unload(Lane& lane, const std::string& why);
  void tidy();
  HttpResponse describe() const;

  const Options options_;
  const Environment environment_;
  const CacheFolder cache_;
  const std::string version_;
  const Recorders recorders_;
  const bool has_several_;
  bool one_at_a_time_ = false;  // a GPU computes
  uint64_t budget_bytes_ = 0;   // memory of all models together; set if has_several_
  bool is_changing_ = false;

  // Only main adds lanes, with the mutex held. Other threads search the vector with the mutex held.
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // at least one
  ModelCatalog catalog_;
};

/// Throws StartError if an option that belongs to one model is given with several.
void check_options_of_several(const Options& options);

/// Whether the options name more than one model.
bool names_several(const Options& options);

}  // namespace hearth
