// Counts which neurons are active while a model serves, so that placement can follow the users' actual
// requests.
//
// The engine thread counts a sample of the decoded tokens (CountOptions), in memory of its own. A thread of
// this object takes the counts every few minutes, and once more at the end, and adds them to the model's
// activity file. So the engine thread never waits for a disk. Made and ended by hearthd.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "engine/model/model_identity.h"
#include "engine/model_runtime.h"
#include "kernels/base/mutex.h"

namespace hearth {

struct OnlineActivityOptions {
  std::filesystem::path file;  // the activity file; its folder exists
  std::chrono::milliseconds write_every{std::chrono::minutes(5)};
  /// Two of every 2n steps are counted. 0: kOneOfOnCpu or kOneOfOnDevice.
  int one_of = 0;
  /// Called on the writing thread with one sentence if the file cannot be written or belonged to another
  /// model. Not called again while the same failure lasts. May be empty.
  std::function<void(const std::string& sentence)> warn;
};

class OnlineActivity {
 public:
  /// Counts two of every 16 steps. That costs 0.5 to 0.7 % of the time of a model of five million weights,
  /// less with larger models (docs/speed.md).
  static constexpr int kOneOfOnCpu = 8;
  /// Counts two of every 64 steps. A device takes a fraction of the CPU's time for a step, and it waits while
  /// the host counts: some nanoseconds per active neuron.
  static constexpr int kOneOfOnDevice = 32;

  /// Begins counting. The model must outlive this object and must not run a step yet. Throws
  /// std::invalid_argument (one sentence) if neurons cannot be counted (ModelRuntime::count_activity).
  OnlineActivity(ModelRuntime& model, OnlineActivityOptions options);
  /// Calls finish().
  ~OnlineActivity();
  OnlineActivity(const OnlineActivity&) = delete;
  OnlineActivity& operator=(const OnlineActivity&) = delete;

  /// Writes all counts so far and ends the thread. Nothing is lost if the engine runs no more steps. Any
  /// thread; may be called more than once.
  void finish();

  const std::filesystem::path& file() const { return options_.file; }
  /// Tokens written since the start. Any thread.
  uint64_t n_written() const;

 private:
  void run(const std::stop_token& stop);
  void write();

  ModelRuntime& model_;
  const OnlineActivityOptions options_;
  const ModelIdentity identity_;

  /// Counts taken from the engine but not yet written. Used by the writing thread only, later by the thread
  /// in finish().
  ActivityCounts waiting_;
  std::string last_warning_;

  mutable Mutex mutex_;
  std::condition_variable_any wake_;
  uint64_t n_written_ HEARTH_GUARDED_BY(mutex_) = 0;
  Mutex ending_;         // held by finish()
  std::jthread thread_;  // last member: starts when the others exist
};

}  // namespace hearth
