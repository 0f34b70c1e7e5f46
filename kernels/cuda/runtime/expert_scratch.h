// Device memory for the experts that a device computes in a step: the choice of experts, the ExpertGroups,
// and the arrays of intermediate results, which have one row for each pair of a token and one of its experts.
//
// Part of Scratch. Sized for StepBounds::max_expert_tokens tokens.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/ops/expert_ops.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/arena.h"

namespace hearth::cuda {

struct ExpertScratch {
  ExpertScratch() = default;
  ExpertScratch(Arena& arena, const StepBounds& bounds) {
    const auto pairs =
        static_cast<size_t>(bounds.max_expert_tokens) * static_cast<size_t>(bounds.n_experts_used);
    const size_t d_model = static_cast<size_t>(bounds.d_model > 0 ? bounds.d_model : bounds.max_cols);
    const auto hidden_cols = static_cast<size_t>(bounds.expert_cols);
    choice = arena.take<int32_t>(kChoiceWords * pairs);
    groups = arena.take<std::byte>(expert_groups_bytes(bounds.max_expert_tokens, bounds.n_experts_used));
    for (float** array : {&hidden, &ups}) *array = arena.take<float>(pairs * hidden_cols);
    quantized_hidden =
        arena.take<std::byte>(quantized_bytes(static_cast<int>(pairs), bounds.expert_cols / 32 * 32));
    rows = arena.take<float>(pairs * d_model);
    n_active = arena.take<int32_t>(pairs);
    numbers = arena.take<int32_t>(static_cast<size_t>(bounds.n_experts));
  }

  /// Returns the arrays for the choice of a step. Experts, weights and slots follow each other in `choice`.
  DeviceChoice choice_of(int n_tokens, int n_used) const {
    const auto n = static_cast<ptrdiff_t>(n_tokens) * n_used;
    return {.n_tokens = n_tokens,
            .n_used = n_used,
            .experts = choice,
            .weights = reinterpret_cast<float*>(choice + n),
            .slots = choice + 2 * n};
  }
  static constexpr size_t kChoiceWords = 3;  // of a pair

  int32_t* choice = nullptr;
  std::byte *groups = nullptr, *quantized_hidden = nullptr;
  float *hidden = nullptr, *ups = nullptr;  // [n_pairs, expert_cols]
  float* rows = nullptr;                    // [n_pairs, d_model]
  int32_t* n_active = nullptr;              // [n_pairs] ActiveOfRows::n, if zeros are skipped
  // [n_experts] output of number_experts() for a layer whose missing experts are streamed
  int32_t* numbers = nullptr;
};

}  // namespace hearth::cuda
