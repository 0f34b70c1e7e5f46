// Unpacks up to 256 columns of as many rows as a vector has lanes, for every type. See matmul_unpack.h.
#pragma once

#include "kernels/cpu/simd/matmul_unpack.h"
#include "kernels/cpu/simd/matmul_unpack_k.h"
#include "kernels/cpu/simd/matmul_unpack_runs.h"

namespace hearth {

/// Unpacks n_blocks blocks of every row, at most kPanelColumns columns, to a panel's quants, scales and mins.
template <class S, class Block>
[[gnu::always_inline]] inline void unpack_panel(RowBlocks rows, int n_blocks, typename S::Int* quants,
                                                typename S::Float* scale, typename S::Float* min) {
  constexpr int kGroups = Block::kElems / Block::kGroup;
  constexpr int kRun = UnpackRun<S, Block>::kBlocks;
  int b = 0;
  if constexpr (kRun > 0) {
    for (; b + kRun <= n_blocks; b += kRun, rows.offset += kRun * sizeof(Block)) {
      UnpackRun<S, Block>::run(rows, quants + b * (Block::kElems / 4), scale + b * kGroups,
                               min + b * kGroups);
    }
  }
  for (; b < n_blocks; ++b, rows.offset += sizeof(Block)) {
    Unpack<S, Block>::run(rows, quants + b * (Block::kElems / 4), scale + b * kGroups, min + b * kGroups);
  }
}

}  // namespace hearth
