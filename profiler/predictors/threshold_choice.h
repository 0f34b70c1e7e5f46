// Chooses the threshold of each layer's predictor so that as few neurons are proposed as the perplexity
// budget allows.
//
// The rule: one price of missed contributions holds for all layers and gives each layer a threshold. The
// lowest price is chosen at which, on a text that was not trained on,
//   1. the measured rise of the mean loss, plus a margin, is within the budget log(1 + max_rise). The margin
//      is 1.64 standard errors of the rise over the text's windows: how much chance may have flattered it,
//      except one time in twenty.
//   2. the mean divergence of next-token distributions from the exact ones, with the same margin, is within
//      the budget too. The divergence is the average rise of the loss over texts that the model itself would
//      write, with a tenth of the noise. It also protects other texts if this text happens to gain from
//      skipped neurons.
// The cost of a layer's misses is measured for each layer: the divergence that its predictor causes by
// itself. A layer that has the wanted recall keeps it.
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
  double max_rise = 0.005;       // share by which the perplexity may rise
  double recall = 0.95;          // kept by every layer that reaches it
  double false_positives = 0.1;  // ... while proposing at most this share of its inactive neurons
};

struct ThresholdChoice {
  std::vector<float> thresholds;  // [n_layers]
  double exact_perplexity = 0;    // the text's, without predictors
  double perplexity = 0;          // the text's, with predictors
  double divergence = 0;          // nats per token, from the exact distributions
  double margin = 0;              // the margin added to the divergence
  bool kept = false;  // the budget is kept; false: not even if predictors propose as many neurons as they can
};

/// curves [n_layers]: counts by logit divided by the input's size. tick: called after each window with the
/// share done; may throw. The observer observes the model during the call. REQUIRES: at least one whole
/// window of text.
ThresholdChoice choose_thresholds(ModelRuntime& model, ProposingObserver& observer,
                                  std::span<const LogitCurve> curves, const ThresholdInputs& inputs,
                                  const std::function<void(double)>& tick);

/// The steps (LogitCurve) that minimize, summed over layers, the number of proposed neurons plus `price`
/// times the cost of missed ones. costs [n_layers]: the cost of missing all contributions. highest
/// [n_layers]: the highest step allowed.
std::vector<int> cheapest_steps(std::span<const LogitCurve> curves, std::span<const double> costs,
                                std::span<const int> highest, double price);

}  // namespace hearth
