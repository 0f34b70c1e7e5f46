// Finds the thresholds of calibrated sparsity for a model on a text. Neurons of a SwiGLU or GeGLU FFN whose
// contribution is below the threshold are skipped. The thresholds are chosen so that perplexity rises by no
// more than a budget.
//
// The search looks for a single number: the share of neurons that is skipped in every layer
// (profiler/DECISIONS.md gives the reason). Called by calibrate_command.cpp; runs the model on the calling
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/model_runtime.h"

namespace hearth {

/// The least number of windows on which thresholds are searched. With fewer windows, chance decides the
/// result.
inline constexpr int kMinCalibrationWindows = 4;

struct CalibrateInputs {
  std::span<const int32_t> text;      // tokens on which thresholds are searched
  std::span<const int32_t> held_out;  // tokens on which their cost is measured
  int n_context = 512;                // tokens of a window; texts are cut into windows as in perplexity.h
  int32_t bos = -1;                   // the token that every window begins with, or -1 for none
  double budget = 0.01;               // the share by which perplexity on the text may rise
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
  double rise_error = 0;  // standard error of held_out.rise(), computed from the differences between windows
  std::vector<double> skipped;  // [n_layers] share of neurons skipped on the held-out text
  NeuronActivity activity;      // counted on the held-out text
};

/// Finds the thresholds. `model` keeps them set after the call. Calls `progress` after each window with the
/// completed share of all work, in [0, 1], and the name of the stage. Throws std::runtime_error (one
/// sentence) if the model's perplexity is not a number. REQUIRES: the model was loaded with
/// SparsityRequest.calibrating; `text` holds at least kMinCalibrationWindows whole windows and `held_out` at
/// least 1; n_context >= 4 and within the model's KV memory.
CalibrateResult calibrate(ModelRuntime& model, const CalibrateInputs& inputs,
                          const std::function<void(double, std::string_view)>& progress);

}  // namespace hearth
