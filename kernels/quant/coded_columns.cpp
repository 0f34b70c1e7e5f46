// Tiles of blocks, decoded and written column by column. See the header.
#include "kernels/quant/coded_columns.h"

#include <algorithm>
#include <cstring>

#include "kernels/quant/decode.h"
#include "kernels/quant/half.h"

namespace hearth {
namespace {

// Columns turned at a time: a tile of 256 neurons times 32 codes stays in the first-level cache, and 32
// columns are a unit of the packed 4-bit codes.
constexpr int64_t kTileColumns = 32;

bool is_float(DType type) { return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16; }

int64_t padded_columns(int64_t d_model) { return (d_model + kTileColumns - 1) / kTileColumns * kTileColumns; }

/// How the columns of a type are coded.
struct Coding {
  int bits = 8;
  int offset = 0;
  int group = 32;
  bool half_scales = false;
  bool has_mins = false;
};

Coding coding_of(DType type) {
  Coding coding;
  visit_block_type(type, [&]<class Block>() {
    coding.group = Block::kGroup;
    coding.has_mins = Block::kHasMin;
    // Blocks of 32 have halves for factors; larger ones have products, which take a float to be exact.
    coding.half_scales = Block::kElems == 32;
  });
  switch (type) {
    case DType::kQ4_0:
      return coding.bits = 4, coding.offset = BlockQ4_0::kOffset, coding;
    case DType::kQ3_K:
      return coding.bits = 4, coding.offset = BlockQ3_K::kOffset, coding;
    case DType::kQ4_1:
    case DType::kQ4_K:
    case DType::kQ2_K:
      return coding.bits = 4, coding;
    default:
      return coding;
  }
}

void store_factor(std::byte* table, bool half, int64_t at, float value) {
  if (half) {
    const uint16_t bits = half_from_float(value);
    std::memcpy(table + 2 * at, &bits, 2);
  } else {
    std::memcpy(table + 4 * at, &value, 4);
  }
}

/// Codes of 32 columns of one neuron, in the order that CodedColumns says.
void store_codes(const Coding& coding, const int8_t* q, std::byte* out) {
  if (coding.bits == 8) {
    std::memcpy(out, q, kTileColumns);
    return;
  }
  for (int i = 0; i < 16; ++i) {
    const int low = q[i] + coding.offset, high = q[16 + i] + coding.offset;
    out[i] = static_cast<std::byte>(low | high << 4);
  }
}

template <class Block>
void turn_blocks(const Matrix& down, const Coding& coding, std::byte* codes, size_t stride, std::byte* scales,
                 std::byte* mins) {
  const int64_t d_model = down.n_rows, n_padded = padded_columns(d_model);
  constexpr int kGroups = Decoded<Block>::kGroups;
  Decoded<Block> block;
  int8_t tile[Block::kElems][kTileColumns];
  for (int64_t first = 0; first < down.n_cols; first += Block::kElems) {
    const size_t at_block = static_cast<size_t>(first / Block::kElems) * sizeof(Block);
    for (int64_t column = 0; column < n_padded; column += kTileColumns) {
      for (int64_t i = 0; i < kTileColumns; ++i) {
        const int64_t c = column + i;
        if (c < d_model) {
          decode_block<Block>(down.row(c) + at_block, block);
        } else {
          block = {};
        }
        for (int j = 0; j < Block::kElems; ++j) tile[j][i] = block.q[j];
        for (int g = 0; g < kGroups; ++g) {
          const int64_t at = (first / Block::kGroup + g) * n_padded + c;
          store_factor(scales, coding.half_scales, at, block.scale[g]);
          if (mins != nullptr) store_factor(mins, coding.half_scales, at, block.min[g]);
        }
      }
      for (int j = 0; j < Block::kElems; ++j) {
        std::byte* row = codes + static_cast<size_t>(first + j) * stride;
        store_codes(coding, tile[j], row + column * coding.bits / 8);
      }
    }
  }
}

/// Elements of `bytes` bytes, transposed.
void turn_elements(const Matrix& down, size_t bytes, std::byte* codes, size_t stride) {
  for (int64_t first = 0; first < down.n_cols; first += kTileColumns) {
    const int64_t end = std::min(down.n_cols, first + kTileColumns);
    for (int64_t c = 0; c < down.n_rows; ++c) {
      const std::byte* row = down.row(c);
      for (int64_t j = first; j < end; ++j) {
        std::memcpy(codes + static_cast<size_t>(j) * stride + static_cast<size_t>(c) * bytes,
                    row + static_cast<size_t>(j) * bytes, bytes);
      }
    }
  }
}

}  // namespace

size_t column_codes_bytes(DType source, int64_t d_model) {
  if (is_float(source)) return row_bytes(source, d_model);
  return static_cast<size_t>(padded_columns(d_model) * coding_of(source).bits / 8);
}

size_t column_scales_bytes(const Matrix& down) {
  if (is_float(down.dtype)) return 0;
  const Coding coding = coding_of(down.dtype);
  const size_t table = static_cast<size_t>(down.n_cols / coding.group * padded_columns(down.n_rows)) *
                       (coding.half_scales ? 2 : 4);
  return coding.has_mins ? 2 * table : table;
}

DownColumns turn_down_projection(const Matrix& down, const float* bias, std::byte* codes, size_t stride,
                                 std::byte* scales) {
  DownColumns out{.rows = {}, .coded = {}, .n_neurons = down.n_cols, .n_cols = down.n_rows, .bias = bias};
  if (is_float(down.dtype)) {
    out.rows = {.data = codes,
                .dtype = down.dtype,
                .n_rows = down.n_cols,
                .n_cols = down.n_rows,
                .row_stride = stride};
    turn_elements(down, row_bytes(down.dtype, 1), codes, stride);
    return out;
  }
  const Coding coding = coding_of(down.dtype);
  std::byte* mins = coding.has_mins ? scales + column_scales_bytes(down) / 2 : nullptr;
  out.coded = {.codes = codes,
               .stride = stride,
               .bits = coding.bits,
               .offset = coding.offset,
               .group = coding.group,
               .half_scales = coding.half_scales,
               .scales = scales,
               .mins = mins,
               .n_cols_padded = padded_columns(down.n_rows)};
  visit_block_type(down.dtype,
                   [&]<class Block>() { turn_blocks<Block>(down, coding, codes, stride, scales, mins); });
  return out;
}

}  // namespace hearth
