// A model that is ready to run: file, facts, tokenizer, weights, KV memory and scratch, with one forward()
// function.
//
// The program's load thread builds it once. Afterward forward() belongs to the engine thread; any thread may
// read facts() and placed() while place_again() does not run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/load_options.h"
#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "engine/neuron_observation.h"
#include "engine/neurons/sparsity.h"
#include "engine/residency/plan.h"
#include "engine/residency/prefetcher.h"
#include "engine/residency/token_bytes.h"
#include "engine/step/batch.h"
#include "engine/tokenizer/tokenizer.h"

namespace hearth {

struct LoadHooks;

/// Facts about the loaded model. They never change.
struct LoadedModel {
  const ModelFile& file;
  const ModelSpec& spec;
  const Tokenizer& tokenizer;
  int context_tokens;  // context of one sequence, after defaults and limits
  PromptStep prompt_step;
  size_t weight_bytes;  // the weights that a dense pass reads per decoded token; includes the token
                        // embeddings if they are also the output matrix
};

/// The placement of the model in memory. Only place_again() changes it.
struct PlacedModel {
  const SparsityReport& sparsity;  // which neurons are computed
  std::string backend;             // "CPU avx512-vnni, 2 threads"
  const Plan* plan;                // the parts that the GPU holds; null: the CPU computes everything
  const Prefetcher* prefetcher;    // copies cold neurons to the GPU early; null: no prefetch
  size_t kv_bytes;                 // keys and values of all contexts, reserved at load
  KvType kv_type;                  // type of keys and values
  size_t state_bytes;              // recurrent states and their snapshots in host memory, reserved at load
  size_t work_bytes;               // scratch of a step, also reserved at load
  size_t neuron_bytes;             // FFN weights copied to bundles in host memory
  /// Hash of the neuron order. Orders that round sums differently have different hashes. 0 if the neurons are
  /// in the file's order. Also 0 if a device is used, because its integer sums do not depend on the order.
  /// Exception: if a library multiplies prompts, this is the hash of the list of the device's layers, because
  /// the library is used only in these layers.
  uint64_t order_hash;
  /// Sentences for the log, for example about memory that was not granted and what follows from that.
  const std::vector<std::string>& notes;
};

class ModelRuntime final : public ForwardModel {
 public:
  /// Loads a model. Throws ModelFileError (one sentence) if the file is invalid, if the context exceeds the
  /// model's training context, or if there is not enough memory. Throws std::invalid_argument (one sentence)
  /// for options that are invalid for every model or that this processor does not support. Also passes on any
  /// exception that `progress` throws.
  static std::unique_ptr<ModelRuntime> load(const LoadOptions& options);
  /// For tests (engine/load_hooks.h). The objects that the hooks refer to must outlive the model.
  static std::unique_ptr<ModelRuntime> load(const LoadOptions& options, const LoadHooks& hooks);
  ~ModelRuntime() override;

  /// Rebuilds everything in memory besides the file. `options` must have the path, slots, context and step
  /// size that were given to load(); placement and sparsity may differ. The numbers of contexts and KV blocks
  /// do not change, whatever `options` contains, so limits() does not change either. Keys and values are
  /// lost. Call it on the thread that called load(), or between steps, while no other call runs. It takes as
  /// long as loading a file that is already in memory. Throws as load() does. After an exception, the model
  /// must be placed again before it runs.
  void place_again(const LoadOptions& options);

  const LoadedModel& facts() const;
  /// Whether an assistant drafts (LoadOptions::assistant).
  bool assisted() const;
  const PlacedModel& placed() const;
  /// Returns the weight bytes that one decoded token reads in the current mode, for the given activity of
  /// neurons. They are split by the processor that reads them.
  TokenBytes token_bytes(const NeuronActivity& activity) const;
  /// Counts and observes neurons; used for calibration and for training predictors.
  NeuronObservation& observation();
  const NeuronObservation& observation() const;

  StepLimits limits() const override;
  void bind_thread() override;
  StepOutput forward(const Batch& batch) override;
  void restore_states(int slot, int32_t snapshot, int n_tokens) override;
  void copy_out(int32_t block, int32_t window_block, std::span<std::byte> out) const override;
  void copy_in(int32_t block, int32_t window_block, std::span<const std::byte> in) override;
  void copy_state_out(int32_t snapshot, std::span<std::byte> out) const override;
  void copy_state_in(int32_t snapshot, std::span<const std::byte> in) override;
  std::span<const float> predict(const Batch& batch, bool first) override;
  std::span<const float> apply_head(std::span<const float> pooled) override;
  void reject_drafts(uint64_t sequence, int n_tokens) override;
  void read_figures(ModelFigures& figures) const override;

 private:
  struct State;
  explicit ModelRuntime(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hearth
