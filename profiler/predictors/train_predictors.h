// Makes predictors for a model: records its neurons' activity on a text, trains a predictor for each layer,
// chooses thresholds, and measures the result.
//
// The caller shows progress and may stop the work at any time. Finished work is kept in the work folder; the
// next call continues from there and gives the same results. The model and all arithmetic run on the calling
// thread and on a thread pool that the call creates.
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
  int n_context = 512;       // tokens of a window
  double size_budget = 0.1;  // maximum number of all predictors' weights, as a share of the model's weights
  double recall = 0.95;      // a layer's rank grows until its predictor has this recall
  double false_positives = 0.1;  // upper limit on the share of inactive neurons proposed at this recall
  double max_rise = 0.005;       // share by which perplexity may rise
  double epochs = 8;
  uint64_t seed = 1;
  int n_threads = 1;
  Isa isa = Isa::kScalar;
};

struct LayerResult {
  int rank = 0;
  float threshold = 0;  // for logits divided by the input's size; the weights of the written net include it
  ProposalCounts held_out;  // counted on the held-out text
  /// Prediction from the previous layer's input, on recorded tokens that were not trained on. Unset for layer
  /// 0.
  PredictorShares ahead;
};

struct PerplexityOfTwo {
  double exact = 0, predicted = 0;
  double rise() const { return predicted / exact - 1; }
};

struct TrainResult {
  std::vector<LayerResult> layers;           // [n_layers]
  std::vector<MappedNet> nets;               // [n_layers] as trained
  std::vector<TrainedPredictor> predictors;  // [n_layers] refer to `nets`
  ThresholdChoice choice;  // the thresholds, and their effect on the text that they were chosen on
  PerplexityOfTwo held_out;
  int64_t n_recorded = 0;  // tokens
  uint64_t recorded_bytes = 0;

  /// Returns predictors that include their thresholds, so that a neuron is proposed if its logit is >= 0. The
  /// source refers to this object.
  PredictorSource source() const;
};

/// Makes predictors. progress: called often with the completed share of the work and the name of the current
/// stage; the work stops if it returns false. Returns nullopt if the work was stopped. Throws
/// std::runtime_error (one sentence) if a checkpoint is damaged or the disk is full. REQUIRES: the model's
/// activation has zeros, and the model was loaded dense on the CPU.
std::optional<TrainResult> train_predictors(ModelRuntime& model, const WorkFolder& folder,
                                            const TrainingText& text, const TrainOptions& options,
                                            const std::function<bool(double, std::string_view)>& progress);

/// The first and the largest rank of a layer's predictor. The first rank depends on the share of neurons that
/// are active, because sparse layers are easier to predict. The largest rank is proportional to this share.
/// If every layer's predictor has its largest rank, they have about n_weights weights together.
struct RankRange {
  int first = 32, most = 32;
};
std::vector<RankRange> rank_ranges(std::span<const double> active, int d_model, int d_ff, double n_weights);

}  // namespace hearth
