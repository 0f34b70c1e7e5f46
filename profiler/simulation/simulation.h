// Measures a model on a machine that is not at hand: runs the engine's own schedule in virtual time
// (profiler/simulation/simulated_model.h), and compares it with the plan's closed form for the same
// placement.
//
// All figures follow from the machine's profile, the kernels' declarations and the cost tables; a real GPU
// can falsify each of them. A program that cannot simulate a device finds the one that can with
// simulation_program().
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
  int n_warm = 8;  // unmeasured decode steps first, in which steps are recorded and the cache fills
};

/// The cost of one phase. Seconds are virtual time.
struct SimulatedPhase {
  double seconds = 0;
  int64_t n_tokens = 0, n_steps = 0;
  cuda::SimulatedUse device;
  /// Seconds in which the CPU computed; seconds of these in which the GPU computed too.
  double host_busy_s = 0, both_busy_s = 0;
  int64_t n_woken = 0;  // forks that had to wake parked threads
  double tokens_per_s() const { return static_cast<double>(n_tokens) / seconds; }
};

struct SimulationResult {
  Sparsity mode = Sparsity::kDense;
  SimulatedPhase prefill, decode;
  std::optional<PlacementSolution> planned;  // the closed form for the placement; nullopt: not solved
  std::optional<MixturePlan>
      mixture_plan;  // a mixture's plan; nullopt: the model is not a mixture, or RAM does not hold it
  std::vector<std::string> plan_lines;
  DeviceBytes device_bytes;
  int n_device_layers = 0, n_shared_layers = 0, n_layers = 0;
  int n_kv_contexts = 0;                     // contexts with keys and values in memory at once
  double round_trips = 0;                    // round trips per decoded token
  double share_of_bound = 0;                 // share of the byte bound that decoding reaches
  std::optional<PrefetchCounters> prefetch;  // while decoding
};

/// The speeds of the machine's GPU. REQUIRES: it has one.
cuda::SimulatedSpeeds simulated_speeds(const MachineProfile& machine);

/// Whether this program can simulate a device.
bool can_simulate();
/// The path of the program beside `self` (a path) that can simulate a device. Its file need not exist.
std::filesystem::path simulation_program(const std::filesystem::path& self);

/// Runs a prompt and decoding. Calls `progress` (may be empty) with the share that is done. REQUIRES:
/// can_simulate().
SimulationResult simulate(const SimulatedLoad& load, const SimulationOptions& options,
                          const std::function<void(double)>& progress = {});

std::string simulation_text(const SimulatedLoad& load, const SimulationOptions& options,
                            const SimulationResult& result);
/// One JSON object. Keys that `bench` has too have the same meaning.
std::string simulation_json(const SimulatedLoad& load, const SimulationOptions& options,
                            const SimulationResult& result);

}  // namespace hearth
