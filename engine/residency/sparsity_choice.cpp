// See the header.
#include "engine/residency/sparsity_choice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "engine/model/calibration.h"
#include "engine/model/ffn_activation.h"
#include "engine/neurons/expert_layout.h"
#include "engine/neurons/neuron_layout.h"
#include "engine/residency/memory_limit.h"
#include "engine/residency/token_bytes.h"
#include "engine/step/batch.h"
#include "engine/step/fixed_blocks.h"
#include "kernels/base/file_error.h"

namespace hearth {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"dense", "exact", "predicted", "calibrated"};

// In "auto" mode, a mixture runs in exact mode if at most this share of its experts' neurons is active.
// Scattered rows take about twice the time of contiguous bytes. For one layer in Q4_0, exact takes two thirds
// of the time of dense at a share of 0.1, nine tenths at 0.3, and more than dense from 0.5 on
// (docs/speed.md).
constexpr double kMostActiveOfExperts = 0.3;

/// The mode that the request and the model allow, before anything is measured.
struct ModelsAnswer {
  // If `compare` is set: kExact, which a measurement may replace by another mode.
  Sparsity mode = Sparsity::kDense;
  bool compare = false;  // the mode is "auto", and the model has predictors, or experts with zeros
  std::string reason;
};

/// Throws as choose_sparsity() does.
ModelsAnswer answer_of_model(const SparsityRequest& request, const std::filesystem::path& model,
                             const ModelSpec& spec, const Weights& weights) {
  const std::string activation = ffn_activation_name(spec.activation);
  const std::string label = file_error::file_label(model.string());
  if (request.mode == "dense") return {Sparsity::kDense, false, "asked for"};
  const bool has_zeros = spec.activation.has_zeros();
  if (spec.has_experts() && !has_zeros && (request.mode == "exact" || request.mode == "auto")) {
    return {Sparsity::kDense, false,
            "its FFNs are experts, and their activation, " + activation + ", has no zeros to skip"};
  }
  const bool may_skip = request.mode == "exact" || request.mode == "auto" || request.mode == "predicted";
  if (!spec.has_equal_ffns() && !spec.has_experts() && has_zeros && may_skip)
    return {Sparsity::kDense, false, "its layers have different FFNs, or none"};
  if (!spec.has_equal_ffns() && request.mode == "calibrated") {
    file_error::fail(
        label,
        "--sparsity calibrated takes layers with equally wide FFNs, and the model's widths differ; take "
        "dense");
  }
  if (spec.has_experts() && request.mode == "auto") return {Sparsity::kExact, true, {}};
  if (spec.has_experts() && (request.mode == "predicted" || request.mode == "calibrated")) {
    file_error::fail(label,
                     "--sparsity " + request.mode +
                         " skips neurons of whole FFNs, but the model's are mixtures of experts; take " +
                         (has_zeros ? "exact" : "dense"));
  }
  if (request.mode == "predicted") {
    if (!weights.has_predictors()) {
      file_error::fail(
          label,
          "the model has no predictors (tensors blk.N.fc1 and blk.N.fc2), which --sparsity predicted "
          "needs; take " +
              std::string(has_zeros ? "exact" : "dense"));
    }
    return {Sparsity::kPredicted, false, "asked for"};
  }
  if (request.mode == "calibrated") {
    if (has_zeros) {
      file_error::fail(label, "the model's activation, " + activation +
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

float threshold_of(const SparsityRequest& request, const ModelSpec& spec) {
  const double threshold = request.predictor_threshold.value_or(double{spec.sparse_threshold});
  // This also rejects NaN, and numbers beyond a float's range, which would become infinite.
  if (!(std::abs(threshold) <= double{std::numeric_limits<float>::max()})) {
    throw std::invalid_argument("A predictor's threshold of " + std::to_string(threshold) +
                                " is not possible; give a finite number that a float can hold.");
  }
  return static_cast<float>(threshold);
}

/// Chooses between exact and dense by the available memory. Skipping neurons of a plain GGUF file needs
/// bundles; skipping neurons of experts needs copied down projections. Throws ModelFileError if memory is too
/// small for predicted or calibrated mode: dense mode cannot replace these modes, because it gives other
/// answers.
void fit_memory(const SparsityFacts& facts, SparsityChoice& choice) {
  if (choice.mode == Sparsity::kDense) return;
  const bool experts = facts.spec.has_experts();
  if (!experts && facts.has_device) return;
  if (facts.weights.has_down_rows() && choice.mode != Sparsity::kCalibrated) return;
  const double bytes =
      experts ? ExpertLayout::copied_bytes(facts.weights)
              : NeuronLayout::bundle_bytes(facts.spec, facts.weights, bundle_parts(choice.mode), {});
  if (bytes <= facts.free_memory_bytes) return;
  const std::string why = "would take " + bytes_text(bytes) + ", and " +
                          bytes_text(std::max(facts.free_memory_bytes, 0.0)) + " are free";
  if (choice.mode == Sparsity::kExact) {
    choice.mode = Sparsity::kDense;
    choice.reason =
        (experts ? "copying the experts' down projections, a row for each neuron, which exact needs, "
                 : "grouping its neurons in memory, which exact needs with a plain GGUF file, ") +
        why;
    return;
  }
  file_error::fail(file_error::file_label(facts.file.path().string()),
                   "grouping the model's neurons in memory, which --sparsity " +
                       std::string(sparsity_name(choice.mode)) + " needs, " + why +
                       "; take dense, a smaller context or fewer contexts (--kv-contexts)");
}

int probe_length(const ModelSpec& spec) {
  // The work grows with the number of FFN weights. The probe has 64 tokens for 1 billion weights, and fewer
  // tokens for more weights.
  const double weights = 3.0 * spec.n_layers * spec.d_model * static_cast<double>(spec.d_ff);
  return static_cast<int>(std::clamp(64e9 / weights, 8.0, 64.0));
}

std::string_view probe_text() {
  return "The old lighthouse keeper counted the boats as they came in: four, five, and then no more before "
         "the fog. "
         "\"What shall we do with the letters?\" she asked. To sort a list of n numbers, merge its two "
         "sorted halves; "
         "for (int i = 0; i < n; ++i) total += price[i]; the answer is 42. Dear Anna, thank you for the "
         "recipe.";
}

/// Number of layers with experts.
int64_t n_expert_layers(const ModelSpec& spec) {
  int64_t n = 0;
  for (int i = 0; i < spec.n_layers; ++i) n += spec.layer(i).experts ? 1 : 0;
  return n;
}

/// Returns the ReadBytes of a mixture. The pass computes all neurons of the chosen experts.
ReadBytes read_bytes_of_experts(ForwardPass& pass, const ModelSpec& spec, const Weights& weights,
                                std::span<const int32_t> tokens, int step_tokens) {
  const NeuronActivity activity = probe_activity(pass, spec, tokens, step_tokens);
  return {.exact = bytes_per_token(spec, weights, Sparsity::kExact, activity),
          .predicted = 0,
          .dense = bytes_per_token(spec, weights, Sparsity::kDense, activity),
          .experts_active = activity.active};
}

}  // namespace

std::string_view sparsity_name(Sparsity mode) { return kNames[static_cast<size_t>(mode)]; }

SparsityChoice choose_sparsity(const SparsityRequest& request, const SparsityFacts& facts,
                               const std::function<ReadBytes(float predictor_threshold)>& measure) {
  // 1. Find which of the requested modes the model supports.
  ModelsAnswer answer = answer_of_model(request, facts.file.path(), facts.spec, facts.weights);
  SparsityChoice choice{.mode = answer.mode,
                        .reason = std::move(answer.reason),
                        .predictor_threshold = threshold_of(request, facts.spec),
                        .thresholds = {},
                        .notes = {}};
  if (choice.mode == Sparsity::kCalibrated) {
    choice.thresholds = request.calibrating
                            ? std::vector<float>(static_cast<size_t>(facts.spec.n_layers), 0.0f)
                            : read_calibration(facts.file, facts.spec).thresholds;
  }
  // 2. "auto": choose the mode that reads fewer bytes, exact or predicted; for a mixture, choose exact if few
  //    neurons are active, else dense. Only "auto" needs a measurement.
  if (answer.compare && facts.spec.has_experts()) {
    const ReadBytes bytes = measure(choice.predictor_threshold);
    const bool pays = bytes.experts_active <= kMostActiveOfExperts;
    choice.mode = pays ? Sparsity::kExact : Sparsity::kDense;
    choice.reason = "of its experts' neurons " + std::to_string(std::lround(100 * bytes.experts_active)) +
                    " % are active; a token reads " + bytes_text(bytes.exact) + " exact, " +
                    bytes_text(bytes.dense) + " dense";
  } else if (answer.compare) {
    const ReadBytes bytes = measure(choice.predictor_threshold);
    choice.mode = bytes.predicted < bytes.exact ? Sparsity::kPredicted : Sparsity::kExact;
    choice.reason =
        "a token reads " + bytes_text(bytes.predicted) + " predicted, " + bytes_text(bytes.exact) + " exact";
  }
  // 3. Check that the memory suffices.
  fit_memory(facts, choice);
  // 4. Check whether the predictor can be verified.
  const bool can_verify = choice.mode == Sparsity::kPredicted;
  choice.verify_predictor = request.verify_predictor && can_verify;
  if (request.verify_predictor && !can_verify) {
    choice.notes.push_back("no predictor is verified, because the model runs " +
                           std::string(sparsity_name(choice.mode)));
  }
  return choice;
}

ReadBytes measure_read_bytes(const ModelSpec& spec, const Weights& weights, const Tokenizer& tokenizer,
                             Backend& cpu, int context_tokens, int max_tokens, float predictor_threshold) {
  const std::vector<int32_t> tokens = probe_tokens(tokenizer, spec, context_tokens);
  const int step_tokens = std::min(max_tokens, static_cast<int>(tokens.size()));
  const Devices devices(cpu);
  const KvMemory kv(spec, {.n_blocks = static_cast<int64_t>(tokens.size()) / kKvBlockTokens + 1}, devices);
  ForwardPass pass(devices, spec, weights, kv,
                   {.max_tokens = step_tokens, .max_logit_rows = 1, .max_context = context_tokens});
  const NeuronLayout in_file = NeuronLayout::in_file(spec, weights);
  pass.ffn().use({.sparsity = spec.has_experts() ? Sparsity::kDense : Sparsity::kPredicted,
                  .predictor_threshold = predictor_threshold,
                  .verify_predictor = !spec.has_experts(),
                  .thresholds = {}},
                 in_file);
  if (spec.has_experts()) return read_bytes_of_experts(pass, spec, weights, tokens, step_tokens);
  const NeuronActivity predicted = probe_activity(pass, spec, tokens, step_tokens);
  NeuronActivity exact = predicted;
  exact.proposed = exact.passed = predicted.true_active;
  // Some neurons pass the gate although they were not proposed. Assume that their up values are zero as often
  // as the up values of proposed neurons.
  exact.active = predicted.true_active;
  if (predicted.passed > 0) exact.active *= predicted.active / predicted.passed;
  return {.exact = bytes_per_token(spec, weights, Sparsity::kExact, exact),
          .predicted = bytes_per_token(spec, weights, Sparsity::kPredicted, predicted),
          .dense = 0,
          .experts_active = 0};
}

double bytes_per_token(const ModelSpec& spec, const Weights& weights, Sparsity mode,
                       const NeuronActivity& activity) {
  return token_bytes(spec, weights, mode, activity, {}).sum();
}

NeuronActivity activity_of(const FfnCounts& counts, const ModelSpec& spec) {
  NeuronActivity activity;
  if (counts.n_expert_layers > 0) {
    const auto token_layers = static_cast<double>(counts.n_expert_layers);
    activity.experts_read = static_cast<double>(counts.experts.read) / token_layers;
  }
  if (counts.experts.neurons > 0) {
    const auto all = static_cast<double>(counts.experts.neurons);
    activity.n_tokens = counts.n_expert_layers / n_expert_layers(spec);
    activity.proposed = activity.passed = static_cast<double>(counts.experts.passed) / all;
    activity.active = static_cast<double>(counts.experts.active) / all;
    return activity;
  }
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

std::vector<int32_t> probe_tokens(const Tokenizer& tokenizer, const ModelSpec& spec, int context_tokens) {
  std::vector<int32_t> tokens = tokenizer.encode(std::string(probe_text()), true, false);
  if (tokens.empty()) tokens.push_back(0);  // bytes missing from the vocabulary are dropped
  const int n = std::min({static_cast<int>(tokens.size()), probe_length(spec), context_tokens});
  tokens.resize(static_cast<size_t>(n));
  return tokens;
}

NeuronActivity probe_activity(ForwardPass& pass, const ModelSpec& spec, std::span<const int32_t> tokens,
                              int max_tokens) {
  pass.ffn().reset_counts();
  const KvBlockCounts& counts = pass.kv().counts();
  const FixedBlocks blocks({.max_tokens = max_tokens,
                            .block_tokens = kKvBlockTokens,
                            .n_blocks = static_cast<int>(counts.n_blocks),
                            .window = counts.window},
                           1);
  const auto step_tokens = static_cast<size_t>(blocks.max_step());
  Batch batch;
  blocks.set_tables(batch);
  for (size_t begin = 0; begin < tokens.size(); begin += step_tokens) {
    batch.clear();
    for (size_t i = begin; i < std::min(tokens.size(), begin + step_tokens); ++i) {
      batch.tokens.push_back(tokens[i]);
      batch.positions.push_back(static_cast<int32_t>(i));
      batch.slots.push_back(0);
    }
    pass.run(batch);
  }
  const NeuronActivity activity = activity_of(pass.ffn().counts(), spec);
  pass.ffn().reset_counts();
  return activity;
}

}  // namespace hearth
