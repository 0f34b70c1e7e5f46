#include "kernels/cuda/hybrid/cold_share.h"

#include <algorithm>
#include <cassert>
#include <chrono>

#include "kernels/base/virtual_time.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/flag_wait.h"

namespace hearth::cuda {

void ColdShare::reserve(const StepBounds& bounds, cudaStream_t stream, const Scratch& scratch) {
  const auto rows = static_cast<size_t>(bounds.max_tokens), cols = static_cast<size_t>(bounds.max_cols);
  const size_t sum_cols = bounds.d_model > 0 ? static_cast<size_t>(bounds.d_model) : cols;
  const size_t words = (cols + 63) / 64;
  wanted_ = PinnedArray<uint64_t>(rows * words);
  set_.reserve_around(wanted_.data(), bounds.max_cols);
  any_ = PinnedArray<uint64_t>(2 * words);
  x_ = PinnedArray<float>(rows * sum_cols);
  if (bounds.shares_gates) gates_ = PinnedArray<float>(rows * cols);
  sums_ = PinnedArray<int64_t>(rows * sum_cols);
  poison_ = PinnedArray<int32_t>(rows);
  has_sums_ = PinnedArray<int32_t>(1);
  number_ = PinnedArray<uint32_t>(1);
  *number_.data() = n_begun_ = 0;
  check(cudaMemsetAsync(scratch.hand_over, 0, HandOver::kStateWords * sizeof(uint32_t), stream),
        "clearing the count of hand-overs");
}

HandOver ColdShare::begin(const Layer& layer, const Scratch& scratch) {
  assert(layer.gates == nullptr || gates_.data() != nullptr);
  layer_ = layer;
  words_ = static_cast<size_t>((layer.n_neurons + 63) / 64);
  ++n_begun_;
  HandOver what{.parts = {}, .state = scratch.hand_over, .number = number_.data()};
  int n_parts = 0;
  const auto add = [&](const auto* from, const auto& to, int64_t n) {
    what.parts[n_parts++] = {from, to.data(), n * static_cast<int64_t>(sizeof(*from)) / 4};
  };
  add(layer.x, x_, layer.n_tokens * layer.n_cols);
  if (layer.gates != nullptr) add(layer.gates, gates_, layer.n_tokens * layer.n_neurons);
  return what;
}

void ColdShare::wait(cudaStream_t stream) const {
  wait_for_number(*number_.data(), n_begun_, stream, "the CPU's share of the neurons");
}

double ColdShare::compute(const FfnNeurons& host, NeuronCounts& counts) {
  const auto begin = HostClock::now();
  set_.resize(layer_.n_tokens, layer_.n_neurons);
  set_.collect();
  *has_sums_.data() = set_.ids().empty() ? 0 : 1;
  if (set_.ids().empty()) return 0;
  std::fill_n(sums_.data(), layer_.n_tokens * layer_.n_cols, 0);
  std::fill_n(poison_.data(), layer_.n_tokens, 0);
  const int64_t rows_before = counts.down_rows;
  if (layer_.least_contribution) {
    host_.contribution_sums(host, x_.data(), layer_.n_tokens, set_, *layer_.least_contribution, sums().sums,
                            counts);
  } else {
    host_.ffn_neuron_sums(host, x_.data(), layer_.n_tokens, set_,
                          layer_.gates != nullptr ? gates_.data() : nullptr, sums().sums, counts);
  }
  counts.cold_down_rows += counts.down_rows - rows_before;
  return std::chrono::duration<double>(HostClock::now() - begin).count();
}

}  // namespace hearth::cuda
