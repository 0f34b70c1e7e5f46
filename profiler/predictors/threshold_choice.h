// Which threshold each layer's predictor gets: as few neurons proposed as the perplexity granted allows.
//
// What skipping costs is measured layer by layer (the divergence of next-token distributions that one layer's
// predictor causes by itself); between them those costs share out one price. The price is then searched for
// by the perplexity of a text that was not trained on. Called by train_predictors.cpp, on the thread that
// runs the model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/model_runtime.h"
#include "profiler/predictors/logit_curve.h"
#include "profiler/predictors/proposing.h"

namespace hearth {

struct ThresholdInputs {
  std::span<const int32_t> text;  // [n_windows, n_context]
  int n_context = 512;
  int32_t bos = -1;
  double max_rise = 0.005;       // of the perplexity, as a share
  double recall = 0.95;          // kept wherever a layer has it at
  double false_positives = 0.1;  // this many or fewer of the inactive proposed
};

struct ThresholdChoice {
  std::vector<float> thresholds;  // [n_layers]
  double exact_perplexity = 0;    // of the text
  double perplexity = 0;
};

/// curves [n_layers]: of logits over the input's size. tick: called after each window with the share done; it
/// may throw. The observer observes the model meanwhile. REQUIRES: a whole window of text.
ThresholdChoice choose_thresholds(ModelRuntime& model, ProposingObserver& observer,
                                  std::span<const LogitCurve> curves, const ThresholdInputs& inputs,
                                  const std::function<void(double)>& tick);

/// The steps (LogitCurve) at which the sum over layers of the neurons proposed and `price` times what their
/// missing costs is least. costs [n_layers]: of missing all contributions; highest [n_layers]: no step above.
std::vector<int> cheapest_steps(std::span<const LogitCurve> curves, std::span<const double> costs,
                                std::span<const int> highest, double price);

}  // namespace hearth
