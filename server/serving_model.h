// A loaded model and everything that serves it: runtime, chat template, engine, API, and the embedding model
// if there is one.
//
// Built by hearthd's load thread. Const after that.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/environment.h"
#include "config/options.h"
#include "engine/engine.h"
#include "engine/model_runtime.h"
#include "profiler/activity/online_activity.h"
#include "profiler/activity/served_trace.h"
#include "server/api/api_context.h"
#include "server/api/server_state.h"
#include "server/chat/chat_template.h"
#include "server/embedding_model.h"
#include "server/model_files.h"
#include "server/page/live_events.h"
#include "server/profiling.h"

namespace hearth {

/// The cache folder, or the reason why there is no cache folder.
using CacheFolder = std::variant<std::filesystem::path, std::string>;

class LoadProgress;

/// The recordings that are made while models are served. Each pointer may be null. The objects must outlive
/// the models.
struct Recorders {
  Trace* timeline = nullptr;
  ServedTrace* experts = nullptr;
};

class ServingModel {
 public:
  /// Loads the models from their open files. progress: called on this thread with fractions in [0, 1]; may
  /// throw to abandon the load. cache: the folder for the models' activity (profiler/machine/cache_folder.h).
  /// Throws StartError or std::bad_alloc.
  static std::unique_ptr<ServingModel> load(ModelFiles files, const Options& options,
                                            const Environment& environment, const CacheFolder& cache,
                                            const std::string& version, const Recorders& recorders,
                                            std::function<void(double)> progress);
  /// Call when the model has begun to serve. Starts the measurements for a good placement if --profile
  /// requests them and the model uses a GPU.
  void start_profiling(const Environment& environment);
  /// Ends the profiling early (Profiling::skip()). Returns false if it has ended or was never started.
  bool skip_profiling();

  /// Returns the reason if an engine has failed, otherwise nullopt.
  std::optional<std::string> failure() const;
  /// Ends the event streams of all open pages. Any thread may call it.
  void close_watchers();
  /// Drains all engines (Engine::drain()). Any thread may call it.
  bool drain(std::chrono::steady_clock::time_point deadline);
  /// Call after the engines have drained. Saves the activity that was counted while the model served, and the
  /// trace of experts.
  void finish_profile();
  /// Saves the trace of experts. Call after the engines have drained or one has failed.
  void finish_trace();
  /// Returns the parts that the routes use. This object must outlive them.
  ReadyModel ready() const;
  /// Whether a part of the model is on a GPU.
  bool uses_device() const { return runtime_->placed().plan != nullptr; }
  const std::string& name() const { return api_->model().names.front(); }
  bool can_chat() const { return chat_template_ != nullptr; }
  bool generates() const { return runtime_->facts().spec.arch.has_output; }
  bool ranks() const { return runtime_->facts().spec.n_scores > 0; }
  /// Logs the models and their memory in a few lines.
  void log_summary() const;

 private:
  // The stages of load(), in order.
  void load_beside(ModelFiles& files, const Options& options, LoadProgress& progress);
  void load_runtime(std::shared_ptr<const ModelFile> file, const Options& options,
                    const Environment& environment, const CacheFolder& cache, Trace* trace,
                    LoadProgress& progress);
  void start_engine(const Options& options, const CacheFolder& cache, const std::string& version,
                    ServedTrace* experts);
  void make_api(const Options& options, const std::string& version, LiveActivity* live);

  // Members are destroyed in reverse order: the API uses the engine, and the engine uses the runtime.
  std::unique_ptr<EmbeddingModel> embedder_;  // null if the served model embeds
  std::unique_ptr<ModelRuntime> drafter_;     // null if there is no draft model
  LoadOptions load_;                          // the options with which the runtime was loaded
  bool profiles_ = false;                     // whether something is left to measure
  std::unique_ptr<ModelRuntime> runtime_;
  std::unique_ptr<OnlineActivity> activity_;           // null if activity is not counted
  std::unique_ptr<ServedTrace::Recording> recording_;  // null if experts are not recorded
  std::unique_ptr<ChatTemplate> chat_template_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<LiveEvents> live_events_;  // null if the page is off
  std::unique_ptr<ApiContext> api_;
  std::unique_ptr<Profiling> profiling_;  // null if no profiling was started
};

}  // namespace hearth
