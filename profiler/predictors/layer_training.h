// Trains one layer's predictor from its recording: steps of gradient descent, then more units, until it is
// good enough or as large as it may become.
//
// The tokens of a training step follow from its number alone. So training that goes on from a checkpoint ends
// with the same bits as training that was never stopped. Called by train_predictors.cpp, on one thread beside
// the pool's.
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
  int64_t n_judge = 0;  // the rows behind those, used to judge the predictor
  int first_rank = 32;  // multiples of 32: rows of every tensor type have whole blocks
  int max_rank = 32;
  double epochs = 8;     // how often a token is seen with the first rank; half as often with larger ranks
  double recall = 0.95;  // the predictor is good enough with this recall
  double false_positives = 0.1;  // while it proposes at most this share of the inactive neurons
  float rate = 3e-3f;
  uint64_t seed = 1;
};

/// The state of a layer's training.
struct LayerTraining {
  PredictorNet net;
  NetTrainer::Moments moments;
  int64_t n_steps = 0;     // training steps made with the present rank
  double last_missed = 1;  // share of contributions missed at `false_positives` with the rank before
  bool finished = false;
};

/// What the loss needs to know of a layer's recording.
struct ContributionFacts {
  double active = 0;       // share of neurons that are active
  double mean_square = 0;  // of the active neurons' contributions
};
ContributionFacts contribution_facts(const RecordFile& record, int64_t n_rows);

/// Logits [n_tokens, d_ff] of inputs x [n_tokens, d_model], whose root mean square is 1.
using Predict = std::function<void(const float* x, int64_t n_tokens, std::vector<float>& logits)>;

/// Compares rows [begin, begin + n_rows) of a recording with what is predicted from `inputs`. `inputs` may be
/// another layer's recording of the same tokens.
LogitCurve judge(const Predict& predict, const RecordFile& inputs, const RecordFile& neurons, int64_t begin,
                 int64_t n_rows);

/// Continues `training` (begins it if empty) until it is finished. tick: called between training steps with
/// the share done of the most work possible; if it returns false, training stops, and `training` is complete
/// and can be continued later. Returns whether it is finished. REQUIRES: recordings of n_train + n_judge
/// rows, both positive.
bool train_layer(FloatProducts& products, const RecordFile& record, const LayerTrainingOptions& options,
                 LayerTraining& training, const std::function<bool(double)>& tick);

}  // namespace hearth
