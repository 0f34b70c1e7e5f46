// Divides the missing experts of a long step between the link and the CPU: some are copied to the device,
// which computes them, and the CPU computes the others meanwhile. Both should end at the same time.
//
// Copying an expert takes the same time for any number of tokens, while the CPU needs time for each token. So
// the CPU gets the experts with the fewest tokens. The copies begin before the router's choice is known, so a
// layer is expected to repeat the choice of its last long step. The number of tokens that the CPU computes
// while one expert is copied begins with crossover_tokens() (kernels/cuda/runtime/device_options.h). It is
// corrected after each layer, by which of the two ended first.
//
// Only times depend on the division, no result (kernels/hybrid_experts.h). Owned by CudaHybridExperts; engine
// thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/experts.h"

namespace hearth::cuda {

class ExpertDivision {
 public:
  /// copy_tokens: see DeviceOptions::stream_from_tokens. With 1 or less, the CPU gets no experts.
  explicit ExpertDivision(int copy_tokens) : first_copy_tokens_(copy_tokens), copy_tokens_(copy_tokens) {}

  /// Whether copies help in a step with this mean number of tokens per expert.
  bool copies(int64_t tokens_per_expert) const;

  /// Moves the CPU's experts from `missing` to `on_cpu`. Both are ascending. The step has n_tokens tokens
  /// with n_used of the layer's n_experts experts each.
  void divide(int layer, int n_tokens, int n_used, int n_experts, std::vector<int32_t>& missing,
              std::vector<int32_t>& on_cpu);
  /// Reports the choice of a long step.
  void chose(int layer, int n_experts, const ExpertChoice& choice);
  /// Reports which side ended last in a layer that was divided. If the CPU got nothing, the device did.
  void ended(bool cpu_was_last);

 private:
  /// A layer's last choice.
  struct Choice {
    int n_tokens = 0;
    std::vector<int32_t> tokens_of;  // [n_experts]
  };

  const double first_copy_tokens_;
  double copy_tokens_;            // tokens that the CPU computes while an expert is copied
  std::vector<Choice> last_;      // by layer
  std::vector<double> expected_;  // scratch of divide(): [n_experts]
};

}  // namespace hearth::cuda
