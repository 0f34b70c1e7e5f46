// `bench --simulate`: simulates the engine's schedule on a machine that is not at hand.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "profiler/bench/bench.h"
#include "profiler/options/model_options.h"
#include "profiler/options/plan_options.h"

namespace hearth {

struct SimulateCommand {
  PlanOptions plan;  // plan.machine is simulated; empty: nothing is simulated
  std::string shape, type = "q4_0";
  const CLI::Option* type_option = nullptr;
  const CLI::Option* placement = nullptr;
  const CLI::Option* split = nullptr;

  /// Whether the placement is solved, as in `plan`: true unless the options ask for another placement.
  bool solves() const {
    return split->count() == 0 && (placement->count() == 0 || placement->as<std::string>() == "solved");
  }
};

/// Adds the options to `bench`; its options of the model and the device apply too. `command` must outlive the
/// parsing.
void add_simulate_options(CLI::App& bench, SimulateCommand& command, ModelOptions& options);

/// Starts the program beside this one that can simulate a device, with the same arguments. Returns only by
/// throwing std::runtime_error (one sentence).
[[noreturn]] void run_simulator();

/// Simulates and prints. A program that cannot simulate a device starts the one beside it that can, with the
/// arguments of this process, and does not return. Throws std::runtime_error (one sentence).
int run_simulate_command(const SimulateCommand& command, const ModelOptions& model, const BenchOptions& bench,
                         bool generate_given, bool json);

}  // namespace hearth
