// Dequantizes rows of every quantized type. The lanes of a warp unpack 32 spans, one each, and exchange them
// through shared memory, so that neighboring lanes write neighboring columns.
#pragma once

#include "kernels/cuda/matmul/blocks.cuh"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

// The unpacked spans of a warp, and their factors. The odd row lengths avoid bank conflicts in reads and
// writes.
struct UnpackedSpans {
  unsigned words[32][9];
  float scale[32][3];
  float min[32][3];
};

// Dequantizes up to 32 spans of a row, beginning with span 32 * warp, where `warp` is the number of the
// calling warp within the row. Calls write(column, values) for every four columns, where `column` is the
// first of them. All lanes of the warp must call this.
template <class Block, int kAlign, class Write>
__device__ __forceinline__ void dequantize_spans(const uint8_t* row, int64_t n_cols, int64_t warp,
                                                 UnpackedSpans& spans, Write&& write) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t begin = warp * 32, end = n_cols / kSpan;
  const int n = static_cast<int>(begin >= end ? 0 : min(int64_t{32}, end - begin));
  if (lane < n) {
    Span<Block> span;
    load_span<kAlign>(row, static_cast<int>(begin) + lane, span);
    GPU_UNROLL
    for (int k = 0; k < 8; ++k) spans.words[lane][k] = span.words[k];
    GPU_UNROLL
    for (int g = 0; g < Span<Block>::kGroups; ++g) {
      spans.scale[lane][g] = span.scale[g];
      if constexpr (Block::kHasMin) spans.min[lane][g] = span.min[g];
    }
  }
  __syncwarp();
  for (int i = lane; i < 8 * n; i += 32) {
    const int s = i / 8, k = i % 8, group = 4 * k / Block::kGroup;
    const unsigned word = spans.words[s][k];
    float values[4];
    GPU_UNROLL
    for (int b = 0; b < 4; ++b) {
      const int q = static_cast<int8_t>((word >> (8 * b)) & 0xffu) - kStoredOffset<Block>;
      values[b] = __fmul_rn(spans.scale[s][group], __int2float_rn(q));
      // Types without mins must not add a min of 0, because that would turn -0 into +0.
      if constexpr (Block::kHasMin) values[b] = __fadd_rn(values[b], spans.min[s][group]);
    }
    write((begin + s) * kSpan + 4 * k, float4{values[0], values[1], values[2], values[3]});
  }
}

}  // namespace hearth::cuda
