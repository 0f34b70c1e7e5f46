// Finds the thresholds of calibrated sparsity for a model on a text: which neurons of a SwiGLU or GeGLU FFN
// contribute so little that skipping them costs no more perplexity than granted.
//
// One number is searched for: the share of neurons skipped, the same in every layer (docs/decisions.md says
// why). Called by calibrate_command.cpp; runs the model on the calling thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/model_runtime.h"

namespace hearth {

/// The least number of windows that thresholds are found on: with fewer, chance decides.
inline constexpr int kMinCalibrationWindows = 4;

struct CalibrateInputs {
  std::span<const int32_t> text;      // tokens that thresholds are found on
  std::span<const int32_t> held_out;  // tokens that tell what they cost
  int n_context = 512;                // tokens of a window; texts are cut as perplexity.h cuts them
  int32_t bos = -1;                   // the token that windows begin with, or -1 for none
  double budget = 0.01;               // by how much the text's perplexity may rise, as a share
};

/// A text's perplexity without and with skipping.
struct PerplexityPair {
  double dense = 0;
  double calibrated = 0;
  double rise() const { return calibrated / dense - 1; }
};

struct CalibrateResult {
  std::vector<float> thresholds;  // [n_layers]
  PerplexityPair text, held_out;
  double rise_error = 0;        // standard error of held_out.rise(), from its windows' differences
  std::vector<double> skipped;  // [n_layers] share of neurons skipped on the held-out text
  NeuronActivity activity;      // on the held-out text
};

/// The model must have been loaded with SparsityRequest.calibrating; it is left with the thresholds found.
/// progress: called after each window with the share of all work done, in [0, 1], and the name of the stage.
/// Throws std::runtime_error (one sentence) if the model's perplexity is not a number. REQUIRES: both texts
/// hold whole windows, kMinCalibrationWindows and 1; n_context >= 4 and within the model's KV memory.
CalibrateResult calibrate(ModelRuntime& model, const CalibrateInputs& inputs,
                          const std::function<void(double, std::string_view)>& progress);

}  // namespace hearth
