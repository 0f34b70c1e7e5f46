// Lists and sets of neurons in device memory, for tests.
#pragma once

#include "kernels/cuda/ops/ops.h"
#include "tests/kernels/cuda/device_array.h"

namespace hearth::test {

/// A list with room for max neurons, whose length is on the device.
struct ListOnDevice {
  explicit ListOnDevice(int64_t max) : ids(static_cast<size_t>(max)), n(1) {}
  explicit ListOnDevice(const std::vector<int32_t>& list, int64_t max) : ListOnDevice(max) {
    const auto count = static_cast<int32_t>(list.size());
    cuda::check(cudaMemcpy(n.data(), &count, sizeof count, cudaMemcpyHostToDevice), "copying");
    if (count > 0) {
      cuda::check(cudaMemcpy(ids.data(), list.data(), list.size() * sizeof(int32_t), cudaMemcpyHostToDevice),
                  "copying");
    }
  }
  cuda::DeviceList view() const { return {ids.data(), n.data(), static_cast<int64_t>(ids.size())}; }
  /// Reads the list after the stream's work.
  std::vector<int32_t> read(const TestStream& stream) const {
    std::vector<int32_t> list = ids.read(stream);
    list.resize(static_cast<size_t>(n.read(stream)[0]));
    return list;
  }
  DeviceArray<int32_t> ids, n;
};

/// A set that is empty or a copy of the host's.
struct DeviceSet {
  DeviceSet(int n_tokens, int64_t n_neurons)
      : wanted(static_cast<size_t>(n_tokens * ((n_neurons + 63) / 64))),
        any_bits(static_cast<size_t>((n_neurons + 63) / 64)),
        any(n_neurons),
        tokens(n_tokens),
        neurons(n_neurons) {}
  explicit DeviceSet(const NeuronSet& set)
      : wanted(std::vector<uint64_t>(set.wanted(0), set.wanted(set.n_tokens()))),
        any_bits(any_of(set)),
        any({set.ids().begin(), set.ids().end()}, set.n_neurons()),
        tokens(set.n_tokens()),
        neurons(set.n_neurons()) {}
  cuda::DeviceNeuronSet view() const { return {wanted.data(), any_bits.data(), any.view(), tokens, neurons}; }
  /// Returns the bits of the neurons that at least one token wants.
  static std::vector<uint64_t> any_of(const NeuronSet& set) {
    std::vector<uint64_t> bits(set.words());
    for (int t = 0; t < set.n_tokens(); ++t) {
      for (size_t w = 0; w < set.words(); ++w) bits[w] |= set.wanted(t)[w];
    }
    return bits;
  }
  DeviceArray<uint64_t> wanted, any_bits;
  ListOnDevice any;
  int tokens;
  int64_t neurons;
};

}  // namespace hearth::test
