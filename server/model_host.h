// Owns a served model while the process runs: loads it, replaces it, and unloads it when idle. ModelPool has
// a host for each model.
//
// main calls tick() several times a second. tick() and the threads that it starts load and free all models.
// HTTP threads get the served model from ServerState, and request a replacement through handle_admin(). A
// model is freed after its last answer has ended.
//
// Replacement: if the served model uses no GPU and there is memory for both models, the new model is loaded
// while the old one serves. Otherwise, the old model is unloaded first: running answers get --drain-seconds
// to end, and new requests get 503 until the new model is loaded. If the new model cannot be loaded, the old
// one continues to serve or is loaded again. A host that is one of several replaces nothing: ModelPool tells
// it when to load and unload its model.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/environment.h"
#include "config/options.h"
#include "kernels/base/mutex.h"
#include "server/api/server_state.h"
#include "server/http/http_types.h"
#include "server/serving_model.h"

namespace hearth {

class ModelHost {
 public:
  using Clock = std::chrono::steady_clock;

  /// state and recorders must outlive the host. one_of_several: ModelPool decides when to load the model. If
  /// a load fails after the first, the requests that wait for the model are refused, and the process
  /// continues.
  ModelHost(const Options& options, const Environment& environment, CacheFolder cache, std::string version,
            ServerState& state, const Recorders& recorders, bool one_of_several = false);
  ~ModelHost();

  // -- only main's thread may call these --

  /// Starts loading the first model.
  void begin(ModelFiles files);
  // Only for one of several models:
  /// Begins without loading the model.
  void begin_unloaded();
  /// Starts to load the model. options: those of the constructor, with another limit for memory. REQUIRES:
  /// !holds_memory().
  void load_now(const Options& options, ModelFiles files);
  /// Stops serving the model. It is freed when its last answer has ended. REQUIRES: model() is not null.
  void unload();
  /// Whether the model is loaded or being loaded, or answers with it are still running.
  bool holds_memory() const { return loading_.valid() || current_ != nullptr || !leaving_.empty(); }
  /// Whether the model's engine has work.
  bool is_busy() const;
  /// Whether the loaded model's file is no longer the one that was loaded.
  bool file_has_changed() const { return current_ != nullptr && !(stamp_of(options_.model) == stamp_); }

  enum class Event { kNone, kProgress, kReady };
  /// Performs the actions that are due. Returns kReady if a new model has begun to serve, otherwise kProgress
  /// while a model is loading. Passes on the exceptions of the first load.
  Event tick();
  /// True until the first model serves.
  bool is_starting() const { return is_starting_; }
  bool is_loading() const { return loading_.valid(); }
  /// Start time of the current load, or of the last load if none is running.
  Clock::time_point load_start() const { return load_start_; }
  /// The served model, or null if none is loaded.
  const ServingModel* model() const { return current_.get(); }
  /// Options of the served model, or of the last served model if none is loaded.
  const Options& options() const { return options_; }

  /// Called for SIGHUP. now: the options that the server would have if it were started now. Schedules a load
  /// of the model in `now` if this is not the served model, or if the file of the served model has changed.
  void reload(const Options& now);
  void start_profiling();
  bool skip_profiling();
  /// Returns the reason if an engine has failed or no model is left to serve. Otherwise returns nullopt.
  std::optional<std::string> failure() const;

  /// Makes the running load end as soon as possible. Its model will not be served.
  void abandon_load() { abandon_ = true; }
  /// Whether the abandoned load has ended.
  bool has_ended() const {
    return !loading_.valid() || loading_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  /// Refuses new requests and waits for running answers. At the deadline, cuts off running answers and
  /// returns false. Any thread may call this, but main must not call other functions of this class at the
  /// same time.
  bool drain(Clock::time_point deadline);
  /// Saves the counted activity and the trace of experts. Call after drain().
  void finish_profile();
  /// Saves the trace of experts. Call after a failure().
  void finish_trace();

  // -- any thread may call this --

  /// Answers GET and POST /admin/model.
  HttpResponse handle_admin(const HttpRequest& request);

 private:
  struct Wish {
    Options options;
    ModelFiles files;
  };
  /// A model that no longer serves. It is freed after its last answer has ended.
  struct Leaving {
    std::shared_ptr<ServingModel> model;
    Clock::time_point deadline;
    std::future<bool> drained;  // valid when no request refers to the model, or after the deadline
  };
  struct FileStamp {
    std::filesystem::file_time_type time{};
    std::uintmax_t bytes = 0;
    bool operator==(const FileStamp&) const = default;
  };

  void load(Wish wish);
  void load_again();  // loads the model of options_
  bool take_loaded();
  void take_wish();
  void leave(Clock::time_point deadline);
  void look_after_leaving();
  void look_whether_idle();
  void wake();
  void lose(const std::string& why);
  bool has_room_beside(const Wish& wish) const;
  static FileStamp stamp_of(const std::string& path);
  HttpResponse describe() const;

  Options options_;  // main writes it with mutex_ held; other threads read it with mutex_ held
  const Environment environment_;
  const CacheFolder cache_;
  const std::string version_;
  ServerState& state_;
  const Recorders recorders_;
  const bool one_of_several_;

  // Only main's thread uses these members.
  std::shared_ptr<ServingModel> current_;
  FileStamp stamp_;  // time and size of current_'s file when it was loaded
  std::vector<Leaving> leaving_;
  std::optional<Wish> next_;                            // will be loaded when leaving_ is empty
  Options loading_options_;                             // options of the model that is being loaded
  std::future<std::unique_ptr<ServingModel>> loading_;  // valid until the loaded model has been taken
  Clock::time_point load_start_, last_busy_;
  uint64_t last_steps_ = 0;
  bool is_starting_ = true, falls_back_ = false;
  std::optional<std::string> lost_;  // why no model is left to serve

  std::atomic<bool> abandon_{false};
  mutable Mutex mutex_;
  std::optional<Wish> wish_ HEARTH_GUARDED_BY(mutex_);  // requested, but not begun
  std::string replacing_by_ HEARTH_GUARDED_BY(mutex_);  // path of the model that is replacing the served one
  std::string last_error_ HEARTH_GUARDED_BY(mutex_);    // why the last replacement failed
};

}  // namespace hearth
