// Converts rows of any tensor type to float32. See dequantize.h; decode.cpp defines the meaning of the bits.
#include "kernels/quant/dequantize.h"

#include <cstring>

#include "kernels/quant/decode.h"
#include "kernels/quant/half.h"

namespace hearth {
namespace {

template <class Block>
void dequantize_blocks(const std::byte* row, int64_t n, float* out) {
  Decoded<Block> decoded;
  for (int64_t begin = 0; begin < n; begin += Block::kElems, row += sizeof(Block)) {
    decode_block<Block>(row, decoded);
    for (int i = 0; i < Block::kElems; ++i) {
      const int group = i / Block::kGroup;
      const float scaled = decoded.scale[group] * static_cast<float>(decoded.q[i]);
      // Types without a min skip the addition, because adding 0 would turn -0 into +0.
      out[begin + i] = Block::kHasMin ? scaled + decoded.min[group] : scaled;
    }
  }
}

template <float (*convert)(uint16_t)>
void convert_row(const std::byte* row, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t bits;
    std::memcpy(&bits, row + i * 2, sizeof bits);
    out[i] = convert(bits);
  }
}

}  // namespace

void dequantize_row(DType type, const std::byte* row, int64_t n, float* out) {
  switch (type) {
    case DType::kF32:
      if (n > 0)
        std::memcpy(out, row, static_cast<size_t>(n) * sizeof(float));  // the row of an empty matrix
                                                                        // may be null
      return;
    case DType::kF16:
      return convert_row<float_from_half>(row, n, out);
    case DType::kBF16:
      return convert_row<float_from_bfloat16>(row, n, out);
    default:
      break;
  }
  visit_block_type(type, [&]<class Block>() { dequantize_blocks<Block>(row, n, out); });
}

}  // namespace hearth
