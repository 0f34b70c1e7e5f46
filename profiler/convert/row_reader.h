// Reads rows of stored tensors and converts them to a type of GGUF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/dtype.h"
#include "profiler/convert/tensor_plan.h"

namespace hearth::convert {

/// Writes row `row` of the view as floats, x[0 .. view.n_cols). REQUIRES: the view is not MXFP4.
void read_row(const RowView& view, int64_t row, float* x);

/// Writes row `row` of an MXFP4 view, in GGUF's order of nibbles, to out (row_bytes(kMXFP4, n_cols) bytes).
void read_mxfp4_row(const RowView& view, int64_t row, std::byte* out);

/// Converts an FP8 number (E4M3 without infinities) to a float.
float float_from_e4m3(uint8_t bits);

}  // namespace hearth::convert
