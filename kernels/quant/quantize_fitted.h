// Quantizes rows of float32 with a search for good scales. Used for types whose scales are themselves
// quantized (Q4_K, Q5_K, Q6_K), and for other types if some columns matter more than others.
//
// Unlike quantize.h, which rounds by fixed formulas, this chooses each group's scale so that the sum of
// weighted squared errors is small. A weight's error is weighted by the weight's size (root mean square of
// the group plus magnitude, as in ggml), times the importance of its column. Used when model files are made,
// not while a model runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"

namespace hearth {

/// Whether quantize_row_fitted supports `type`: Q4_0, Q4_1, Q5_0, Q5_1, MXFP4, Q4_K, Q5_K, Q6_K.
bool can_fit(DType type);

/// Writes a row of `type` (row_bytes(type, n) bytes, any alignment) that is close to x[0..n). importance [n]
/// has nonnegative weights of the columns, in any unit; if null, all columns count alike.
/// Gives equal bits on every processor. Thread-safe, never fails. REQUIRES: can_fit(type); n >= 0 and a
/// multiple of the type's block size; finite values of at most 65504 (MXFP4: less than 2^127).
void quantize_row_fitted(DType type, const float* x, const float* importance, int64_t n, std::byte* row);

/// Like quantize_row_fitted(), but always with the portable loops. Tests compare the bits of both.
void quantize_row_fitted_portable(DType type, const float* x, const float* importance, int64_t n,
                                  std::byte* row);

}  // namespace hearth
