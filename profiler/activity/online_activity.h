// Counts which neurons are active while a model serves, so that placement can follow the users' actual
// requests.
//
// The engine thread counts a sample of the decoded tokens (CountOptions) in its own memory. A thread that
// this object owns takes the counts every few minutes, and once more at the end, and adds them to the model's
// activity file. Therefore the engine thread never waits for a disk. hearthd creates and destroys the object.
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
  /// Two adjacent steps are counted in every 2 * one_of steps, which is one step in `one_of` on average. 0:
  /// use kOneOfOnCpu or kOneOfOnDevice.
  int one_of = 0;
  /// Called on the writing thread with one sentence if the file cannot be written, or if it belonged to
  /// another model. It is not called again while the same failure lasts. May be empty.
  std::function<void(const std::string& sentence)> warn;
};

class OnlineActivity {
 public:
  /// Counts two of every 16 steps. This costs 0.5 to 0.7 % of the running time of a model with five million
  /// weights, and less with larger models (docs/speed.md).
  static constexpr int kOneOfOnCpu = 8;
  /// Counts two of every 64 steps, fewer than on the CPU, because a device's steps are shorter, so that
  /// counting takes a larger share of their time. Besides, the device is idle while the host counts, which
  /// takes some nanoseconds per active neuron.
  static constexpr int kOneOfOnDevice = 32;

  /// Begins counting. The model must outlive this object and must not have started to run steps. Throws
  /// std::invalid_argument (one sentence) if neurons cannot be counted (ModelRuntime::count_activity).
  OnlineActivity(ModelRuntime& model, OnlineActivityOptions options);
  /// Calls finish().
  ~OnlineActivity();
  OnlineActivity(const OnlineActivity&) = delete;
  OnlineActivity& operator=(const OnlineActivity&) = delete;

  /// Writes all counts so far and ends the thread. No counts are lost if the engine has run its last step
  /// before this call. Any thread; may be called more than once.
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

  /// Counts taken from the engine but not yet written. Only the writing thread uses these counts.
  ActivityCounts waiting_;
  std::string last_warning_;

  mutable Mutex mutex_;
  std::condition_variable_any wake_;
  uint64_t n_written_ HEARTH_GUARDED_BY(mutex_) = 0;
  Mutex ending_;         // held by finish()
  std::jthread thread_;  // last member: starts when the others exist
};

}  // namespace hearth
