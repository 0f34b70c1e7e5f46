// While a model is served for the first time: finds out what this machine can do and which neurons are
// active, and then has the model placed by that, at a moment when nobody asks anything.
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
#include "profiler/placement/solver.h"

namespace hearth {

/// Says in the log what a placement that was solved is expected to do. Any thread.
void log_solution(const PlacementSolution& solution);

class Profiling {
 public:
  struct Inputs {
    ModelRuntime& runtime;  // on a device, running under `engine`; both outlive this
    Engine& engine;
    LoadOptions load;  // as runtime was loaded
    std::filesystem::path activity_file;
    Environment environment;
  };
  /// Begins, on a thread of its own. What it does and finds is logged; its failures are warnings.
  explicit Profiling(Inputs inputs);
  /// Tells it to stop and waits: for some tenths of a second.
  ~Profiling() = default;
  /// Ends it: what it has found is kept for the next start, and the model stays as it is placed. False: it is
  /// over, or the model is being placed. Any thread.
  bool skip();
  Profiling(const Profiling&) = delete;
  Profiling& operator=(const Profiling&) = delete;

 private:
  void run(const std::stop_token& stop);
  bool measure_and_place(const std::stop_token& stop);

  const Inputs in_;
  /// Nothing is left to skip. Outlives the object, as the work does that it leaves to the engine.
  const std::shared_ptr<std::atomic<bool>> over_ = std::make_shared<std::atomic<bool>>(false);
  std::jthread thread_;  // last: begins when the rest is there
};

}  // namespace hearth
