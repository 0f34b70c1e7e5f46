// A model made ready to run: file, facts, tokenizer, weights, KV memory and scratch, behind one forward().
//
// Built once by the program's load thread. Afterwards forward() belongs to the engine thread, and facts() and
// placed() may be read by any thread while the model is not being placed again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/activity/neuron_observation.h"
#include "engine/load_options.h"
#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "engine/residency/plan.h"
#include "engine/residency/prefetcher.h"
#include "engine/residency/sparsity.h"
#include "engine/residency/token_bytes.h"
#include "engine/serving/batch.h"
#include "engine/tokenizer/tokenizer.h"

namespace hearth {

struct LoadHooks;

/// What was loaded. Never changes.
struct LoadedModel {
  const ModelFile& file;
  const ModelSpec& spec;
  const Tokenizer& tokenizer;
  int context_tokens;   // of one sequence, after defaults and limits were applied
  size_t weight_bytes;  // read once per decoded token of a dense pass, with the embedding table if it is tied
};

/// How the model lies in memory and runs. Changes only when the model is placed again.
struct PlacedModel {
  const SparsityReport& sparsity;  // which neurons are computed
  std::string backend;             // "CPU avx512-vnni, 2 threads"
  const Plan* plan;                // what the GPU has; null: the CPU has everything
  const Prefetcher* prefetcher;    // brings cold neurons to the GPU ahead of their use; null: nobody does
  size_t kv_bytes;                 // of keys and values, reserved for all slots
  size_t neuron_bytes;             // of FFN weights laid out anew in host memory
  /// Differs between orders of the neurons that round sums differently. 0: the file's order, or neurons shared
  /// with a device, whose sums are integers and need no order.
  uint64_t order_hash;
  /// Sentences for the log: memory that was not granted, and what that costs.
  const std::vector<std::string>& notes;
};

class ModelRuntime final : public ForwardModel {
 public:
  /// Throws ModelFileError (one sentence) if the file is wrong, if the model was not trained on such a context
  /// or if the memory cannot be had; std::invalid_argument (one sentence) for options that no model has or this
  /// processor cannot do; and whatever `progress` throws.
  static std::unique_ptr<ModelRuntime> load(const LoadOptions& options);
  /// For tests (engine/load_hooks.h); what the hooks refer to outlives the model.
  static std::unique_ptr<ModelRuntime> load(const LoadOptions& options, const LoadHooks& hooks);
  ~ModelRuntime() override;

  /// Lays out again what lies in memory besides the file. `options` must have the path, slots, context and
  /// steps of load(); what a device gets (place) and the sparsity may differ. Keys and values are lost. Runs
  /// where load() runs, or between steps, beside no other call; takes as long as loading from memory. Throws
  /// as load() does: then the model has to be placed again before it runs.
  void place_again(const LoadOptions& options);

  const LoadedModel& facts() const;
  const PlacedModel& placed() const;
  /// Weight bytes that one decoded token reads in the mode that runs, by who reads them, when neurons are active
  /// as in `activity`.
  TokenBytes token_bytes(const NeuronActivity& activity) const;
  /// For counting and watching neurons, and for what needs that: calibration and training of predictors.
  NeuronObservation& observation();
  const NeuronObservation& observation() const;

  StepLimits limits() const override;
  void bind_thread() override;
  std::span<const float> forward(const Batch& batch) override;

 private:
  struct State;
  explicit ModelRuntime(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hearth
