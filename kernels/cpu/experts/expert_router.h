// Chooses experts on the CPU: computes each token's experts and their weights from a router's logits.
//
// Tokens are independent, so threads compute them separately. kernels/experts.h (Router) defines the
// computation for one token. Owned by CpuBackend; called by the engine thread.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/isa/vector_kernels.h"
#include "kernels/cpu/threads/thread_pool.h"
#include "kernels/experts.h"

namespace hearth {

class ExpertRouter {
 public:
  ExpertRouter(ThreadPool& pool, const VectorKernels& vector) : pool_(pool), vector_(vector) {}

  /// Allocates memory for at most max_tokens tokens of a step, n_experts experts of a layer, and n_used
  /// experts of a token.
  void reserve(int max_tokens, int n_experts, int n_used);

  /// Implements Backend::route().
  ExpertChoice route(const float* logits, int n_tokens, const Router& router);

 private:
  /// The scratch of one thread while it chooses one token's experts.
  struct Scratch {
    std::vector<float> scores;        // [n_experts]
    std::vector<float> preferences;   // [n_experts] score plus bias, by which experts are chosen
    std::vector<float> best_scores;   // [n_experts] scores of the chosen experts or groups
    std::vector<int32_t> groups;      // [n_experts] the chosen groups
    std::vector<uint8_t> group_used;  // [n_experts]
  };

  void route_token(const float* logits, const Router& router, Scratch& scratch, int32_t* experts,
                   float* weights);
  void choose_groups(const Router& router, Scratch& scratch);
  void weigh(const Router& router, const float* scores, const int32_t* experts, float* weights);

  ThreadPool& pool_;
  const VectorKernels& vector_;
  std::vector<Scratch> scratch_;  // per thread
  std::vector<int32_t> experts_;  // [max_tokens, n_used]
  std::vector<float> weights_;    // [max_tokens, n_used]
};

}  // namespace hearth
