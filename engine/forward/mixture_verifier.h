// Checks that a device and the CPU together compute mixtures of experts with results bit-identical to those
// of the CPU alone, as kernels/hybrid_experts.h promises. A defective card, driver or build breaks this
// promise, and so does damaged device memory.
//
// In a sample of the steps, MixturePass computes each layer with resident experts a second time, on the CPU
// alone and from the same inputs. This class samples the steps, copies the inputs and compares the results.
// ModelRuntime owns it if LoadOptions::verify is set. Engine thread. The constructor allocates all memory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/forward/layer_call.h"
#include "engine/model/model_spec.h"
#include "engine/step/model_figures.h"

namespace hearth {

class MixtureVerifier {
 public:
  /// One of this many steps is verified. The CPU computes a verified step's experts without the device's
  /// help, and the step is not played back from a recording, so it takes longer.
  static constexpr int kStepsApart = 64;
  /// In a step, at most this many tokens are verified, from the first one on. A mixture computes each token
  /// by itself, and the CPU would need seconds for all tokens of a long prompt.
  static constexpr int kMaxTokens = 16;

  /// The inputs of a layer's mixture, in host memory. Valid until the next copy_inputs().
  struct Inputs {
    const float* x = nullptr;       // [n_tokens, d_model]
    const float* logits = nullptr;  // [n_tokens, n_experts] of the router
    int n_tokens = 0;
  };

  /// max_tokens: the maximum number of tokens in a step. warn: gets one sentence about the first mismatch;
  /// may be empty. Throws std::bad_alloc.
  MixtureVerifier(const ModelSpec& spec, int max_tokens, std::function<void(const std::string&)> warn);

  /// Begins a step. Returns whether the step is verified: the first comparable step, and after each verified
  /// step the first comparable one that is at least kStepsApart steps later. comparable: whether the step
  /// promises the CPU's bits.
  bool begin_step(bool comparable);
  /// Whether the current step is verified.
  bool verifies_step() const { return verifies_; }

  /// Copies the inputs of a layer's mixture, and call.out, to host memory. Waits for the device. Call it
  /// after all other work that changes call.out, and before the mixture is added to it. logits [n_tokens,
  /// n_experts] are in the memory of the call's backend.
  void copy_inputs(const LayerCall& call, const float* logits);
  Inputs inputs() const { return {.x = x_.data(), .logits = logits_.data(), .n_tokens = n_tokens_}; }

  /// Compares call.out with the copied call.out plus `mixture`, the CPU's own result [n_tokens, d_model].
  /// Waits for the device. Counts the layer, and warns about the first mismatch. Two NaNs are equal.
  void compare(const LayerCall& call, const float* mixture);

  const VerificationTotals& totals() const { return totals_; }

 private:
  struct Difference;
  void warn_about(int layer, const Difference& difference) const;

  const ModelSpec& spec_;
  std::function<void(const std::string&)> warn_;
  bool verifies_ = false;
  int steps_left_ = 0;  // until the next verified step
  int n_tokens_ = 0;    // of the current layer that are verified
  // [kMaxTokens, d_model | n_experts | d_model]; `before_` is call.out without the mixture.
  std::vector<float> x_, logits_, before_;
  VerificationTotals totals_;
};

}  // namespace hearth
