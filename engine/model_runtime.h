// A model made ready to run: file, facts, tokenizer, weights, KV memory and scratch, behind one forward().
//
// Built once by the program's load thread; afterwards forward() belongs to the engine thread and everything
// else is const and may be read by any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/activity/activity_counter.h"
#include "engine/forward/ffn_pass.h"
#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "engine/residency/neuron_layout.h"
#include "engine/residency/placement.h"
#include "engine/residency/plan.h"
#include "engine/residency/prefetcher.h"
#include "engine/residency/sparsity.h"
#include "engine/residency/token_bytes.h"
#include "engine/serving/batch.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/sharing/bundle_mover.h"
#include "kernels/neuron_traffic.h"
#include "kernels/trace.h"

namespace hearth {

/// What computes.
enum class DeviceChoice : uint8_t {
  kCpu,
  kAuto,  // the GPU if there is one that can be used, else the CPU
  kCuda,  // the GPU; without one loading fails
};

struct LoadOptions {
  std::filesystem::path path;
  int n_threads = 0;        // 0: one per physical core
  std::optional<Isa> isa;   // nullopt: the best this processor has
  int n_slots = 4;          // sequences that run at once
  int context_tokens = 0;   // of one sequence; 0: what the model was trained on, at most kDefaultContext
  int prefill_chunk = 128;  // prompt tokens of one step, at most
  std::string
      ffn_activation;  // name of the FFN's activation where the file does not say it; empty: the file's
  uint64_t memory_limit_bytes = 0;  // of what is reserved besides the file; 0: what this machine allows
  SparsityRequest sparsity;
  /// An activity file of this model (engine/activity/activity_file.h) to lay hot neurons together by, before
  /// what lies beside the model; empty, or not there: only that.
  std::filesystem::path activity;
  DeviceChoice device = DeviceChoice::kCpu;
  std::optional<uint64_t> vram_budget_bytes;  // of the GPU's memory; nullopt: what is free of it
  DeviceSplit split = DeviceSplit::kNeurons;
  bool graphs = true;    // the GPU's steps are recorded and played back
  bool prefetch = true;  // cold neurons are brought to the GPU ahead of their use
  cuda::CopyWay prefetch_way = cuda::CopyWay::kGather;  // how, where their memory is pinned
  bool cpu_share = true;  // false: the CPU computes no neurons of layers that the GPU runs; they are streamed
  Trace* trace = nullptr;  // outlives the model; null: nothing is traced
  /// What the device gets, instead of the neutral plan: found by the placement solver
  /// (profiler/placement/solved_placement.h), or said by a test. Asked on the loading thread with what a plan
  /// is made from; again, with a smaller budget, where the device does not grant what device_bytes counts for
  /// the answer, which should keep the budget. nullopt: the neutral plan is taken after all.
  std::function<std::optional<Placement>(const PlanInputs& inputs, size_t budget_bytes)> place;
  size_t stream_bytes = 0;           // for tests, with place: instead of the placement's
  NeuronTraffic* traffic = nullptr;  // for tests: who moves neurons, instead of the prefetcher
  /// For tests: what moves neurons to the GPU's cache instead of the mover it is given.
  std::function<std::unique_ptr<BundleMover>(std::unique_ptr<BundleMover> mover)> wrap_mover;
  /// Told while the model runs, from any thread: trouble that costs speed, in a sentence.
  std::function<void(const std::string& sentence)> warn;
  std::function<void(double fraction)> progress;  // called from the loading thread, fraction in [0, 1]
};

/// Longest context taken by default: KV memory for it is reserved per slot, and few local chats are longer.
inline constexpr int kDefaultContext = 8192;

class ModelRuntime final : public ForwardModel {
 public:
  /// Throws ModelFileError (one sentence) for anything wrong with the file, for a context that the model was
  /// not trained on and for memory that cannot be had; std::invalid_argument (one sentence) for options that
  /// no model has or this processor cannot do; what `progress` throws.
  static std::unique_ptr<ModelRuntime> load(const LoadOptions& options);
  ~ModelRuntime() override;

  /// Lays out anew what lies in memory besides the file: with `options` of the same path, slots, context and
  /// steps, which may differ in what a device gets (place) and in the sparsity. Keys and values are lost.
  /// Where load() runs or between steps, beside no other call; takes as long as loading from memory. Throws
  /// as load() does: then the model has to be placed again before it runs.
  void place_again(const LoadOptions& options);

  const ModelFile& file() const;
  const ModelSpec& spec() const;
  const Tokenizer& tokenizer() const;
  int context_tokens() const;  // of one sequence, after defaults and limits were applied
  size_t weight_bytes()
      const;                // read once per decoded token of a dense pass, embedding table counted if tied
  size_t kv_bytes() const;  // reserved for all slots
  size_t neuron_bytes() const;  // of FFN weights laid out anew in memory
  /// How the FFN is run, decided at load.
  const SparsityReport& sparsity() const;
  /// What `activity` costs in the mode that runs: weight bytes per decoded token.
  double bytes_per_token(const NeuronActivity& activity) const;
  /// The same, by who reads it.
  TokenBytes token_bytes(const NeuronActivity& activity) const;
  std::string backend_description() const;  // "CPU avx512-vnni, 2 threads"
  /// Tells orders of the neurons apart that round sums differently; 0: the file's own, or one that does not
  /// matter, for a device shares the neurons and they are summed as integers.
  uint64_t order_hash() const;
  /// What lives where; null: the CPU has it all.
  const Plan* plan() const;
  /// Who brings cold neurons to the GPU ahead of their use; null: nobody.
  const Prefetcher* prefetcher() const;
  /// What was found out while the model was placed, for the log: memory that was not granted, and what that
  /// costs.
  const std::vector<std::string>& placement_notes() const;

  StepLimits limits() const override;
  void bind_thread() override;
  std::span<const float> forward(const Batch& batch) override;

  /// Neurons that forward() found active since the last reset; n_tokens 0 where a dense pass
  /// takes the file's own down projection. Engine thread only.
  NeuronActivity activity() const;
  void reset_activity();
  /// Why single neurons cannot be counted as the model is placed (dense as the file lies), in a sentence;
  /// empty: they can.
  std::string why_not_counted() const;
  /// Steps of more tokens are not counted: on a device what a step found takes memory.
  int max_counted_tokens() const;
  /// Begins counting single neurons, anew. Before the engine thread runs, or on it. Throws
  /// std::invalid_argument (that sentence, or another) where they cannot be counted.
  void count_activity(const CountOptions& options = {});
  /// Passes over steps until further notice. Between steps. REQUIRES: count_activity(); so do the next.
  void pause_activity(bool paused);
  /// What was counted since the last call, neurons as the file numbers them; nothing counted: empty. Any
  /// thread. Counting goes on when the model is placed again, as far as it is possible there.
  ActivityCounts take_activity();
  /// Norms of the down columns [n_layers, d_ff], neurons as the file numbers them; reads a third of the FFN.
  std::vector<float> down_sizes() const;

  /// For finding thresholds, in calibrated mode only; see FfnPass. Engine thread only.
  void set_thresholds(std::span<const float> thresholds);
  void observe_values(ValueObserver observer);
  /// For training predictors: who is shown every neuron from now on (null: nobody), in the file's order. It
  /// outlives the model or is taken back. Engine thread only. REQUIRES: loaded dense, on the CPU.
  void observe_neurons(NeuronObserver* observer);

 private:
  void go_on_counting(const CountOptions& options);

  struct State;
  explicit ModelRuntime(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hearth
