// See the header.
#include "engine/residency/sparsity_choice.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "engine/forward/ffn_activation.h"
#include "engine/model/gguf/fault.h"
#include "engine/residency/token_bytes.h"
#include "engine/serving/batch.h"

namespace hearth {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"dense", "exact", "predicted", "calibrated"};

}  // namespace

std::string_view sparsity_name(Sparsity mode) { return kNames[static_cast<size_t>(mode)]; }

SparsityChoice choose_sparsity(const SparsityRequest& request, const std::filesystem::path& model,
                               const ModelSpec& spec, const Weights& weights) {
  const std::string activation = ffn_activation_name(spec.activation);
  const std::string label = gguf::file_label(model.string());
  const bool has_zeros = spec.activation.has_zeros();
  if (request.mode == "dense") return {Sparsity::kDense, false, "asked for"};
  if (request.mode == "predicted") {
    if (!weights.has_predictors()) {
      gguf::fail(label,
                 "the model has no predictors (tensors blk.N.fc1 and blk.N.fc2), which --sparsity predicted "
                 "needs; take " +
                     std::string(has_zeros ? "exact" : "dense"));
    }
    return {Sparsity::kPredicted, false, "asked for"};
  }
  if (request.mode == "calibrated") {
    if (has_zeros) {
      gguf::fail(label, "the model's activation, " + activation +
                            ", gives exact zeros, so --sparsity exact skips "
                            "without loss what calibrated would guess; take exact");
    }
    return {Sparsity::kCalibrated, false, "asked for"};
  }
  if (request.mode != "exact" && request.mode != "auto") {
    throw std::invalid_argument("The sparsity \"" + request.mode +
                                "\" is not known, expected auto, exact, predicted, calibrated or dense.");
  }
  if (!has_zeros) {
    return {Sparsity::kDense, false, "its activation, " + activation + ", has no zeros to skip"};
  }
  if (request.mode == "exact") return {Sparsity::kExact, false, "lossless with " + activation};
  if (!weights.has_predictors()) return {Sparsity::kExact, false, "the model has no predictors"};
  return {Sparsity::kExact, true, "reads less than predicted"};
}

double bytes_per_token(const ModelSpec& spec, const Weights& weights, Sparsity mode,
                       const NeuronActivity& activity) {
  return token_bytes(spec, weights, mode, activity, {}).sum();
}

NeuronActivity activity_of(const FfnCounts& counts, const ModelSpec& spec) {
  NeuronActivity activity;
  if (counts.n_token_layers == 0) return activity;
  const double all = static_cast<double>(counts.n_token_layers) * spec.d_ff;
  activity.n_tokens = counts.n_token_layers / spec.n_layers;
  activity.proposed = static_cast<double>(counts.neurons.proposed) / all;
  activity.passed = static_cast<double>(counts.neurons.passed) / all;
  activity.active = static_cast<double>(counts.neurons.active) / all;
  if (counts.neurons.down_rows > 0) {
    activity.cold =
        static_cast<double>(counts.neurons.cold_down_rows) / static_cast<double>(counts.neurons.down_rows);
  }
  if (counts.n_verified > 0) {
    const auto found = static_cast<double>(counts.truly_active_proposed);
    const auto true_active = static_cast<double>(counts.truly_active);
    const auto proposed = static_cast<double>(counts.neurons.proposed);
    activity.true_active = true_active / all;
    activity.recall = true_active > 0 ? found / true_active : 1.0;
    activity.false_positives = proposed > 0 ? 1.0 - found / proposed : 0.0;
  }
  return activity;
}

int probe_length(const ModelSpec& spec) {
  // A layer's FFN weights, which the work goes with; 64 tokens of 1 billion of them, fewer of more.
  const double weights = 3.0 * spec.n_layers * spec.d_model * static_cast<double>(spec.d_ff);
  return static_cast<int>(std::clamp(64e9 / weights, 8.0, 64.0));
}

NeuronActivity probe_activity(ForwardPass& pass, const ModelSpec& spec, std::span<const int32_t> tokens,
                              int max_tokens) {
  pass.ffn().reset_counts();
  std::vector<int32_t> table;
  Batch batch;
  for (size_t i = 0; i <= tokens.size() / kKvBlockTokens; ++i) table.push_back(static_cast<int32_t>(i));
  for (size_t begin = 0; begin < tokens.size(); begin += static_cast<size_t>(max_tokens)) {
    batch.clear();
    for (size_t i = begin; i < std::min(tokens.size(), begin + static_cast<size_t>(max_tokens)); ++i) {
      batch.tokens.push_back(tokens[i]);
      batch.positions.push_back(static_cast<int32_t>(i));
      batch.slots.push_back(0);
    }
    batch.block_tables = table;
    batch.max_blocks = static_cast<int>(table.size());
    pass.run(batch);
  }
  const NeuronActivity activity = activity_of(pass.ffn().counts(), spec);
  pass.ffn().reset_counts();
  return activity;
}

std::string_view probe_text() {
  return "The old lighthouse keeper counted the boats as they came in: four, five, and then no more before "
         "the fog. "
         "\"What shall we do with the letters?\" she asked. To sort a list of n numbers, merge its two "
         "sorted halves; "
         "for (int i = 0; i < n; ++i) total += price[i]; the answer is 42. Dear Anna, thank you for the "
         "recipe.";
}

}  // namespace hearth
