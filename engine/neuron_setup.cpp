// See the header.
#include "engine/neuron_setup.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>

#include "engine/activity_profile.h"
#include "engine/calibration.h"
#include "engine/gguf/fault.h"
#include "engine/gguf/prefault.h"
#include "engine/sparsity_choice.h"

namespace hearth {
namespace {

std::string gigabytes(double bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), bytes < 1e9 ? "%.1f MB" : "%.2f GB", bytes / (bytes < 1e9 ? 1e6 : 1e9));
  return text;
}

/// Neurons by falling activity, where a file beside the model tells it; else empty.
NeuronLayout::Order find_order(const NeuronSetupInputs& in, std::vector<std::string>& notes) {
  NeuronLayout::Order order;
  if (!in.weights.has_down_rows()) return order;  // a plain file's scales belong to runs of neurons
  FoundActivity found = find_activity(in.file.path(), in.spec.n_layers, in.spec.d_ff);
  if (!found.sentence.empty()) notes.push_back(found.sentence);
  if (!found.profile) return order;
  for (int i = 0; i < in.spec.n_layers; ++i) order.push_back(found.profile->hottest_first(i));
  return order;
}

/// At least one token.
std::vector<int32_t> probe_tokens(const NeuronSetupInputs& in) {
  std::vector<int32_t> tokens = in.tokenizer.encode(std::string(probe_text()), true, false);
  if (tokens.empty()) tokens.push_back(0);  // bytes that a vocabulary lacks are left out
  const int n = std::min({static_cast<int>(tokens.size()), probe_length(in.spec), in.context_tokens});
  tokens.resize(static_cast<size_t>(n));
  return tokens;
}

/// Lets go of the file's pages of matrices that `layout` has copies of.
void release_copied(const NeuronSetupInputs& in, const NeuronLayout& layout) {
  const auto release = [](const Matrix& in_file, const Matrix& used) {
    if (in_file && in_file.data != used.data) gguf::release({in_file.data, in_file.bytes()});
  };
  for (int i = 0; i < in.spec.n_layers; ++i) {
    const LayerWeights& file = in.weights.layers[static_cast<size_t>(i)];
    const NeuronLayer& laid_out = layout.layer(i);
    const FfnNeurons& used = laid_out.ffn;
    release(in.spec.gated ? file.gate.weight : file.up.weight, used.gate);
    if (in.spec.gated) release(file.up.weight, used.up);
    release(file.down.weight, used.down.rows);
    release(file.down_rows.weight, used.down.rows);
    if (laid_out.predictor_out) release(file.predictor_out, laid_out.predictor_out);
  }
}

/// Exact or predicted, whichever reads less: the predictor is run with every gate beside it.
Sparsity choose_by_bytes(const NeuronSetupInputs& in, FfnMode mode, const NeuronLayout& placed,
                         SparsityReport& report) {
  mode.sparsity = Sparsity::kPredicted;
  mode.verify_predictor = true;
  in.pass.ffn().use(mode, placed);
  const NeuronActivity predicted = probe_activity(in.pass, in.spec, probe_tokens(in), in.max_tokens);
  NeuronActivity exact = predicted;
  exact.proposed = exact.passed = predicted.true_active;
  // Neurons that only the gate lets through have as many zeros among their ups as the proposed ones.
  exact.active = predicted.true_active;
  if (predicted.passed > 0) exact.active *= predicted.active / predicted.passed;
  const double exact_bytes = bytes_per_token(in.spec, in.weights, Sparsity::kExact, exact);
  const double predicted_bytes = bytes_per_token(in.spec, in.weights, Sparsity::kPredicted, predicted);
  const bool take_predicted = predicted_bytes < exact_bytes;
  report.reason =
      "a token reads " + gigabytes(predicted_bytes) + " predicted, " + gigabytes(exact_bytes) + " exact";
  return take_predicted ? Sparsity::kPredicted : Sparsity::kExact;
}

float predictor_threshold(const SparsityRequest& request, const ModelSpec& spec) {
  const double threshold = request.predictor_threshold.value_or(double{spec.sparse_threshold});
  // Not a number fails the comparison too; numbers beyond a float would become infinite.
  if (!(std::abs(threshold) <= double{std::numeric_limits<float>::max()})) {
    throw std::invalid_argument("A predictor's threshold of " + std::to_string(threshold) +
                                " cannot be; give a finite number that a float can hold.");
  }
  return static_cast<float>(threshold);
}

Backend& computing(const NeuronSetupInputs& in) { return in.device == nullptr ? in.cpu : *in.device; }

NeuronLayout placed(const NeuronSetupInputs& in, const NeuronLayout& layout) {
  return in.shares.empty() ? layout.resident(computing(in)) : layout.shared(in.shares, *in.device);
}

/// Whether neurons are laid together anew. A device with memory of its own reads rows from anywhere in it
/// alike, so that it takes the file's where those will do; shared neurons are summed one by one, in dense
/// runs too.
bool wants_bundles(const NeuronSetupInputs& in, Sparsity mode) {
  if (!in.shares.empty()) return true;
  return mode != Sparsity::kDense && (in.device == nullptr || !in.weights.has_down_rows());
}

/// Bundles, where there is memory for them. Without it neurons are read where they lie in the file; those of
/// a plain file cannot be, so that an exact run becomes dense. Throws ModelFileError for a calibrated one,
/// which gives other answers than dense.
void lay_out(const NeuronSetupInputs& in, const std::function<void(double)>& progress, FfnMode& mode,
             NeuronSetup& out) {
  SparsityReport& report = out.report;
  out.order = find_order(in, report.notes);
  const Sparsity bundles = report.mode == Sparsity::kDense ? Sparsity::kExact : report.mode;
  const double bytes = NeuronLayout::bundle_bytes(in.spec, in.weights, bundles, out.order);
  if (bytes <= in.free_memory_bytes) {
    out.layout =
        NeuronLayout::in_bundles(in.spec, in.weights, bundles, out.order, in.n_threads, in.cpu, progress);
    release_copied(in, out.layout);
    return;
  }
  out.order.clear();
  const std::string why = "would take " + gigabytes(bytes) + ", and " +
                          gigabytes(std::max(in.free_memory_bytes, 0.0)) + " are free";
  if (in.weights.has_down_rows() && report.mode != Sparsity::kCalibrated) {
    report.notes.push_back("neurons stay as they lie in the file: laying them together " + why);
  } else if (report.mode == Sparsity::kExact && in.shares.empty()) {
    report.mode = mode.sparsity = Sparsity::kDense;
    report.reason = "laying its neurons together, which exact needs with a plain GGUF file, " + why;
  } else {
    gguf::fail(gguf::file_label(in.file.path().string()),
               "laying the model's neurons together, which --sparsity " +
                   std::string(sparsity_name(report.mode)) + " needs, " + why +
                   "; take dense, a smaller context or fewer slots");
  }
}

}  // namespace

void set_up_neurons(const SparsityRequest& request, const NeuronSetupInputs& in,
                    const std::function<void(double)>& progress, NeuronSetup& out) {
  // 1. What was asked for, as far as the model can do it.
  const SparsityPlan plan = plan_sparsity(request, in.file.path(), in.spec, in.weights);
  SparsityReport& report = out.report;
  report.mode = plan.mode;
  report.reason = plan.reason;
  FfnMode mode;
  mode.predictor_threshold = predictor_threshold(request, in.spec);
  report.predictor_threshold = mode.predictor_threshold;
  if (plan.mode == Sparsity::kCalibrated) {
    mode.thresholds = request.calibrating ? std::vector<float>(static_cast<size_t>(in.spec.n_layers), 0.0f)
                                          : read_calibration(in.file, in.spec).thresholds;
  }

  const bool shared = !in.shares.empty();
  if (shared && plan.mode == Sparsity::kCalibrated) {
    throw std::invalid_argument(
        "--sparsity calibrated computes every neuron's value in one place; it does not run with neurons "
        "shared "
        "between a GPU and the CPU.");
  }

  // 2. "auto": measured on the neurons as they lie in the file.
  out.layout = NeuronLayout::in_file(in.spec, in.weights);
  const bool compare = plan.compare && !shared;
  if (compare) {
    out.placed = placed(in, out.layout);
    report.mode = choose_by_bytes(in, mode, out.placed, report);
  }
  mode.sparsity = report.mode;
  const bool can_verify = report.mode == Sparsity::kPredicted && !shared;
  mode.verify_predictor = request.verify_predictor && can_verify;

  // 3. Where its neurons are read from.
  const bool anew = wants_bundles(in, report.mode);
  if (anew) lay_out(in, progress, mode, out);
  if (anew || !compare) out.placed = placed(in, out.layout);
  if (request.verify_predictor && !can_verify) {
    report.notes.push_back("no predictor is verified, for the model runs " +
                           std::string(sparsity_name(report.mode)) +
                           (shared ? " on a GPU and the CPU together" : ""));
  }
  in.pass.ffn().use(mode, out.placed);

  // 4. What it saves.
  if (report.mode != Sparsity::kDense) {
    report.activity = probe_activity(in.pass, in.spec, probe_tokens(in), in.max_tokens);
  }
  report.bytes_per_token = bytes_per_token(in.spec, in.weights, report.mode, report.activity);
  report.dense_bytes_per_token = bytes_per_token(in.spec, in.weights, Sparsity::kDense, {});
}

}  // namespace hearth
