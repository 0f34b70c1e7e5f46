// Chooses the threshold of each layer's predictor so that as few neurons are proposed as the perplexity
// budget allows.
//
// The rule: a price of missed contributions, which is the same for all layers, determines each layer's
// threshold. The lowest price is chosen at which both conditions hold on a text that was not trained on:
//   1. The measured rise of the mean loss, plus a margin, is within the budget log(1 + max_rise). The margin
//      is 1.64 standard errors of the rise over the text's windows. With this margin, chance makes a rise
//      beyond the budget pass the test in at most one of twenty cases.
//   2. The mean divergence of the next-token distributions from the exact distributions, plus the margin of
//      condition 1, is within the budget too. This divergence is the average rise of the loss over texts that
//      the model itself would write. It has a tenth of the noise of the rise in condition 1. Condition 2
//      protects other texts if the loss on this text happens to fall when neurons are skipped.
// The cost of a layer's misses is measured separately for each layer, as the divergence that only this
// layer's predictor causes. If a layer can reach the wanted recall with the allowed false positives, its
// threshold keeps this recall.
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
  double margin = 0;              // the margin added to the rise and to the divergence
  /// Whether both conditions hold. If false, at least one of them fails even at the lowest thresholds that
  /// were tried.
  bool kept = false;
};

/// Chooses the thresholds. curves [n_layers]: counts over the quotients that predict_over_unit() computes
/// (logits divided by the input's size). tick: called after each window with the completed share; may throw.
/// `observer` must observe the model during the call. REQUIRES: at least one whole window of text.
ThresholdChoice choose_thresholds(ModelRuntime& model, ProposingObserver& observer,
                                  std::span<const LogitCurve> curves, const ThresholdInputs& inputs,
                                  const std::function<void(double)>& tick);

/// Returns the steps (LogitCurve) that minimize a sum over layers: the share of proposed neurons plus `price`
/// times the cost of missed ones. costs [n_layers]: the cost of missing all contributions of a layer. highest
/// [n_layers]: the highest step allowed for a layer.
std::vector<int> cheapest_steps(std::span<const LogitCurve> curves, std::span<const double> costs,
                                std::span<const int> highest, double price);

}  // namespace hearth
