// Implements the layout of experts' rows in slots.
#include "kernels/cuda/ops/expert_types.h"

#include <algorithm>
#include <cstring>

#include "kernels/memory.h"
#include "kernels/quant/formats.h"

namespace hearth::cuda {
namespace {

constexpr size_t kNibbles = sizeof(BlockMXFP4::qs);
static_assert(kRunBlocks == kNibbles);

/// Writes one MXFP4 row in the layout of slots. The scales of blocks beyond the last one are 0.
void write_runs(const std::byte* row, int64_t n_blocks, std::byte* to) {
  for (int64_t begin = 0; begin < n_blocks; begin += kRunBlocks) {
    const int64_t n = std::min(kRunBlocks, n_blocks - begin);
    std::fill_n(to, kRunBlocks, std::byte{0});
    std::byte* nibbles = to + kRunBlocks;
    for (int64_t i = 0; i < n; ++i, row += sizeof(BlockMXFP4), nibbles += kNibbles) {
      to[i] = row[offsetof(BlockMXFP4, e)];
      std::memcpy(nibbles, row + offsetof(BlockMXFP4, qs), kNibbles);
    }
    to = nibbles;
  }
}

}  // namespace

bool slot_rows_as_in_file(DType type) { return type != DType::kMXFP4; }

size_t slot_row_bytes(DType type, int64_t n_cols) {
  if (slot_rows_as_in_file(type)) return row_bytes(type, n_cols);
  const int64_t n_blocks = n_cols / BlockMXFP4::kElems;
  return static_cast<size_t>((n_blocks + kRunBlocks - 1) / kRunBlocks + n_blocks) * kNibbles;
}

size_t streamed_bytes(const Matrix& matrix) {
  if (!matrix) return 0;
  if (slot_rows_as_in_file(matrix.dtype)) return matrix.bytes();
  const size_t in_slot = static_cast<size_t>(matrix.n_rows) * slot_row_bytes(matrix.dtype, matrix.n_cols);
  return matrix.bytes() + piece_bytes(in_slot) + kPieceBytes;
}

Matrix slot_rows(const std::byte* data, DType type, int64_t n_rows, int64_t n_cols) {
  return {data, type, n_rows, n_cols, slot_row_bytes(type, n_cols)};
}

void write_slot_rows(const Matrix& from, int64_t begin, int64_t end, std::byte* to) {
  const size_t bytes = slot_row_bytes(from.dtype, from.n_cols);
  for (int64_t row = begin; row < end; ++row, to += bytes) {
    if (slot_rows_as_in_file(from.dtype)) {
      std::memcpy(to, from.row(row), bytes);
    } else {
      write_runs(from.row(row), from.n_cols / BlockMXFP4::kElems, to);
    }
  }
}

}  // namespace hearth::cuda
