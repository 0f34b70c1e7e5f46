// The weight types of experts in device slots, and how their rows lie there.
//
// A slot is filled by copying, so its rows need not be laid out as in the file. All types but MXFP4 are: its
// blocks of 17 bytes lie at odd addresses, where a GPU loads single bytes. In a slot, an MXFP4 row is a
// sequence of runs of 16 blocks: 16 scale bytes, then the blocks' nibbles, 16 bytes each. The last run ends
// after its last block, so that rows are multiples of 16 bytes and take at most 16 bytes more than in the
// file. Contains no CUDA headers. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/matrix.h"

namespace hearth::cuda {

/// The most experts of a layer and of a token that the device's routing supports.
inline constexpr int kMostExperts = 1024;
inline constexpr int kMostExpertsUsed = 64;

/// Blocks of a run of an MXFP4 row in a slot; also the bytes of a block's nibbles.
inline constexpr int64_t kRunBlocks = 16;

/// Whether the kernels for experts can multiply rows of this type: device_has(), or MXFP4.
bool experts_have(DType type);

/// Bytes from the start of a row to the start of the next in a slot. REQUIRES: experts_have(type).
size_t slot_row_bytes(DType type, int64_t n_cols);

/// Whether a slot's row has the bytes of the file's row.
bool slot_rows_as_in_file(DType type);

/// The most bytes that one expert's matrix takes in a buffer through which experts are streamed: its rows as
/// in the file and, if those differ, as in a slot. 0 for a null matrix.
size_t streamed_bytes(const Matrix& matrix);

/// A view of rows at `data`, which lie as in slots.
Matrix slot_rows(const std::byte* data, DType type, int64_t n_rows, int64_t n_cols);

/// Writes rows [begin, end) of `from`, host memory, to `to` as they lie in a slot: (end - begin) *
/// slot_row_bytes() bytes.
void write_slot_rows(const Matrix& from, int64_t begin, int64_t end, std::byte* to);

}  // namespace hearth::cuda
