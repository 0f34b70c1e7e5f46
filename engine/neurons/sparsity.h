// Defines the modes, which determine the neurons of the FFN that are computed, and reports how many bytes a
// mode reads.
//
// choose_sparsity() (sparsity_choice.h) chooses the mode once at load, and FfnPass runs in this mode. The
// log, bench and /v1/models show the mode. Plain data, const after load.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

enum class Sparsity : uint8_t {
  kDense,      // every neuron
  kExact,      // gate of all neurons, up and down only of neurons with a nonzero activation; lossless
  kPredicted,  // gate, up and down only of neurons that the predictors of the model propose
  // Gate and up of all neurons, down only of neurons whose contribution is at least a threshold. The
  // threshold is calibrated on a text.
  kCalibrated,
};

/// "dense", "exact", "predicted", "calibrated".
std::string_view sparsity_name(Sparsity mode);

/// The sparsity that the user requests.
struct SparsityRequest {
  std::string mode = "exact";  // a sparsity_name(), or "auto" (choose_sparsity)
  // Minimum predictor logit for which a neuron is proposed; nullopt: the threshold in the model file.
  std::optional<double> predictor_threshold;
  bool verify_predictor = false;  // also compute every gate, to count the predictor's errors
  // Calibrated mode: thresholds begin at zero, and the calibration file beside the model is not read.
  bool calibrating = false;
};

/// Shares of all neurons, averaged over the observed tokens. In a mixture of experts, the shares refer only
/// to the neurons of the experts that a token chose. A negative value means unknown.
struct NeuronActivity {
  int64_t n_tokens = 0;
  /// Share of the neurons that the predictor proposes (predicted mode), that pass the gate (exact mode), or
  /// whose contribution reaches the threshold (calibrated mode).
  double proposed = -1;
  // Share of the neurons that are proposed and for which act(gate) is nonzero, so that their up rows are
  // read. 0 in calibrated mode.
  double passed = -1;
  double active = -1;  // value is nonzero, so down is read
  // Among the neurons whose down rows were read: share that the CPU computed while a GPU computed the others.
  double cold = -1;
  double true_active = -1;      // share that passes the gate, proposed or not (verify_predictor only)
  double recall = -1;           // share of the active neurons that were proposed (verify_predictor only)
  double false_positives = -1;  // share of the proposed neurons that were not active (verify_predictor only)
  /// Mixtures of experts: experts read per token and layer. An expert that several tokens of a step share
  /// counts once, so this may be less than the number of experts per token.
  double experts_read = -1;
};

/// The current mode, and how many bytes it reads.
struct SparsityReport {
  Sparsity mode = Sparsity::kDense;
  std::string reason;          // the reason for this mode, as a clause
  NeuronActivity activity;     // measured at load on a short text; n_tokens is 0 in dense mode
  double bytes_per_token = 0;  // bytes of weights read for one decoded token at that activity
  double dense_bytes_per_token = 0;
  double predictor_threshold = 0;  // predicted mode only
  std::vector<std::string> notes;  // sentences for the log: files found, requests that could not be met
};

}  // namespace hearth
