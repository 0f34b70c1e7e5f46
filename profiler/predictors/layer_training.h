// Trains one layer's predictor from the layer's recording. Alternates between gradient descent and adding
// units, until the predictor is good enough, no longer improves or has the largest allowed rank.
//
// The tokens of a training step depend only on the seed, the rank and the step's number. Therefore training
// that continues from a checkpoint ends with the same bits as uninterrupted training. Called by
// train_predictors.cpp on one thread; a thread pool computes the products.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "profiler/predictors/logit_curve.h"
#include "profiler/predictors/predictor_net.h"
#include "profiler/predictors/recording.h"

namespace hearth {

struct LayerTrainingOptions {
  int64_t n_train = 0;  // the first rows of the recording, which train the predictor
  int64_t n_judge = 0;  // the rows after these, on which the predictor is judged
  int first_rank = 32;  // multiple of 32, so that rows of every tensor type have whole blocks
  int max_rank = 32;
  double epochs = 8;             // passes over the tokens at the first rank; half as many at each larger rank
  double recall = 0.95;          // a predictor with this recall is good enough, if false_positives is kept
  double false_positives = 0.1;  // upper limit on the share of inactive neurons proposed at this recall
  float rate = 3e-3f;
  uint64_t seed = 1;
};

/// The state of a layer's training.
struct LayerTraining {
  PredictorNet net;
  NetTrainer::Moments moments;
  int64_t n_steps = 0;  // training steps made with the current rank
  // The share of contributions that the net missed at its previous, lower rank, at the threshold with
  // LayerTrainingOptions::false_positives false positives. 1 at the first rank.
  double last_missed = 1;
  bool finished = false;
};

/// Facts about a layer's recording that are needed to compute the loss weights.
struct ContributionFacts {
  double active = 0;       // share of neurons that are active
  double mean_square = 0;  // mean square of the active neurons' contributions
};
ContributionFacts contribution_facts(const RecordFile& record, int64_t n_rows);

/// Computes logits [n_tokens, d_ff] from inputs x [n_tokens, d_model] with a root mean square of 1.
using Predict = std::function<void(const float* x, int64_t n_tokens, std::vector<float>& logits)>;

/// Compares the activity in rows [begin, begin + n_rows) of `neurons` with predictions from the same rows of
/// `inputs`. `inputs` and `neurons` may be recordings of different layers, but of the same tokens.
LogitCurve judge(const Predict& predict, const RecordFile& inputs, const RecordFile& neurons, int64_t begin,
                 int64_t n_rows);

/// Continues `training` until it is finished; begins a new training if `training` is empty. tick: called
/// between training steps with the completed share of the work, assuming that the net grows to its largest
/// rank. If `tick` returns false, this function stops and returns false, and a later call can continue from
/// `training`. Returns true if training is finished. REQUIRES: `record` has n_train + n_judge rows, and both
/// numbers are positive.
bool train_layer(FloatProducts& products, const RecordFile& record, const LayerTrainingOptions& options,
                 LayerTraining& training, const std::function<bool(double)>& tick);

}  // namespace hearth
