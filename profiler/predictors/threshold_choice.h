// Which threshold each layer's predictor gets: as few neurons proposed as the perplexity granted allows.
//
// The rule. Of the thresholds that share out one price among the layers, those of the highest price are taken
// at which, on a text that was not trained on,
//   1. the measured rise of the mean loss, and a margin, is within what is granted, log(1 + max_rise). The
//      margin is 1.64 standard errors of that rise over the text's windows: by how much chance may have
//      flattered it, but for one time in twenty.
//   2. the mean divergence of next-token distributions from the exact ones, with the same margin, is so, too.
//      That is what the loss rises by on average over texts that are as the model expects, and has a tenth of
//      the chance in it: on a text that happens to gain by what is left out, it still speaks for others.
// The price is of what a layer's misses cost, measured layer by layer: the divergence that its predictor
// causes by itself. Where a layer has the wanted recall it keeps that.
//
// Called by train_predictors.cpp, on the thread that runs the model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/model_runtime.h"
#include "profiler/predictors/logit_curve.h"
#include "profiler/predictors/trained_predictor.h"

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
  double divergence = 0;  // nats a token, from the exact distributions
  double margin = 0;      // what was added to it
  bool kept = false;      // what was granted; no: with as many proposed as predictors can, it still is not
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
