// The model that is served, over its life in the process: loaded, replaced by another, unloaded while nobody asks.
//
// main calls tick() several times a second, and everything is loaded and freed by it or on threads that it starts. HTTP
// threads take the model that is served from ServerState, and ask for another by handle_admin(). A model goes when the last
// answer that it makes has ended.
//
// Replacing. A model on the CPU for whose weights there is room is loaded beside the one that is served, which answers
// until the other is there. Else the one that is served goes first: new requests get 503 until the other is loaded, running
// answers have --drain-seconds to end. If the new one cannot be loaded, the one before stays, or is loaded again.
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

  /// state and trace (null: nothing is traced) outlive the host.
  ModelHost(const Options& options, const Environment& environment, CacheFolder cache, std::string version,
            ServerState& state, Trace* trace);
  ~ModelHost();

  // -- main's thread --

  /// Begins to load the first model.
  void begin(ModelFiles files);
  enum class Event { kNone, kProgress, kReady };
  /// Does what is due, and says what has happened: kProgress while a model is being loaded. Throws what the first load throws.
  Event tick();
  /// Until the first model is served.
  bool is_starting() const { return is_starting_; }
  bool is_loading() const { return loading_.valid(); }
  /// Since when the model is being loaded that is, or was loaded last.
  Clock::time_point load_start() const { return load_start_; }
  /// Null: none is loaded.
  const ServingModel* model() const { return current_.get(); }
  /// What is served now, or was last.
  const Options& options() const { return options_; }

  /// Takes the model of these options, if it is another than the one that is served, or its file has changed (SIGHUP).
  void reload(const Options& now);
  void start_profiling();
  bool skip_profiling();
  /// Why an engine has failed, or why there is no model any more; nullopt: neither.
  std::optional<std::string> failure() const;

  /// A load ends as soon as it can, and its model is not served.
  void abandon_load() { abandon_ = true; }
  /// Whether the load that was abandoned has ended.
  bool has_ended() const { return loading_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  /// Refuses new requests, waits for running answers, cuts those that run at the deadline: false. Any thread, once no other
  /// of main's functions is called.
  bool drain(Clock::time_point deadline);
  /// Writes what was counted. Call it when drained.
  void finish_profile();

  // -- any thread --

  /// Answers GET and POST /admin/model.
  HttpResponse handle_admin(const HttpRequest& request);

 private:
  struct Wish {
    Options options;
    ModelFiles files;
  };
  /// A model that is served no more, and goes when its last answer has ended.
  struct Leaving {
    std::shared_ptr<ServingModel> model;
    Clock::time_point deadline;
    std::future<bool> drained;  // valid once nobody begins anything with it any more
  };
  struct FileStamp {
    std::filesystem::file_time_type time{};
    std::uintmax_t bytes = 0;
    bool operator==(const FileStamp&) const = default;
  };

  void load(Wish wish);
  void load_again();  // the model of options_
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

  Options options_;  // main changes it with the mutex held, and others read it so
  const Environment environment_;
  const CacheFolder cache_;
  const std::string version_;
  ServerState& state_;
  Trace* const trace_;

  // main's thread only.
  std::shared_ptr<ServingModel> current_;
  FileStamp stamp_;  // of current_'s file when it was loaded
  std::vector<Leaving> leaving_;
  std::optional<Wish> next_;                            // is loaded when leaving_ is empty
  Options loading_options_;                             // of loading_
  std::future<std::unique_ptr<ServingModel>> loading_;  // valid until its result is taken
  Clock::time_point load_start_, last_busy_;
  uint64_t last_steps_ = 0;
  bool is_starting_ = true, falls_back_ = false;
  std::optional<std::string> lost_;  // why there is no model any more

  std::atomic<bool> abandon_{false};
  mutable Mutex mutex_;
  std::optional<Wish> wish_ HEARTH_GUARDED_BY(mutex_);  // asked for, not yet begun
  std::string replacing_by_ HEARTH_GUARDED_BY(mutex_);  // path of the model that takes the served one's place
  std::string last_error_ HEARTH_GUARDED_BY(mutex_);    // why the last replacement has failed
};

}  // namespace hearth
