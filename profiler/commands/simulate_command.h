// `bench --simulate`: simulates the engine's schedule on a machine that is not available.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "profiler/bench/bench.h"
#include "profiler/options/choice_options.h"
#include "profiler/options/model_options.h"
#include "profiler/options/plan_options.h"

namespace hearth {

struct SimulateCommand {
  PlanOptions plan;  // plan.machine is simulated; empty: nothing is simulated
  std::string shape, type = "q4_0";
  ChoiceOptions choice;
  const CLI::Option* type_option = nullptr;
  const CLI::Option* placement = nullptr;
  const CLI::Option* split = nullptr;

  /// Returns whether the solver chooses the placement, as in `plan`. False only if the user's options select
  /// another placement.
  bool solves() const {
    return split->count() == 0 && (placement->count() == 0 || placement->as<std::string>() == "solved");
  }
};

/// Adds the simulation's options to `bench`. The model and device options of `bench` also apply to the
/// simulation. `command` must outlive the parsing.
void add_simulate_options(CLI::App& bench, SimulateCommand& command, ModelOptions& options);

/// Replaces this process by the program beside it that can simulate a device, with the same arguments.
/// Does not return; throws std::runtime_error (one sentence) if the replacement fails.
[[noreturn]] void run_simulator();

/// Runs the simulation and prints its result. If this program cannot simulate a device, calls run_simulator()
/// and does not return. Throws std::runtime_error (one sentence).
int run_simulate_command(const SimulateCommand& command, const ModelOptions& model, const BenchOptions& bench,
                         bool generate_given, bool json);

}  // namespace hearth
