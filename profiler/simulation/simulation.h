// Measures a model on a machine that is not available. It runs the engine's own schedule in virtual time
// (profiler/simulation/simulated_model.h), and compares the result with the planner's prediction for the same
// placement.
//
// All figures are computed from the machine's profile, the kernels' declarations and the cost tables, and
// each of them may differ from a measurement on a real GPU. A program that cannot simulate a device uses
// simulation_program() to find the program that can.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "kernels/cuda/ops/simulated_device.h"
#include "profiler/plan/mixture_plan.h"
#include "profiler/plan/plan_answer.h"
#include "profiler/simulation/simulated_model.h"

namespace hearth {

struct SimulationOptions {
  int n_prompt = 512, n_generate = 16;
  // Unmeasured decode steps before the measured ones: to record steps and fill the neuron cache, and, if
  // experts are exchanged, to exchange those that pay.
  int n_warm = 8, n_warm_exchanges = 256;
};

/// The cost of one phase. Seconds are in virtual time.
struct SimulatedPhase {
  double seconds = 0;
  int64_t n_tokens = 0, n_steps = 0;
  cuda::SimulatedUse device;
  /// Seconds in which the CPU computed, and the part of these in which the GPU computed too.
  double host_busy_s = 0, both_busy_s = 0;
  int64_t n_woken = 0;  // forks that had to wake parked threads
  double tokens_per_s() const { return static_cast<double>(n_tokens) / seconds; }
};

struct SimulationResult {
  Sparsity mode = Sparsity::kDense;
  SimulatedPhase prefill, decode;
  std::optional<PlacementSolution> planned;  // the planner's prediction; nullopt if the solver was not used
  /// The plan of a mixture; nullopt if the model is not a mixture or does not fit in RAM.
  std::optional<MixturePlan> mixture_plan;
  std::vector<std::string> plan_lines;
  DeviceBytes device_bytes;
  int n_device_layers = 0, n_shared_layers = 0, n_layers = 0;
  int n_kv_contexts = 0;                     // contexts whose keys and values fit in memory at once
  double round_trips = 0;                    // round trips per decoded token
  double share_of_bound = 0;                 // decode speed as a share of the byte bound (byte_bound.h)
  std::optional<PrefetchCounters> prefetch;  // while decoding
  std::optional<ExchangeTotals> exchange;    // while decoding
  ExpertCounts experts;                      // while decoding; zeros if the device holds no experts
};

/// Returns the speeds of the machine's GPU. REQUIRES: the machine has one.
cuda::SimulatedSpeeds simulated_speeds(const MachineProfile& machine);

/// Returns whether this program can simulate a device.
bool can_simulate();
/// Returns the path of the program that can simulate a device, which is in the folder of the program `self`.
/// The file may be missing.
std::filesystem::path simulation_program(const std::filesystem::path& self);

/// Runs a prompt, then decodes. If the load's budget is larger than the GPU's memory, simulates a GPU with as
/// much memory as the budget needs. Calls `progress` (may be empty) with the completed share. REQUIRES:
/// can_simulate().
SimulationResult simulate(const SimulatedLoad& load, const SimulationOptions& options,
                          const std::function<void(double)>& progress = {});

std::string simulation_text(const SimulatedLoad& load, const SimulationOptions& options,
                            const SimulationResult& result);
/// Returns one JSON object. Keys that also occur in the JSON of `bench` have the same meaning there.
std::string simulation_json(const SimulatedLoad& load, const SimulationOptions& options,
                            const SimulationResult& result);

}  // namespace hearth
