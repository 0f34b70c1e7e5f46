// A panel: one weight row per lane of a vector, unpacked to bytes for 256 columns.
//
// With one row per lane, an integer dot product needs no horizontal sum. One vector multiply-add scales the
// sums of one weight group of all rows. Each row's float sum runs over the groups in the same order for any
// number of tokens. Only the code that fills a panel depends on the format of the weights. The loop that
// multiplies (matmul_quantized.h) reads only bytes, scales and mins.
//
// This and the other headers of kernels/cpu/simd are templates over a Simd class, which the source file of
// each ISA defines in an anonymous namespace. So all their instantiations are local to that file, and the
// linker cannot use code compiled for one ISA in place of another ISA's. For the same reason, nothing here
// calls an ordinary inline function of the project.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa/activation_row.h"

namespace hearth {

/// Columns unpacked at a time: one K-quant block, or 8 blocks of 32. A panel of this many columns (5 to 6 KB)
/// stays in the L1 cache.
inline constexpr int kPanelColumns = 256;

template <class Simd>
struct alignas(64) Panel {
  // [column / 4], lane = row, byte = column % 4. The bytes are unsigned: the true weight plus Block::kOffset
  typename Simd::Int quants[kPanelColumns / 4];
  typename Simd::Float scale[kPanelColumns / 16];  // [group], lane = row
  typename Simd::Float min[kPanelColumns / 16];
};

/// The bytes that the quants of a span take. Each quant takes S::kQuantBytes: 2 bytes for activations of 15
/// bits, 1 byte for activations of 8 bits.
template <class S>
inline constexpr int kSpanBytesOf = S::kQuantBytes* kActivationSpan;

/// Returns the weight row for column i of the output.
template <class Args>
[[gnu::always_inline]] inline int64_t row_at(const Args& args, int64_t i) {
  return args.rows != nullptr ? args.rows[i] : i;
}

/// Bytes from one row of the weight to the next; row_bytes is the size of a packed row.
template <class Weight>
[[gnu::always_inline]] inline size_t row_stride(const Weight& weight, size_t row_bytes) {
  return weight.row_stride != 0 ? weight.row_stride : row_bytes;
}

/// The blocks to unpack, one per lane. The block of lane r starts at row[r] + offset.
struct RowBlocks {
  const std::byte* const* row;
  size_t offset;
};

inline constexpr int kPanelSpans = kPanelColumns / kActivationSpan;

/// Bytes of a strip: kPanelColumns columns of one row.
template <class Block>
inline constexpr size_t kStripBytes = kPanelColumns / Block::kElems * sizeof(Block);
template <class Block>
inline constexpr bool kStripIsLong = kStripBytes<Block> >= 192;

/// The distance in strips of the prefetch into the L2 cache. Hardware prefetchers do not follow so many rows,
/// and L1 is too small to keep a core from waiting for memory. Speeds on Zen 4 with only a prefetch into L1,
/// four strips ahead, and with this prefetch as well: 39 and 49 GB/s for all rows of Q8_0 with two threads;
/// 9.4 and 14.6 GB/s for 18 % of the rows of Q4_0 (4096 columns, one thread, large pages).
inline constexpr size_t kStripsAhead = 9;
/// The distance in strips of the prefetch into the L1 cache, if each lane reads a run of rows. Measured with
/// one token. On Sapphire Rapids, 2 to 4 are equally fast, 1 is too late for 8 lanes, and with 6 or more,
/// strips are evicted from the L1 cache before they are used. On Zen 5, 3 to 6 are equally fast, and 10 is
/// too many. For eight rows of long strips on Zen 5, 5 is 4 to 9 % faster than 4.
template <class S, class Block>
inline constexpr size_t kStripsAheadInRuns = kStripIsLong<Block>&& S::kLanes == 8 ? 5 : 4;

/// A strip to prefetch: kBytes bytes, starting at `offset`, of each of S::kLanes rows.
template <class S, class Block>
struct Ahead {
  static constexpr size_t kBytes = kStripBytes<Block>;
  const std::byte* const* row;
  size_t offset;
  bool to_l2;  // otherwise to L1

  /// Divides the rows into kPanelSpans groups, and prefetches the strips of group i.
  [[gnu::always_inline]] void ask(int i) const { to_l2 ? ask<2>(i) : ask<3>(i); }
  template <int locality>
  [[gnu::always_inline]] void ask(int i) const {
    constexpr int kRows = S::kLanes / kPanelSpans;
    for (int r = i * kRows; r < (i + 1) * kRows; ++r) {
      for (size_t b = 0; b < kBytes; b += 64) __builtin_prefetch(row[r] + offset + b, 0, locality);
    }
  }
};

/// The planes of several tokens' activation rows. Those of successive tokens are `stride` bytes apart.
struct ActivationPlanes {
  const std::byte* quants;
  const std::byte* scale;
  const std::byte* sum;      // sums over the columns of a weight group, float
  const std::byte* int_sum;  // the same sums as int32
  size_t stride;
};

}  // namespace hearth
