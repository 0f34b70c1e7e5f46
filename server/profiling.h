// Profiles the machine and the model while the model is served for the first time: measures the machine's
// speed and counts which neurons are active. Then has the engine place the model according to the results,
// while no request is running.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>

#include "config/environment.h"
#include "engine/engine.h"
#include "engine/model_runtime.h"
#include "engine/placement/solver.h"

namespace hearth {

/// Logs the speed that a solved placement is expected to reach. Any thread.
void log_solution(const PlacementSolution& solution);

class Profiling {
 public:
  struct Inputs {
    ModelRuntime& runtime;  // on a device; `engine` runs it. Both must outlive this object
    Engine& engine;
    LoadOptions load;  // options with which the runtime was loaded
    std::filesystem::path activity_file;
    Environment environment;
  };
  /// Starts a thread that does the work. It logs its steps and results, and failures as warnings.
  explicit Profiling(Inputs inputs);
  /// Tells the thread to stop and waits for it, which takes a few tenths of a second.
  ~Profiling() = default;
  /// Ends the profiling early. Measurements are kept for the next start, and the model keeps its placement.
  /// Returns false if the profiling is over or the model is being placed. Any thread.
  bool skip();
  Profiling(const Profiling&) = delete;
  Profiling& operator=(const Profiling&) = delete;

 private:
  void run(const std::stop_token& stop);
  bool measure_and_place(const std::stop_token& stop);

  const Inputs in_;
  /// True once skip() has nothing left to stop: the profiling has ended, was skipped, or is placing the
  /// model. Shared with the work given to the engine, which may outlive this object.
  const std::shared_ptr<std::atomic<bool>> over_ = std::make_shared<std::atomic<bool>>(false);
  std::jthread thread_;  // last member: starts when the others exist
};

}  // namespace hearth
