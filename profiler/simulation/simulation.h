// Measures a model on a machine that is not at hand: the engine's own schedule in virtual time
// (profiler/simulation/simulated_model.h), beside what the plan's closed form promises for the same placement.
//
// All figures follow from the machine's profile, what kernels declare and the costs below; a real GPU can falsify each of
// them. Programs that cannot simulate a device say so: simulation_program() is the one that can.
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
  int n_warm = 8;  // decode steps before those that are measured: steps are recorded, and the cache fills
};

/// What one phase took. Seconds, of virtual time.
struct SimulatedPhase {
  double seconds = 0;
  int64_t n_tokens = 0, n_steps = 0;
  cuda::SimulatedUse device;
  double host_busy_s = 0,
         both_busy_s = 0;  // of the CPU; and of these seconds those in which the GPU computed too
  int64_t n_woken = 0;     // forks that had to wake parked threads
  double tokens_per_s() const { return static_cast<double>(n_tokens) / seconds; }
};

struct SimulationResult {
  Sparsity mode = Sparsity::kDense;
  SimulatedPhase prefill, decode;
  std::optional<PlacementSolution> planned;  // the closed form for the placement; nullopt: it was not solved
  std::optional<MixturePlan>
      mixture_plan;  // that of a mixture; nullopt: of another model, or RAM does not hold it
  std::vector<std::string> plan_lines;
  DeviceBytes device_bytes;
  int n_device_layers = 0, n_shared_layers = 0, n_layers = 0;
  int n_kv_contexts = 0;                     // whose keys and values are in memory at once
  double round_trips = 0;                    // of a decoded token
  double share_of_bound = 0;                 // of the byte bound, in decoding
  std::optional<PrefetchCounters> prefetch;  // while decoding
};

/// The speeds of the machine's GPU. REQUIRES: it has one.
cuda::SimulatedSpeeds simulated_speeds(const MachineProfile& machine);

/// Whether this program can simulate a device.
bool can_simulate();
/// The program beside `self`, a path, that can; its file need not exist.
std::filesystem::path simulation_program(const std::filesystem::path& self);

/// Runs a prompt and decoding. progress (may be empty) gets the share that is done. REQUIRES: can_simulate().
SimulationResult simulate(const SimulatedLoad& load, const SimulationOptions& options,
                          const std::function<void(double)>& progress = {});

std::string simulation_text(const SimulatedLoad& load, const SimulationOptions& options,
                            const SimulationResult& result);
/// One JSON object; the keys that bench has too mean the same.
std::string simulation_json(const SimulatedLoad& load, const SimulationOptions& options,
                            const SimulationResult& result);

}  // namespace hearth
