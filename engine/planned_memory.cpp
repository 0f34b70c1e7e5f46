// See the header.
#include "engine/planned_memory.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <variant>

#include "engine/model/drafter_weights.h"
#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "engine/model/predictor_file.h"
#include "engine/model/weights.h"
#include "engine/neurons/expert_layout.h"
#include "engine/neurons/neuron_layout.h"
#include "engine/resolved_load.h"

namespace hearth {
namespace {

/// Bytes of a vocabulary's entry in the tokenizer and in the tables of constraints. An upper limit: with
/// SmolLM2's 49,152 tokens, a loaded model took at most 15 MB in addition to what it reserved.
constexpr uint64_t kTokenBytes = 300;
/// Stacks, tables of requests, and the API's objects of one loaded model.
constexpr uint64_t kModelBytes = 6'000'000;

/// Returns the bytes of the neurons that the load may copy to host memory in this mode.
double copied_neuron_bytes(const ModelSpec& spec, const Weights& weights, Sparsity mode, bool has_device) {
  if (spec.has_experts()) {
    return mode == Sparsity::kExact ? static_cast<double>(ExpertLayout::copied_bytes(weights)) : 0;
  }
  if (mode == Sparsity::kDense && !has_device) return 0;
  return NeuronLayout::bundle_bytes(spec, weights, bundle_parts(mode, /*gates_apart=*/false), {});
}

}  // namespace

PlannedMemory planned_memory(const LoadOptions& options) {
  check_options(options);
  const ModelFile& file = *options.file;
  ModelSpec spec = read_model_spec(file, options.ffn_activation);
  PlannedMemory planned{.file_bytes = file.total_bytes()};
  // Only these modes read predictors, as in ModelRuntime.
  const bool is_auto = options.sparsity.mode == "auto";
  std::optional<ModelFile> predictors;
  if (is_auto || options.sparsity.mode == "predicted") predictors = open_predictor_file(file, spec);
  Weights weights = bind_weights(file, spec);
  if (predictors) {
    bind_predictors(*predictors, spec, weights);
    planned.file_bytes += predictors->total_bytes();
  }
  const DrafterWeights drafters = bind_drafters(file, spec, weights, options.nextn, options.assistant);
  if (options.assistant) planned.file_bytes += options.assistant->total_bytes();
  const LoadFacts facts{.file = file,
                        .spec = spec,
                        .weights = weights,
                        .nextn = drafters.nextn.get(),
                        .assistant = drafters.assistant.get()};
  const ResolvedLoad resolved =
      resolve(options, facts, [](const Reservation&, float) { return ReadBytes{}; });
  const bool has_device = resolved.device.usable;
  double neurons = copied_neuron_bytes(spec, weights, resolved.sparsity.mode, has_device);
  if (is_auto) {
    // The measurement that decides needs the weights.
    neurons = std::max(neurons, copied_neuron_bytes(spec, weights, Sparsity::kExact, has_device));
  }
  const Reservation& memory = resolved.memory;
  planned.reserved_bytes =
      static_cast<uint64_t>(memory.kv_bytes + memory.state_bytes + memory.work_bytes + neurons);
  planned.own_bytes = kModelBytes + kTokenBytes * static_cast<uint64_t>(spec.n_vocab);
  return planned;
}

}  // namespace hearth
