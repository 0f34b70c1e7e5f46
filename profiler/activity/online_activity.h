// Gathers which neurons are active while a model serves, so that placement can follow what its users really
// ask.
//
// The engine thread counts a sample of the decoded tokens (CountOptions), in memory that is its own; a thread
// of this object takes the counts every few minutes and adds them to the model's activity file, and once more
// at the end. The engine thread waits for no disk. Made and ended by hearthd.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "engine/model/model_identity.h"
#include "engine/model_runtime.h"
#include "kernels/mutex.h"

namespace hearth {

struct OnlineActivityOptions {
  std::filesystem::path file;  // the activity file; its folder is there
  std::chrono::milliseconds write_every{std::chrono::minutes(5)};
  /// Of every 2n steps two are counted. 0: kOneOfOnCpu or kOneOfOnDevice.
  int one_of = 0;
  /// Told from the writing thread, in a sentence: the file cannot be written, or what was there was not the
  /// model's. Not told again while it goes on. May be empty.
  std::function<void(const std::string& sentence)> warn;
};

class OnlineActivity {
 public:
  /// Two steps of every 16: 0.5 to 0.7 % of the time of a model of five million weights, less of larger ones
  /// (docs/performance.md).
  static constexpr int kOneOfOnCpu = 8;
  /// Two of every 64. A device takes a fraction of the CPU's time for a step, and the host counts what it
  /// found while the device waits: some nanoseconds an active neuron.
  static constexpr int kOneOfOnDevice = 32;

  /// Begins counting. The model outlives it, and runs no step yet. Throws std::invalid_argument (one
  /// sentence) where neurons cannot be counted (ModelRuntime::count_activity).
  OnlineActivity(ModelRuntime& model, OnlineActivityOptions options);
  /// As finish().
  ~OnlineActivity();
  OnlineActivity(const OnlineActivity&) = delete;
  OnlineActivity& operator=(const OnlineActivity&) = delete;

  /// Writes what was counted until now and ends the thread. Once the engine runs no more steps, nothing is
  /// lost. Any thread, more than once.
  void finish();

  const std::filesystem::path& file() const { return options_.file; }
  /// Tokens that were written since the start. Any thread.
  uint64_t n_written() const;

 private:
  void run(const std::stop_token& stop);
  void write();

  ModelRuntime& model_;
  const OnlineActivityOptions options_;
  const ModelIdentity identity_;

  ActivityCounts waiting_;  // taken, not written yet: the writing thread's, after it the finishing one's
  std::string last_warning_;

  mutable Mutex mutex_;
  std::condition_variable_any wake_;
  uint64_t n_written_ HEARTH_GUARDED_BY(mutex_) = 0;
  Mutex ending_;         // held by finish()
  std::jthread thread_;  // last: starts when the rest is there
};

}  // namespace hearth
