// Makes predictors for a model: records its neurons' activity on a text, trains a predictor for each layer,
// chooses thresholds, and measures the result.
//
// The caller shows progress and may stop the work at any time. Finished work is in the work folder, and the
// next call continues from there with the same results. Runs the model and the arithmetic on the calling
// thread and on a pool of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/model_runtime.h"
#include "profiler/predictors/logit_curve.h"
#include "profiler/predictors/predictor_writer.h"
#include "profiler/predictors/threshold_choice.h"
#include "profiler/predictors/trained_predictor.h"
#include "profiler/predictors/training_text.h"
#include "profiler/predictors/work_folder.h"

namespace hearth {

struct TrainOptions {
  int n_context = 512;           // tokens of a window
  double size_budget = 0.1;      // share of the model's weights that all predictors together may have
  double recall = 0.95;          // a layer's rank grows until it has this recall
  double false_positives = 0.1;  // ... while proposing at most this share of the inactive neurons
  double max_rise = 0.005;       // share by which perplexity may rise
  double epochs = 8;
  uint64_t seed = 1;
  int n_threads = 1;
  Isa isa = Isa::kScalar;
};

struct LayerResult {
  int rank = 0;
  float threshold = 0;      // relative to the input's size; the written net already contains it
  ProposalCounts held_out;  // on the held-out text
  PredictorShares ahead;    // with the previous layer's input, on recorded tokens not trained on; layer 0 has
                            // none
};

struct PerplexityOfTwo {
  double exact = 0, predicted = 0;
  double rise() const { return predicted / exact - 1; }
};

struct TrainResult {
  std::vector<LayerResult> layers;           // [n_layers]
  std::vector<MappedNet> nets;               // [n_layers] as trained
  std::vector<TrainedPredictor> predictors;  // [n_layers] refer to `nets`
  ThresholdChoice choice;                    // thresholds, and their result on the text they were chosen on
  PerplexityOfTwo held_out;
  int64_t n_recorded = 0;  // tokens
  uint64_t recorded_bytes = 0;

  /// Predictors that contain their thresholds, so that a neuron is proposed if its logit is >= 0. Refers to
  /// this object.
  PredictorSource source() const;
};

/// progress: called often with the share of the work done and the name of the current work; returns false to
/// stop. Returns nullopt if it was stopped. Throws std::runtime_error (one sentence) for a damaged checkpoint
/// or a full disk. REQUIRES: the model's activation has zeros, and the model was loaded dense on the CPU.
std::optional<TrainResult> train_predictors(ModelRuntime& model, const WorkFolder& folder,
                                            const TrainingText& text, const TrainOptions& options,
                                            const std::function<bool(double, std::string_view)>& progress);

/// The first and the largest rank of every layer. The first depends on the share of neurons that are active
/// (sparse layers are easier). The largest depends on the budget of weights, which is divided among the
/// layers in the same proportion.
struct RankRange {
  int first = 32, most = 32;
};
std::vector<RankRange> rank_ranges(std::span<const double> active, int d_model, int d_ff, double n_weights);

}  // namespace hearth
