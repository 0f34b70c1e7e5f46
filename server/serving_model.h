// Everything that a loaded model needs to be served, in one object with one lifetime: runtime, template,
// engine, API.
//
// Built by hearthd's load thread; const for everyone after that.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "config/environment.h"
#include "config/options.h"
#include "engine/engine.h"
#include "engine/model_runtime.h"
#include "profiler/activity/online_activity.h"
#include "server/api/service.h"
#include "server/chat/chat_template.h"
#include "server/profiling.h"
#include "server/server_state.h"

namespace hearth {

/// Opens the model's file, once for the whole start, and refuses at once what loading could not repair: no
/// model given, a path that is not a readable, complete GGUF file, a chat template file that cannot be read,
/// an ISA or a GPU that this machine lacks. Throws StartError.
std::shared_ptr<const ModelFile> open_checked(const Options& options);

/// The names the model is served under, the default first: --alias in their order (without '*'), then the
/// file's name without ".gguf" and without a split's "-00001-of-00002".
std::vector<std::string> model_names(const Options& options);

/// The cache folder, or the reason why there is none.
using CacheFolder = std::variant<std::filesystem::path, std::string>;

class ServingModel {
 public:
  /// Loads the model from its open file. `progress` is called from this thread with fractions in [0, 1] and
  /// may throw to give up. `cache` is where activity of models is kept (profiler/cache_folder.h). The trace
  /// may be null, and outlives the model. Throws StartError, std::bad_alloc.
  static std::unique_ptr<ServingModel> load(std::shared_ptr<const ModelFile> file, const Options& options,
                                            const Environment& environment, const CacheFolder& cache,
                                            const std::string& version, Trace* trace,
                                            std::function<void(double)> progress);
  /// Call once the model is served. Starts measuring what a good placement needs, if --profile asks for it
  /// and the model runs on a GPU.
  void start_profiling(const Environment& environment);
  /// Ends that early (Profiling::skip). Returns false if it is over or was never started.
  bool skip_profiling();

  Engine& engine() const { return *engine_; }
  /// Call once the engine is drained. Writes the activity that was counted while the model served.
  void finish_profile();
  /// What the routes need; the ServingModel must outlive them.
  ReadyModel ready() const;
  bool can_chat() const { return chat_template_ != nullptr; }
  /// Says in a few lines what was loaded and what it takes.
  void log_summary() const;

 private:
  // Destroyed from the last to the first: the API uses the engine, the engine the runtime.
  std::string name_;
  LoadOptions load_;       // how the runtime was loaded
  bool profiles_ = false;  // something is left to measure
  std::unique_ptr<ModelRuntime> runtime_;
  std::unique_ptr<OnlineActivity> activity_;  // null: nothing is counted
  std::unique_ptr<ChatTemplate> chat_template_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<ApiService> api_;
  std::unique_ptr<Profiling> profiling_;  // null: nothing is being measured
};

}  // namespace hearth
