// Chooses the threshold of each layer's predictor so that as few neurons are proposed as the perplexity
// budget allows.
//
// The rule: a price of missed contributions, which is the same for all layers, determines each layer's
// threshold. The lowest price is chosen at which both conditions hold on a text that was not trained on:
//   1. The measured rise of the mean loss, plus a margin, is within the budget log(1 + max_rise). The margin
//      is 1.64 standard errors of the rise over the text's windows. In only one of twenty cases, chance makes
//      a result look better than it is by more than this margin.
//   2. The mean divergence of the next-token distributions from the exact ones, with the same margin, is
//      within the budget too. This divergence is the average rise of the loss over texts that the model
//      itself would write, and has a tenth of the noise. The condition protects other texts if this text
//      happens to gain from skipped neurons.
// The cost of a layer's misses is measured separately for each layer, as the divergence that only this
// layer's predictor causes. A layer that reaches the wanted recall does not fall below it.
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
  double false_positives = 0.1;  // largest share of inactive neurons that a layer of this recall may propose
};

struct ThresholdChoice {
  std::vector<float> thresholds;  // [n_layers]
  double exact_perplexity = 0;    // perplexity of the text without predictors
  double perplexity = 0;          // perplexity of the text with predictors
  double divergence = 0;          // nats per token, from the exact distributions
  double margin = 0;              // the margin added to the divergence
  /// Whether the divergence is within the budget. If false, the divergence exceeds the budget even when as
  /// many neurons as possible are proposed.
  bool kept = false;
};

/// Chooses the thresholds. curves [n_layers]: counted with the quotients that predict_over_unit() computes,
/// that is, logits divided by the input's size. tick: called after each window with the completed share; may
/// throw. `observer` must observe the model during the call. REQUIRES: at least one whole window of text.
ThresholdChoice choose_thresholds(ModelRuntime& model, ProposingObserver& observer,
                                  std::span<const LogitCurve> curves, const ThresholdInputs& inputs,
                                  const std::function<void(double)>& tick);

/// Returns the steps (LogitCurve) that minimize a sum over layers: the share of proposed neurons plus `price`
/// times the cost of missed ones. costs [n_layers]: the cost of missing all contributions of a layer. highest
/// [n_layers]: the highest step allowed for a layer.
std::vector<int> cheapest_steps(std::span<const LogitCurve> curves, std::span<const double> costs,
                                std::span<const int> highest, double price);

}  // namespace hearth
