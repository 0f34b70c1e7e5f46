// Computes products on the device for tests, from host vectors to host vectors.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cuda/ops/ops.h"
#include "tests/kernels/cuda/device_array.h"

namespace hearth::test {

/// Activations quantized on the device.
class DeviceActivations {
 public:
  DeviceActivations(const std::vector<float>& x, int n_tokens, int64_t n_cols, const TestStream& stream)
      : x_(x),
        memory_(cuda::quantized_bytes(n_tokens, n_cols)),
        quantized_(cuda::quantized_in(memory_.data(), n_tokens, n_cols)) {
    cuda::quantize(x_.data(), n_tokens, n_cols, quantized_, stream);
  }
  const cuda::QuantizedActivations& quantized() const { return quantized_; }
  const float* x() const { return x_.data(); }
  const std::byte* memory() const { return memory_.data(); }
  std::vector<std::byte> read(const TestStream& stream) const { return memory_.read(stream); }

 private:
  DeviceArray<float> x_;
  DeviceArray<std::byte> memory_;
  cuda::QuantizedActivations quantized_;
};

/// A copy of a host matrix on the device, from the beginning of the first row to the end of the last. Its
/// address is `offset` bytes above a multiple of 256.
class DeviceMatrix {
 public:
  explicit DeviceMatrix(const Matrix& weight, size_t offset = 0)
      : bytes_(bytes(weight, offset)), view_(weight) {
    view_.data = bytes_.data() + offset;
  }
  const Matrix& view() const { return view_; }

 private:
  static std::vector<std::byte> bytes(const Matrix& weight, size_t offset) {
    std::vector<std::byte> all(offset);
    if (weight.n_rows == 0) return all;
    const std::byte* end = weight.row(weight.n_rows - 1) + row_bytes(weight.dtype, weight.n_cols);
    all.insert(all.end(), weight.data, end);
    return all;
  }
  DeviceArray<std::byte> bytes_;
  Matrix view_;
};

/// A list on the device with room for more than it holds.
class DeviceRows {
 public:
  DeviceRows(const std::vector<int32_t>& ids, int64_t max)
      : ids_(with_room(ids, max)), n_(std::vector<int32_t>{static_cast<int32_t>(ids.size())}), max_(max) {}
  cuda::DeviceList list() const { return {ids_.data(), n_.data(), max_}; }

 private:
  // Appends entries that must not be read as rows.
  static std::vector<int32_t> with_room(std::vector<int32_t> ids, int64_t max) {
    ids.resize(static_cast<size_t>(max), 1 << 30);
    return ids;
  }
  DeviceArray<int32_t> ids_, n_;
  int64_t max_;
};

/// Options of a product besides its matrix and activations.
struct ProductOptions {
  std::optional<std::vector<int32_t>> rows = {};
  int64_t list_max = 0;  // the list's capacity in rows
  const std::vector<float>* bias = nullptr;
  // out [n_tokens, stride] to add to; otherwise out begins as -7
  const std::vector<float>* residual = nullptr;
  int64_t stride = 0;  // row length of out; 0: the number of rows
  size_t offset = 0;   // the matrix's offset, see DeviceMatrix
};

/// Returns out [n_tokens, stride] after the device's product.
inline std::vector<float> device_product(const TestStream& stream, const Matrix& weight,
                                         const std::vector<float>& x, int n_tokens,
                                         const ProductOptions& options = {}) {
  const DeviceMatrix matrix(weight, options.offset);
  const DeviceActivations activations(x, n_tokens,
                                      uses_quantized_activations(weight.dtype) ? weight.n_cols : 0, stream);
  const DeviceArray<float> bias(options.bias != nullptr ? *options.bias : std::vector<float>());
  const DeviceRows rows(options.rows.value_or(std::vector<int32_t>()), options.list_max);
  cuda::MatmulOp op;
  op.out_stride = options.stride != 0 ? options.stride : weight.n_rows;
  const std::vector<float> before(static_cast<size_t>(n_tokens * op.out_stride), -7.0f);
  const DeviceArray<float> out(options.residual != nullptr ? *options.residual : before);
  op.weight = matrix.view();
  if (options.bias != nullptr) op.bias = bias.data();
  if (options.rows) op.rows = rows.list();
  op.x = activations.x();
  op.quantized = activations.quantized();
  op.n_tokens = n_tokens;
  op.out = out.data();
  op.accumulate = options.residual != nullptr;
  cuda::matmul(op, stream);
  return out.read(stream);
}

}  // namespace hearth::test
