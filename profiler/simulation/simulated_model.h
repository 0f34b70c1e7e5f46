// Runs the engine's forward pass of a model on a simulated GPU and host.
//
// All scheduling is the engine's own code: placement, forward pass, device backend, hybrid FFN, recorded
// steps, prefetcher, neuron cache, row copier. Pure computation is replaced by its time: a simulated device
// (kernels/cuda/ops/simulated_device.h) charges kernels and copies, and SimulatedHost charges the host's
// arithmetic. PlantedActivity decides which neurons are active, and PlantedChoice which experts are chosen.
// Weights are addresses that read as zeros, so a model of any size is ready in a moment.
//
// Before a SimulatedModel is constructed, time must be virtual and the device simulated. Only one model may
// exist at a time; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/forward/forward_pass.h"
#include "engine/forward/kv_memory.h"
#include "engine/model/devices.h"
#include "engine/neurons/expert_slabs.h"
#include "engine/placement/place_model.h"
#include "engine/residency/expert_exchanger.h"
#include "engine/residency/plan.h"
#include "engine/residency/prefetcher.h"
#include "engine/step/fixed_blocks.h"
#include "kernels/cpu/cpu_backend.h"
#include "profiler/plan/planned_model.h"
#include "profiler/simulation/planted_activity.h"
#include "profiler/simulation/simulated_host.h"

namespace hearth {

/// The placement and the load of a simulated model.
struct SimulatedLoad {
  const PlannedModel& model;
  MachineProfile machine;
  Sparsity mode = Sparsity::kDense;
  PlanLoad load;
  int64_t vram_bytes = 0, ram_bytes = 0;  // budgets
  std::optional<ModelActivity> activity;  // nullopt: as published for similar models (known_law())
  ActivityCounts expert_counts = {};      // for mixtures; if empty, tokens choose experts by `choices`
  ChoiceLaw choices = {};
  PlacementAssumptions assumptions;
  /// Whether to solve for the placement. If false, the model is placed as the engine places it on a machine
  /// that was not measured, without counted activity.
  bool solve = true;
  DeviceSplit split = DeviceSplit::kAuto;
  bool prefetch = true, graphs = true;
  Trace* trace = nullptr;  // receives the host's spans; may be null
};

class SimulatedModel {
 public:
  /// Throws std::runtime_error (one sentence) if the GPU's budget is too small for any part of the model.
  explicit SimulatedModel(const SimulatedLoad& load);
  ~SimulatedModel();

  /// Runs one step. Slot s gets n_tokens[s] tokens, which begin at position positions[s], and logits for the
  /// last of them. If there is only one slot, it can use the whole KV pool. REQUIRES: one slot, or as many
  /// slots as the load has.
  void step(const std::vector<int>& positions, const std::vector<int>& n_tokens);

  const Plan& plan() const { return *plan_; }
  /// The number of contexts that the KV pool holds, by the engine's rule.
  int n_kv_contexts() const { return n_kv_contexts_; }
  /// The number of positions that a slot's sequence can have while all slots run. Each slot then has an equal
  /// part of the pool.
  int max_positions() const { return blocks_->max_positions(); }
  /// The solver's result for this machine, or nullopt if the model was placed as on an unmeasured machine.
  const std::optional<PlacementSolution>& solution() const { return solution_; }
  SimulatedHost& host() { return host_; }
  const Prefetcher* prefetcher() const { return prefetcher_.get(); }
  const ExpertExchanger* exchanger() const { return exchanger_ ? &*exchanger_ : nullptr; }
  const FfnCounts& counts() const { return pass_->ffn().counts(); }
  void reset_counts() { pass_->ffn().reset_counts(); }
  int n_shared_layers() const;

 private:
  void place();
  void place_neurons();
  void place_experts();
  void start_prefetcher();
  void start_exchanger();

  const SimulatedLoad load_;
  const ModelSpec& spec_;
  const ModelActivity activity_;
  PlantedChoice choices_;
  PlantedActivity planted_;
  SimulatedHost host_;
  CpuBackend cpu_;  // needed to construct the device, but computes nothing
  NeuronLayout layout_, placed_neurons_;
  std::optional<PlacementSolution> solution_;
  std::optional<Plan> plan_;
  std::unique_ptr<ComputeDevice> device_;
  std::optional<Devices> devices_;
  std::vector<ExpertSlabs> slabs_;       // [n_layers], or empty; freed before the device
  std::vector<DeviceExperts> resident_;  // views of slabs_
  std::optional<Weights> weights_;
  std::optional<KvMemory> kv_;
  std::optional<ForwardPass> pass_;
  std::unique_ptr<Prefetcher> prefetcher_;  // destroyed before the device
  std::optional<ExpertExchanger> exchanger_;
  std::optional<FixedBlocks> blocks_, blocks_of_one_;
  int n_kv_contexts_ = 0;
  Batch batch_;
  int64_t n_tokens_ = 0;
};

}  // namespace hearth
