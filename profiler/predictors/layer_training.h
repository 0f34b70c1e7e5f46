// Trains one layer's predictor from its recording: alternates gradient descent with adding units, until the
// predictor is good enough or has the largest allowed rank.
//
// The tokens of a training step depend only on the step's number, so training that continues from a
// checkpoint ends with the same bits as training without a stop. Called by train_predictors.cpp, on one
// thread beside the pool's.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "profiler/predictors/logit_curve.h"
#include "profiler/predictors/predictor_net.h"
#include "profiler/predictors/recording.h"

namespace hearth {

struct LayerTrainingOptions {
  int64_t n_train = 0;  // the first rows of the recording, used for training
  int64_t n_judge = 0;  // the rows after those, used to judge the predictor
  int first_rank = 32;  // multiples of 32: rows of every tensor type have whole blocks
  int max_rank = 32;
  double epochs = 8;             // passes over the tokens with the first rank; half as many with larger ranks
  double recall = 0.95;          // the predictor is good enough with this recall
  double false_positives = 0.1;  // ... while proposing at most this share of the inactive neurons
  float rate = 3e-3f;
  uint64_t seed = 1;
};

/// The state of a layer's training.
struct LayerTraining {
  PredictorNet net;
  NetTrainer::Moments moments;
  int64_t n_steps = 0;     // training steps made with the current rank
  double last_missed = 1;  // share of contributions missed at `false_positives` with the previous rank
  bool finished = false;
};

/// The facts about a layer's recording that the loss needs.
struct ContributionFacts {
  double active = 0;       // share of neurons that are active
  double mean_square = 0;  // mean square of the active neurons' contributions
};
ContributionFacts contribution_facts(const RecordFile& record, int64_t n_rows);

/// Computes logits [n_tokens, d_ff] from inputs x [n_tokens, d_model] with a root mean square of 1.
using Predict = std::function<void(const float* x, int64_t n_tokens, std::vector<float>& logits)>;

/// Compares rows [begin, begin + n_rows) of `neurons` with predictions from `inputs`, which may be another
/// layer's recording of the same tokens.
LogitCurve judge(const Predict& predict, const RecordFile& inputs, const RecordFile& neurons, int64_t begin,
                 int64_t n_rows);

/// Continues `training` (begins it if it is empty) until it is finished. tick: called between training steps
/// with the share done of the most work possible; if it returns false, training stops, and `training` is in a
/// state that can be continued later. Returns whether training is finished. REQUIRES: recordings of n_train +
/// n_judge rows, both positive.
bool train_layer(FloatProducts& products, const RecordFile& record, const LayerTrainingOptions& options,
                 LayerTraining& training, const std::function<bool(double)>& tick);

}  // namespace hearth
