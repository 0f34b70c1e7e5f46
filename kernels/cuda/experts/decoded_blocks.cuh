// Unpacks spans of 32 weights, like matmul/blocks.cuh, of the types that the CPU decodes block by block
// (kDecodedFirst). Only experts have these types on a device. kernels/quant/decode.cpp and decode_grids.cpp
// define them.
//
// Rows have the file's layout: their blocks are small, and begin at even addresses.
#pragma once

#include "kernels/cuda/matmul/blocks.cuh"

namespace hearth::cuda {

// Returns half the value of an unsigned float with 4 bits of exponent and 3 of fraction, as
// half_of_ue4m3() in decode.cpp does. In the place of a float's exponent and fraction, the bits stand for the
// value times 2^-120, which is a subnormal float if the exponent is 0.
__device__ __forceinline__ float half_of_ue4m3(unsigned bits) {
  const float value = __fmul_rn(__uint_as_float((bits & 0x7fu) << 20), 0x1p119f);
  return bits == 0x7fu ? 0.0f : value;
}

template <int kAlign>
__device__ __forceinline__ void load_span(const uint8_t* row, int s, Span<BlockNVFP4>& out) {
  const uint8_t* block = row + s / 2 * sizeof(BlockNVFP4);
  const int half = s % 2;  // groups 2 * half and 2 * half + 1
  unsigned packed[4], words[8];
  const unsigned factors = load_half_word(block + offsetof(BlockNVFP4, d) + 2 * half);
  load_words<kAlign, 4>(block + offsetof(BlockNVFP4, qs) + 16 * half, packed);
  look_up_nibbles<kFloat4Values>(packed, words);
  GPU_UNROLL
  for (int i = 0; i < 2; ++i) {
    GPU_UNROLL
    for (int j = 0; j < 2; ++j) {
      out.words[4 * i + j] = words[2 * i + j];          // low nibbles
      out.words[4 * i + 2 + j] = words[4 + 2 * i + j];  // high nibbles
    }
  }
  out.scale[0] = half_of_ue4m3(factors & 0xffu);
  out.scale[1] = half_of_ue4m3(factors >> 8);
}

}  // namespace hearth::cuda
