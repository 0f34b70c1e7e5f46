// Compares the output of an operation that quantizes while it writes with the output of quantize().
#pragma once

#include <cstring>
#include <vector>

#include "kernels/cuda/ops/ops.h"
#include "tests/kernels/cuda/device_array.h"

namespace hearth::test {

/// Room for n quantized floats.
class QuantizedOutput {
 public:
  explicit QuantizedOutput(int64_t n)
      : n_(n), memory_(std::vector<std::byte>(cuda::quantized_bytes(1, n), std::byte{0x5a})) {}
  cuda::QuantizedActivations view() const { return cuda::quantized_in(memory_.data(), 1, n_); }
  /// Returns whether the contents equal the output of quantize() for x [n], bit for bit.
  bool is_of(const float* x, const TestStream& stream) const {
    const QuantizedOutput alone(n_);
    cuda::quantize(x, 1, n_, alone.view(), stream);
    return memory_.read(stream) == alone.memory_.read(stream);
  }

 private:
  int64_t n_;
  DeviceArray<std::byte> memory_;
};

}  // namespace hearth::test
