// Trains one layer's predictor from its recording: steps of gradient descent, then more units until it is
// good enough or as large as it may become.
//
// Which tokens a step sees follows from its number alone, so training that goes on from a checkpoint ends
// with the same bits as one that was never stopped. Called by train_predictors.cpp, one thread beside the
// pool's.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "profiler/predictors/logit_curve.h"
#include "profiler/predictors/predictor_net.h"
#include "profiler/predictors/recording.h"

namespace hearth {

struct LayerTrainingOptions {
  int64_t n_train = 0;  // the recording's first rows are trained on
  int64_t n_judge = 0;  // as many behind them tell how good the predictor is
  int first_rank = 32;  // multiples of 32: rows of every tensor type have whole blocks
  int max_rank = 32;
  double epochs = 8;             // times that a token is seen with the first rank; half as often with more
  double recall = 0.95;          // what is good enough, at
  double false_positives = 0.1;  // this share of the inactive neurons proposed
  float rate = 3e-3f;
  uint64_t seed = 1;
};

/// Where training is.
struct LayerTraining {
  PredictorNet net;
  NetTrainer::Moments moments;
  int64_t n_steps = 0;     // made with the present rank
  double last_missed = 1;  // contributions missed at the wanted false positives, with the rank before
  bool finished = false;
};

/// A layer's recording reduced to what a loss needs.
struct ContributionFacts {
  double active = 0;       // share of the neurons
  double mean_square = 0;  // of the active ones' contributions
};
ContributionFacts contribution_facts(const RecordFile& record, int64_t n_rows);

/// Logits [n_tokens, d_ff] of inputs x [n_tokens, d_model], whose root mean square is 1.
using Predict = std::function<void(const float* x, int64_t n_tokens, std::vector<float>& logits)>;

/// Rows [begin, begin + n_rows) of a recording against what is predicted from `inputs`, which may be another
/// layer's recording, whose rows are the same tokens.
LogitCurve judge(const Predict& predict, const RecordFile& inputs, const RecordFile& neurons, int64_t begin,
                 int64_t n_rows);

/// Goes on with `training` (empty: begins) until it is finished. tick: called between steps with the share of
/// the most there may be to do; returns false to stop, and then `training` is whole and can go on later.
/// Returns whether it is finished. REQUIRES: recordings of n_train + n_judge rows, both positive.
bool train_layer(FloatProducts& products, const RecordFile& record, const LayerTrainingOptions& options,
                 LayerTraining& training, const std::function<bool(double)>& tick);

}  // namespace hearth
