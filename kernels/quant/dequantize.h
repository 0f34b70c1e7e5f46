// Converts rows of any tensor type to float32. Used for embeddings, and as the reference in tests of the
// matmul kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"

namespace hearth {

/// Writes the weights of a row of `type` at `row` (row_bytes(type, n) bytes, any alignment) to out[0..n),
/// exactly as the GGUF format defines them. REQUIRES: n >= 0, a multiple of the type's block size.
/// Thread-safe, never fails.
void dequantize_row(DType type, const std::byte* row, int64_t n, float* out);

}  // namespace hearth
