// A trained predictor and what a threshold means for it.
//
// A shift of the logits wants a constant, and PowerInfer's predictors have no biases; a threshold in the file
// would be one for all layers, and would not grow with the input as the logits do. So the shift is made of
// the predictor's own units: a combination of them that is nearly the input's root mean square, whatever the
// input, is found by least squares and added to every neuron's row. Logits then propose from 0 on.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/predictors/predictor_net.h"
#include "profiler/predictors/record_file.h"

namespace hearth {

struct TrainedPredictor {
  PredictorView net;        // of a net that outlives this
  std::vector<float> unit;  // [rank]: its product with the units' outputs is about the input's size
  float input_scale = 1;    // the root mean square that inputs usually have in the model
};

/// Finds `unit` and `input_scale` on the first n_rows rows of the layer's recording.
TrainedPredictor with_unit(FloatProducts& products, const PredictorView& net, const RecordFile& record,
                           int64_t n_rows);

/// Logits [n_tokens, d_ff] over the size that `unit` gives their input, of x [n_tokens, d_model]: a neuron is
/// proposed where this reaches the threshold, and where shifted(threshold) has a logit from 0 on. The vectors
/// are resized.
void predict_over_unit(FloatProducts& products, const TrainedPredictor& predictor, const float* x,
                       int64_t n_tokens, std::vector<float>& hidden, std::vector<float>& logits);

/// The net whose logits are those less `threshold` for inputs of usual size: what a file gets.
PredictorNet shifted(const TrainedPredictor& predictor, float threshold);

}  // namespace hearth
