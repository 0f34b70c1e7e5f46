// Implements ActivationExchange.
#include "kernels/cuda/hybrid/activation_exchange.h"

#include <algorithm>
#include <cassert>

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/flag_wait.h"

namespace hearth::cuda {

void ActivationExchange::reserve(const StepBounds& bounds, cudaStream_t stream, const Scratch& scratch) {
  const auto rows = static_cast<size_t>(bounds.max_tokens);
  const auto d_model = static_cast<size_t>(bounds.d_model > 0 ? bounds.d_model : bounds.max_cols);
  const size_t choice_words = ExpertScratch::kChoiceWords * static_cast<size_t>(bounds.n_experts_used);
  first_ = PinnedArray<float>(rows * std::max(static_cast<size_t>(bounds.n_experts), choice_words));
  second_ = PinnedArray<float>(rows * d_model);
  given_ = PinnedArray<float>(rows * d_model);
  number_ = PinnedArray<uint32_t>(1);
  *number_.data() = n_begun_ = 0;
  state_ = scratch.exchange;
  check(cudaMemsetAsync(state_, 0, HandOver::kStateWords * sizeof(uint32_t), stream),
        "clearing the count of hand-overs");
}

HandOver ActivationExchange::begin(std::span<const float> first, std::span<const float> second) {
  assert(first.size() <= first_.size() && second.size() <= second_.size());
  ++n_begun_;
  HandOver what{.parts = {}, .state = state_, .number = number_.data()};
  what.parts[0] = {first.data(), first_.data(), static_cast<int64_t>(first.size())};
  what.parts[1] = {second.data(), second_.data(), static_cast<int64_t>(second.size())};
  return what;
}

void ActivationExchange::wait(cudaStream_t stream) {
  wait_for_number(*number_.data(), n_begun_, stream, "the experts' input");
  given_is_free_ = true;
}

const float* ActivationExchange::give(const float* x, int64_t n) {
  assert(given_is_free_ && static_cast<size_t>(n) <= given_.size());
  given_is_free_ = false;
  std::copy_n(x, n, given_.data());
  return given_.data();
}

}  // namespace hearth::cuda
