// The FFN of every layer, in every mode of sparsity: which neurons, then their sum.
//
// Owned by ForwardPass; engine thread. All memory is taken when it is built. Modes: engine/sparsity.h; which
// bytes a neuron is read from: engine/neuron_layout.h; the arithmetic: Backend.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "engine/model_spec.h"
#include "engine/neuron_layout.h"
#include "engine/sparsity.h"
#include "engine/weights.h"
#include "kernels/backend.h"

namespace hearth {

/// How FfnPass is to run.
struct FfnMode {
  Sparsity sparsity = Sparsity::kDense;
  float predictor_threshold = 0;  // predicted
  bool verify_predictor = false;  // predicted: count its errors, at the price of all gates
  std::vector<float> thresholds;  // calibrated: [n_layers], least contribution that counts
};

/// Sums over layers and tokens.
struct FfnCounts {
  int64_t n_token_layers = 0;  // tokens times layers
  NeuronCounts neurons;
  int64_t n_verified = 0;             // tokens times layers whose predictor was verified
  int64_t truly_active = 0;           // neurons whose gate passes, proposed or not (predictor verified)
  int64_t truly_active_proposed = 0;  // of these, proposed
};

/// Looks at every neuron of one layer in calibrated mode, before any is skipped: values [n_tokens, d_ff],
/// down_sizes [d_ff] (Euclidean norms of the down columns), in the layout's order.
using ValueObserver =
    std::function<void(int layer, const float* values, const float* down_sizes, int n_tokens)>;

class FfnPass {
 public:
  /// All references must outlive the pass. Begins in dense mode, with the neurons as they lie in the file.
  FfnPass(Backend& backend, const ModelSpec& spec, const Weights& weights, int max_tokens);

  /// Bytes that the buffers take at most, with predictors as wide as they may be. A double, which absurd
  /// sizes do not wrap.
  static double bytes_needed(const ModelSpec& spec, int max_tokens);

  /// How to run from now on. `layout` must outlive the pass, and hold what the mode reads.
  void use(const FfnMode& mode, const NeuronLayout& layout);

  /// Proposes neurons where the architecture's predictor reads the layer's input, x [n_tokens, d_model].
  /// Called before the layer adds its attention to x.
  void before_attention(int layer, const float* x, int n_tokens);

  /// x += FFN(normed), both [n_tokens, d_model].
  void run(int layer, const float* normed, float* x, int n_tokens);

  /// Of all runs since the last reset, in sparse modes.
  const FfnCounts& counts() const { return counts_; }
  void reset_counts();
  /// hits [n_layers, d_ff] are counted from now on, or no more (null). The memory stays the caller's.
  void count_hits(uint32_t* hits) { hits_ = hits; }
  /// Calibrated mode: other thresholds, [n_layers], from now on. They may be infinite.
  void set_thresholds(std::span<const float> thresholds);
  /// Calibrated mode: who is shown the values from now on; empty: nobody.
  void observe_values(ValueObserver observer) { observer_ = std::move(observer); }

 private:
  void run_dense(int layer, const float* normed, float* x, int n_tokens);
  void compute_values(const FfnNeurons& ffn, const float* normed, int n_tokens);
  void run_all_neurons(int layer, const float* normed, float* x, int n_tokens);
  void run_shared(const FfnNeurons& ffn, const float* normed, float* x, int n_tokens);
  void run_exact(int layer, const float* normed, float* x, int n_tokens);
  void run_predicted(int layer, const float* normed, float* x, int n_tokens);
  void run_calibrated(int layer, const float* normed, float* x, int n_tokens);
  void propose(int layer, const float* input, int n_tokens);
  void verify(int layer, const float* normed, int n_tokens);

  Backend& backend_;
  const ModelSpec& spec_;
  const Weights& weights_;
  NeuronLayout in_file_;
  const NeuronLayout* layout_;
  FfnMode mode_;
  FfnCounts counts_;
  uint32_t* hits_ = nullptr;
  ValueObserver observer_;

  NeuronSet wanted_, truly_active_;
  Buffer gate_, up_;  // [max_tokens, d_ff]
  Buffer hidden_;     // [max_tokens, largest predictor rank]
  Buffer logits_;     // [max_tokens, d_ff] of the predictor
};

}  // namespace hearth
