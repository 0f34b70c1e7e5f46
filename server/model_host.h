// Owns the served model for the life of the process: loads it, replaces it, and unloads it when idle.
//
// main calls tick() several times a second; tick() and the threads it starts do all loading and freeing. HTTP
// threads take the served model from ServerState and request a replacement through handle_admin(). A model is
// freed when its last answer has ended.
//
// Replacing: if the served model uses no GPU and there is memory for both, the new model loads beside it and
// the old one answers until the new one is ready. Otherwise the old model is unloaded first: running answers
// have --drain-seconds to end, and new requests get 503 until the new model is loaded. If the new model
// cannot be loaded, the old one stays or is loaded again.
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
#include "kernels/base/trace.h"
#include "server/api/server_state.h"
#include "server/http/http_types.h"
#include "server/serving_model.h"

namespace hearth {

class ModelHost {
 public:
  using Clock = std::chrono::steady_clock;

  /// state and trace (null: no tracing) must outlive the host.
  ModelHost(const Options& options, const Environment& environment, CacheFolder cache, std::string version,
            ServerState& state, Trace* trace);
  ~ModelHost();

  // -- main's thread --

  /// Starts loading the first model.
  void begin(ModelFiles files);
  enum class Event { kNone, kProgress, kReady };
  /// Performs the actions that are due. Returns kReady if one of them began to serve a new model, else
  /// kProgress while a model is loading. Throws what the first load throws.
  Event tick();
  /// True until the first model is served.
  bool is_starting() const { return is_starting_; }
  bool is_loading() const { return loading_.valid(); }
  /// When the current load began; if none is running, when the last load began.
  Clock::time_point load_start() const { return load_start_; }
  /// The served model; null if none is loaded.
  const ServingModel* model() const { return current_.get(); }
  /// Options of the served model; if none is loaded, those of the model that was served last.
  const Options& options() const { return options_; }

  /// For SIGHUP: schedules a load of the model that `now` names if that is not the served model, or if its
  /// file has changed.
  void reload(const Options& now);
  void start_profiling();
  bool skip_profiling();
  /// Why an engine has failed, or why no model is left to serve; nullopt if neither is the case.
  std::optional<std::string> failure() const;

  /// Tells the running load to end as soon as it can. The model that it loads will not be served.
  void abandon_load() { abandon_ = true; }
  /// Whether the abandoned load has ended.
  bool has_ended() const { return loading_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  /// Refuses new requests and waits for running answers. At the deadline it cuts off those that still run and
  /// returns false. Any thread may call this, but main must not call other functions of this class meanwhile.
  bool drain(Clock::time_point deadline);
  /// Saves the counted activity. Call after drain().
  void finish_profile();

  // -- any thread --

  /// Answers GET and POST /admin/model.
  HttpResponse handle_admin(const HttpRequest& request);

 private:
  struct Wish {
    Options options;
    ModelFiles files;
  };
  /// A model that is no longer served; freed when its last answer has ended.
  struct Leaving {
    std::shared_ptr<ServingModel> model;
    Clock::time_point deadline;
    std::future<bool> drained;  // valid once no request holds the model, or the deadline has passed
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

  Options options_;  // written by main with mutex_ held; other threads lock mutex_ to read it
  const Environment environment_;
  const CacheFolder cache_;
  const std::string version_;
  ServerState& state_;
  Trace* const trace_;

  // main's thread only.
  std::shared_ptr<ServingModel> current_;
  FileStamp stamp_;  // state of current_'s file when it was loaded
  std::vector<Leaving> leaving_;
  std::optional<Wish> next_;                            // loaded once leaving_ is empty
  Options loading_options_;                             // options of the model that loading_ loads
  std::future<std::unique_ptr<ServingModel>> loading_;  // valid until its result is taken
  Clock::time_point load_start_, last_busy_;
  uint64_t last_steps_ = 0;
  bool is_starting_ = true, falls_back_ = false;
  std::optional<std::string> lost_;  // why no model is left to serve

  std::atomic<bool> abandon_{false};
  mutable Mutex mutex_;
  std::optional<Wish> wish_ HEARTH_GUARDED_BY(mutex_);  // requested, not yet started
  std::string replacing_by_ HEARTH_GUARDED_BY(mutex_);  // path of the model that is replacing the served one
  std::string last_error_ HEARTH_GUARDED_BY(mutex_);    // why the last replacement failed
};

}  // namespace hearth
