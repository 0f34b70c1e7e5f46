// A view of a weight matrix, quantized or not. Views own nothing; the mapping of the model file outlives
// them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"

namespace hearth {

/// Weights [n_rows, n_cols]: row r is the row_bytes(dtype, n_cols) bytes at data + r * stride_bytes(). Rows
/// may be packed, or there may be bytes of other matrices between them (for example, the gate, up and down
/// rows of one neuron may be stored together). y = W x reads x [n_cols] and writes y [n_rows]. n_cols is a
/// multiple of dtype_info(dtype).block_elems.
struct Matrix {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  int64_t n_rows = 0;
  int64_t n_cols = 0;
  size_t row_stride = 0;  // bytes from the start of a row to the start of the next, >= row_bytes(dtype,
                          // n_cols); 0: packed

  size_t stride_bytes() const { return row_stride != 0 ? row_stride : row_bytes(dtype, n_cols); }
  /// Bytes of the rows themselves, without the bytes between them.
  size_t bytes() const { return row_bytes(dtype, n_cols) * static_cast<size_t>(n_rows); }
  const std::byte* row(int64_t r) const { return data + static_cast<size_t>(r) * stride_bytes(); }
  explicit operator bool() const { return data != nullptr; }
};

}  // namespace hearth
