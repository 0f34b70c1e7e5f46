// Measures the machine's speed and counts which neurons are active while a model is served for the first
// time. Then places the model again according to the results, while no request is running.
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

/// Logs the expected speed of a placement. Any thread may call it.
void log_solution(const PlacementSolution& solution);

class Profiling {
 public:
  struct Inputs {
    ModelRuntime& runtime;  // on a device; run by `engine`; both must outlive this object
    Engine& engine;
    LoadOptions load;  // the options with which the runtime was loaded
    std::filesystem::path activity_file;
    Environment environment;
  };
  /// Starts a thread that does the work and logs its steps and results. The thread logs failures as warnings.
  explicit Profiling(Inputs inputs);
  /// Makes the thread stop and waits for it, which takes a few tenths of a second.
  ~Profiling() = default;
  /// Ends the profiling early. The measurements so far are stored for the next start, and the placement does
  /// not change. Returns false if the profiling has ended or the model is being placed. Any thread may call
  /// it.
  bool skip();
  Profiling(const Profiling&) = delete;
  Profiling& operator=(const Profiling&) = delete;

 private:
  void run(const std::stop_token& stop);
  bool measure_and_place(const std::stop_token& stop);

  const Inputs in_;
  /// True if skip() can stop nothing anymore: the profiling has ended, was skipped, or is placing the model.
  /// Shared with the function that is given to the engine, which may outlive this object.
  const std::shared_ptr<std::atomic<bool>> over_ = std::make_shared<std::atomic<bool>>(false);
  std::jthread thread_;  // declared last, because the thread uses the other members
};

}  // namespace hearth
