// The engine's forward pass of a model, on a GPU and a host that are simulated.
//
// Everything that decides what is done when is the engine's own: placement, forward pass, device backend, hybrid FFN,
// recorded steps, prefetcher, neuron cache, bundle mover. What only computes is charged: kernels and copies by a simulated
// device (kernels/cuda/ops/simulated_device.h), the host's arithmetic by SimulatedHost, and PlantedActivity decides which
// neurons are active, PlantedChoice which experts are chosen. Weights are addresses that read as zeros, so a model of any
// size takes a moment.
//
// Time must be virtual, and the device simulated, before one is made. One at a time; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/forward/forward_pass.h"
#include "engine/forward/kv_memory.h"
#include "engine/model/devices.h"
#include "engine/residency/plan.h"
#include "engine/residency/prefetcher.h"
#include "engine/step/fixed_blocks.h"
#include "kernels/cpu/cpu_backend.h"
#include "profiler/placement/solved_placement.h"
#include "profiler/plan/planned_model.h"
#include "profiler/simulation/planted_activity.h"
#include "profiler/simulation/simulated_host.h"

namespace hearth {

/// How the simulated model is placed and run.
struct SimulatedLoad {
  const PlannedModel& model;
  MachineProfile machine;
  Sparsity mode = Sparsity::kDense;
  PlanLoad load;
  int64_t vram_bytes = 0, ram_bytes = 0;  // budgets
  std::optional<ModelActivity> activity;  // nullopt: the law of the model's kind
  ActivityCounts expert_counts = {};      // of a mixture; empty: what synth plants
  PlacementAssumptions assumptions;
  bool solve = true;  // false: the engine's neutral plan
  DeviceSplit split = DeviceSplit::kAuto;
  bool prefetch = true, graphs = true;
  Trace* trace = nullptr;  // gets the host's spans
};

class SimulatedModel {
 public:
  /// Throws std::runtime_error (one sentence) if the budgets hold nothing of the model.
  explicit SimulatedModel(const SimulatedLoad& load);
  ~SimulatedModel();

  /// A step of these tokens: slot s has n_tokens[s] more, from position positions[s] on, and logits for its last one. A
  /// slot that is alone has the whole pool. REQUIRES: one slot, or as many as the load has.
  void step(const std::vector<int>& positions, const std::vector<int>& n_tokens);

  const Plan& plan() const { return *plan_; }
  /// Of the pool of keys and values, by the engine's rule.
  int n_kv_contexts() const { return n_kv_contexts_; }
  /// Positions that a slot's sequence can have while all slots run: their part of the pool.
  int max_positions() const { return blocks_->max_positions(); }
  /// Of the placement that was solved; nullopt: it was not, as that of a mixture never is.
  const std::optional<PlacementSolution>& solution() const { return solution_; }
  SimulatedHost& host() { return host_; }
  const Prefetcher* prefetcher() const { return prefetcher_.get(); }
  const FfnCounts& counts() const { return pass_->ffn().counts(); }
  void reset_counts() { pass_->ffn().reset_counts(); }
  int n_shared_layers() const;

 private:
  void place();
  void place_neurons();
  void start_prefetcher();

  const SimulatedLoad load_;
  const ModelSpec& spec_;
  const ModelActivity activity_;
  PlantedActivity planted_;
  PlantedChoice choices_;
  SimulatedHost host_;
  CpuBackend cpu_;  // a device is made with one; it computes nothing
  NeuronLayout layout_, placed_neurons_;
  std::optional<PlacementSolution> solution_;
  std::optional<Plan> plan_;
  std::unique_ptr<ComputeDevice> device_;
  std::optional<Devices> devices_;
  std::optional<Weights> weights_;
  std::optional<KvMemory> kv_;
  std::optional<ForwardPass> pass_;
  std::unique_ptr<Prefetcher> prefetcher_;  // destroyed before the device
  std::optional<FixedBlocks> blocks_, blocks_of_one_;
  int n_kv_contexts_ = 0;
  Batch batch_;
  int64_t n_tokens_ = 0;
};

}  // namespace hearth
