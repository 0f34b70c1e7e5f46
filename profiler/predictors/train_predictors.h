// Makes predictors for a model: records what its neurons do on a text, trains a predictor for each layer,
// chooses their thresholds, measures what they are worth.
//
// A library function: who calls it shows progress and may stop it at any time; what was done is in the work
// folder, and the next call goes on from there with the same results. Runs the model and the arithmetic on
// the calling thread and a pool of its own.
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
  double size_budget = 0.1;      // of the model's weights, for all predictors together
  double recall = 0.95;          // a layer's rank grows until it has this
  double false_positives = 0.1;  // at this share of the inactive neurons proposed
  double max_rise = 0.005;       // of the perplexity
  double epochs = 8;
  uint64_t seed = 1;
  int n_threads = 1;
  Isa isa = Isa::kScalar;
};

struct LayerResult {
  int rank = 0;
  float threshold = 0;      // over the input's size; it is in the net
  ProposalCounts held_out;  // on the held-out text
  PredictorShares ahead;  // fed with the input of the layer before, on recorded tokens not trained on; layer
                          // 0: nothing
};

struct PerplexityOfTwo {
  double exact = 0, predicted = 0;
  double rise() const { return predicted / exact - 1; }
};

struct TrainResult {
  std::vector<LayerResult> layers;           // [n_layers]
  std::vector<MappedNet> nets;               // [n_layers] as trained
  std::vector<TrainedPredictor> predictors;  // [n_layers] of those
  ThresholdChoice choice;                    // and what it came to on the text it was made on
  PerplexityOfTwo held_out;
  int64_t n_recorded = 0;  // tokens
  uint64_t recorded_bytes = 0;

  /// Predictors with the thresholds in them: logits propose from 0 on. Refers to this.
  PredictorSource source() const;
};

/// progress: called often with the share of the work done and what is being done; returns false to stop.
/// Returns nullopt if it was stopped. Throws std::runtime_error (one sentence): a damaged checkpoint, a full
/// disk. REQUIRES: a model with zeros to predict, loaded dense on the CPU.
std::optional<TrainResult> train_predictors(ModelRuntime& model, const WorkFolder& folder,
                                            const TrainingText& text, const TrainOptions& options,
                                            const std::function<bool(double, std::string_view)>& progress);

/// First and largest rank of every layer: the first by the share of neurons that are active (sparse layers
/// are easier), the largest by the budget of weights that all share by the same measure.
struct RankRange {
  int first = 32, most = 32;
};
std::vector<RankRange> rank_ranges(std::span<const double> active, int d_model, int d_ff, double n_weights);

}  // namespace hearth
