#include "kernels/cuda/cold_share.h"

#include <algorithm>
#include <cstring>

namespace hearth::cuda {

void ColdShare::reserve(const StepBounds& bounds) {
  const auto rows = static_cast<size_t>(bounds.max_tokens), cols = static_cast<size_t>(bounds.max_cols);
  const size_t sum_cols = bounds.d_model > 0 ? static_cast<size_t>(bounds.d_model) : cols;
  const size_t words = (cols + 63) / 64;
  set_.reserve(bounds.max_tokens, bounds.max_cols);
  wanted_ = PinnedArray<uint64_t>(rows * words);
  any_ = PinnedArray<uint64_t>(2 * words);
  x_ = PinnedArray<float>(rows * sum_cols);
  gates_ = PinnedArray<float>(rows * cols);
  sums_ = PinnedArray<int64_t>(rows * sum_cols);
  poison_ = PinnedArray<int32_t>(rows);
}

void ColdShare::hand_over(const HandOver& given, cudaStream_t stream) {
  const auto words = static_cast<size_t>((given.n_neurons + 63) / 64);
  given_ = {given.n_tokens, given.n_neurons, given.n_cols, words, given.gates != nullptr};
  const auto copy = [&](auto& to, const auto* from, size_t n) {
    check(cudaMemcpyAsync(to.data(), from, n * sizeof(*from), cudaMemcpyDeviceToHost, stream),
          "giving the CPU its share of the neurons");
  };
  const auto n_tokens = static_cast<size_t>(given.n_tokens);
  copy(wanted_, given.cold_wanted, n_tokens * words);
  copy(any_, given.any, 2 * words);
  copy(x_, given.x, n_tokens * static_cast<size_t>(given.n_cols));
  if (given_.gates) copy(gates_, given.gates, n_tokens * static_cast<size_t>(given.n_neurons));
  check(cudaEventRecord(arrived_, stream), "marking the CPU's share");
}

void ColdShare::wait() { check(cudaEventSynchronize(arrived_), "waiting for the CPU's share"); }

void ColdShare::compute(const FfnNeurons& host, NeuronCounts& counts) {
  set_.clear(given_.n_tokens, given_.n_neurons);
  const size_t words = given_.words * static_cast<size_t>(given_.n_tokens);
  if (words > 0) std::memcpy(set_.wanted(0), wanted_.data(), words * sizeof(uint64_t));
  set_.collect();
  if (set_.ids().empty()) return;
  std::fill_n(sums_.data(), given_.n_tokens * given_.n_cols, 0);
  std::fill_n(poison_.data(), given_.n_tokens, 0);
  const int64_t rows_before = counts.down_rows;
  cpu_.ffn_neuron_sums(host, x_.data(), given_.n_tokens, set_, given_.gates ? gates_.data() : nullptr,
                       {sums_.data(), poison_.data()}, counts);
  counts.cold_down_rows += counts.down_rows - rows_before;
}

void ColdShare::merge(const NeuronSums& sums, const Scratch& scratch, cudaStream_t stream) {
  if (set_.ids().empty()) return;
  const auto n_tokens = static_cast<size_t>(given_.n_tokens), n_cols = static_cast<size_t>(given_.n_cols);
  const NeuronSums& on_device = scratch.cold_sums;
  check(cudaMemcpyAsync(on_device.sums, sums_.data(), n_tokens * n_cols * sizeof(int64_t),
                        cudaMemcpyHostToDevice, stream),
        "taking the CPU's sums");
  check(cudaMemcpyAsync(on_device.poison, poison_.data(), n_tokens * sizeof(int32_t), cudaMemcpyHostToDevice,
                        stream),
        "taking the CPU's sums");
  merge_sums(on_device, given_.n_tokens, given_.n_cols, sums, stream);
}

}  // namespace hearth::cuda
