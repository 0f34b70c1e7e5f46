// A panel: as many weight rows as a vector has lanes, unpacked to bytes for a stretch of 256 columns.
//
// Why: with one row per lane an integer dot product needs no horizontal sum, one multiply-add scales the
// groups of all rows at once, and each row's float sum runs over the groups in one order, whatever the number
// of tokens. What the formats differ in ends here; the multiplying loop (matmul_quantized.h) sees only bytes,
// scales and mins.
//
// This and the other headers of kernels/cpu/simd are templates over a Simd class, which the unit of each ISA
// defines in an anonymous namespace. So all their instantiations are local to that unit, and no code compiled
// for one ISA can be linked in place of another's. For the same reason nothing here calls an ordinary inline
// function of the project.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hearth {

/// Columns unpacked at a time: one K-quant block, or 8 blocks of 32. Keeps a panel (5 to 6 KB) in the L1
/// cache.
inline constexpr int kPanelColumns = 256;

template <class Simd>
struct alignas(64) Panel {
  // [column / 4], lane = row, byte = column % 4; unsigned: Block::kOffset above the true weight
  typename Simd::Int quants[kPanelColumns / 4];
  typename Simd::Float scale[kPanelColumns / 16];  // [group], lane = row
  typename Simd::Float min[kPanelColumns / 16];
};

/// The weight row whose products go to place i of the output.
template <class Args>
[[gnu::always_inline]] inline int64_t row_at(const Args& args, int64_t i) {
  return args.rows != nullptr ? args.rows[i] : i;
}

/// Bytes from one row of the weight to the next, if its rows have `row_bytes`.
template <class Weight>
[[gnu::always_inline]] inline size_t row_stride(const Weight& weight, size_t row_bytes) {
  return weight.row_stride != 0 ? weight.row_stride : row_bytes;
}

/// The blocks to unpack, one per lane: lane r's starts at row[r] + offset.
struct RowBlocks {
  const std::byte* const* row;
  size_t offset;
};

}  // namespace hearth
