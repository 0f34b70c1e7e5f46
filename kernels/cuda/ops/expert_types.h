// The layout of experts' rows in device slots. Experts may have any weight type.
//
// A slot is filled by copying, so the layout of rows in a slot may differ from the layout in the file. Only
// MXFP4 rows differ: in the file, their blocks of 17 bytes begin at odd addresses, where a GPU can only load
// single bytes. In a slot, an MXFP4 row is a sequence of runs of 16 blocks. A run has 16 scale bytes, then
// the nibbles of the blocks, 16 bytes each. The last run ends after the last block of the row, so a row takes
// a multiple of 16 bytes, and at most 16 bytes more than in the file. Contains no CUDA headers. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/matrix.h"

namespace hearth::cuda {

/// The maximum numbers of experts per layer and per token that the device's routing supports.
inline constexpr int kMostExperts = 1024;
inline constexpr int kMostExpertsUsed = 64;

/// The number of blocks per run of an MXFP4 row in a slot. It is also the number of nibble bytes per block.
inline constexpr int64_t kRunBlocks = 16;

/// The number of bytes from the start of a row to the start of the next row in a slot.
size_t slot_row_bytes(DType type, int64_t n_cols);

/// Whether rows of this type have the same bytes in a slot as in the file.
bool slot_rows_as_in_file(DType type);

/// The maximum number of bytes that one expert's matrix takes in the buffer through which experts are
/// streamed: its rows in the file's layout and, if slots use another layout, also its rows in that layout. 0
/// for a null matrix.
size_t streamed_bytes(const Matrix& matrix);

/// Returns a view of rows at `data`, which have the layout of slots.
Matrix slot_rows(const std::byte* data, DType type, int64_t n_rows, int64_t n_cols);

/// Writes rows [begin, end) of `from`, which is in host memory, to `to` in the layout of slots: (end - begin)
/// * slot_row_bytes() bytes.
void write_slot_rows(const Matrix& from, int64_t begin, int64_t end, std::byte* to);

}  // namespace hearth::cuda
