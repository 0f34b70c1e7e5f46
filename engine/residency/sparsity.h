// Which neurons of the FFN are computed, and how many bytes that saves.
//
// choose_sparsity() (sparsity_choice.h) chooses the mode once at load, FfnPass carries it out; the log, bench and
// /v1/models show it. Plain data, const after load.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

enum class Sparsity : uint8_t {
  kDense,       // every neuron
  kExact,       // gate first: up and down only of neurons whose activation is not zero. Lossless
  kPredicted,   // gate, up and down only of neurons that the model's predictors propose
  kCalibrated,  // down only of neurons that contribute more than a threshold found on a text
};

/// "dense", "exact", "predicted", "calibrated".
std::string_view sparsity_name(Sparsity mode);

/// What the user asks for.
struct SparsityRequest {
  std::string mode = "exact";  // those names, or "auto": exact or predicted, whichever reads less
  std::optional<double> predictor_threshold;  // logits from it on propose; not given: the file's
  bool verify_predictor = false;              // compute every gate beside the predictor, to count its errors
  bool calibrating =
      false;  // calibrated: thresholds begin at zero, and the file beside the model is not read
};

/// Shares of all neurons, averaged over the tokens that were observed. Negative: not known.
struct NeuronActivity {
  int64_t n_tokens = 0;
  double proposed = -1;         // by the predictor; exact: whose gate passes; calibrated: that contribute
  double passed = -1;           // of these, act(gate) was not zero: up is read. Calibrated: 0
  double active = -1;           // whose value was not zero: down is read
  double cold = -1;             // of the neurons whose down rows were read: by the CPU beside a device
  double true_active = -1;      // whose gate passes, proposed or not (predictor verified)
  double recall = -1;           // of the active ones, proposed (predictor verified)
  double false_positives = -1;  // of the proposed ones, not active (predictor verified)
};

/// The mode that runs, and the bytes it reads.
struct SparsityReport {
  Sparsity mode = Sparsity::kDense;
  std::string reason;          // why this one: half a sentence
  NeuronActivity activity;     // measured at load on a short text; n_tokens 0 in dense mode
  double bytes_per_token = 0;  // weights read for one decoded token at that activity
  double dense_bytes_per_token = 0;
  double predictor_threshold = 0;  // predicted mode only
  std::vector<std::string> notes;  // for the log: files found beside the model, what could not be done
};

}  // namespace hearth
