// Quantizes rows of float32 to the float types and the simple block types: the inverse of dequantize.h.
//
// Rounds to nearest by ggml's reference formulas, bit for bit as its tools do. The K- and IQ-types are not
// supported, because they need a search for good scales. Used when model files are made, not while a model
// runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"

namespace hearth {

/// Whether quantize_row supports `type`: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, MXFP4.
bool can_quantize(DType type);

/// Writes the row of `type` (row_bytes(type, n) bytes, any alignment) that is nearest to x[0..n). REQUIRES:
/// can_quantize(type); n >= 0 and a multiple of the type's block size; finite values whose scale fits a half
/// (for MXFP4: values below 2^127). Thread-safe, never fails.
void quantize_row(DType type, const float* x, int64_t n, std::byte* row);

}  // namespace hearth
