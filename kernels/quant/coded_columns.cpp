// Transposes blocks along d_ff into codes along d_model.
//
// The loops are blocked for the cache: 128 rows of the source times 256 neurons are unpacked to bytes (32 KB,
// which stay in the first- or second-level cache), then transposed 16 x 16 at a time. So every cache line of
// the source is read once or twice, and codes are written as whole cache lines.
#include "kernels/quant/coded_columns.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <type_traits>

#include "kernels/quant/decode.h"

namespace hearth {
namespace {

constexpr int64_t kTileColumns = 128;  // 4-bit codes of this many columns fill one cache line of a neuron
constexpr int64_t kStrip = 32;

int64_t padded(int64_t n_cols) { return (n_cols + kStrip - 1) / kStrip * kStrip; }

bool is_float(DType type) { return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16; }

/// The encoding of the columns of a type.
struct Coding {
  int bits = 8;
  int offset = 0;  // CodedColumns::offset, for 4-bit codes
  int group = 32;
  bool half_scales = false;
  bool has_mins = false;
};

Coding coding_of(DType type) {
  Coding coding;
  visit_block_type(type, [&]<class Block>() {
    coding.group = Block::kGroup;
    coding.has_mins = Block::kHasMin;
    // Blocks of 32 store their factors as halves, except MXFP4. Factors of larger blocks are products, which
    // are exact only as floats.
    coding.half_scales = Block::kElems == 32 && !std::is_same_v<Block, BlockMXFP4>;
  });
  switch (type) {
    case DType::kQ4_0:
      return coding.bits = 4, coding.offset = BlockQ4_0::kOffset, coding;
    case DType::kTQ1_0:
    case DType::kTQ2_0:
      return coding.bits = 4, coding.offset = 8, coding;  // codes for -1 to 2
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

/// Bytes of all scales, or of all mins.
size_t factor_bytes(const Matrix& down, const Coding& coding) {
  return static_cast<size_t>(down.n_cols / coding.group * padded(down.n_rows)) * (coding.half_scales ? 2 : 4);
}

/// Where to write a matrix's codes, scales and mins.
struct Turned {
  Coding coding;
  std::byte* codes;
  size_t stride;
  std::byte* scales;
  std::byte* mins;  // null for types without mins
};

// A vector type of GCC and Clang with sixteen bytes. It compiles for every processor.
using Bytes [[gnu::vector_size(16)]] = uint8_t;

Bytes load_16(const int8_t* p) {
  Bytes out;
  std::memcpy(&out, p, sizeof out);
  return out;
}

/// Transposes a 16 x 16 square of bytes: out row j holds byte j of every input row.
void transpose_16(Bytes* a, std::byte* out, size_t out_stride) {
  Bytes b[16];
  // Each round interleaves row i with row i + 8; four rounds bring byte (i, j) to (j, i).
  const auto interleave = [](const Bytes* from, Bytes* to) {
    for (int i = 0; i < 8; ++i) {
      to[2 * i] = __builtin_shufflevector(from[i], from[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6,
                                          22, 7, 23);
      to[2 * i + 1] = __builtin_shufflevector(from[i], from[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13,
                                              29, 14, 30, 15, 31);
    }
  };
  interleave(a, b);
  interleave(b, a);
  interleave(a, b);
  interleave(b, a);
  for (size_t i = 0; i < 16; ++i) std::memcpy(out + i * out_stride, a + i, sizeof a[i]);
}

/// Unpacked quants of kTileColumns source rows and kTurnedNeurons neurons.
struct Tile {
  alignas(64) int8_t q[kTileColumns][kTurnedNeurons];
};

/// Unpacks the quants of neurons [begin, begin + n) in n_rows source rows, from row `column` on, to the tile,
/// and writes their scales and mins. The remaining columns of the tile get zero weights.
template <class Block>
void fill_tile(const Matrix& down, int64_t column, int64_t n_rows, int64_t begin, int64_t n, const Turned& to,
               Tile& tile) {
  const int64_t width = padded(down.n_rows);
  Decoded<Block> decoded;
  for (int64_t r = 0; r < n_rows; ++r) {
    const std::byte* at = down.row(column + r) + begin / Block::kElems * static_cast<int64_t>(sizeof(Block));
    // Prefetches the next tile of the same rows, because the hardware prefetcher does not follow so many
    // short streams.
    constexpr size_t kTileBytes = kTurnedNeurons / Block::kElems * sizeof(Block);
    for (size_t b = 0; b < kTileBytes; b += 64) __builtin_prefetch(at + kTileBytes + b);
    for (int64_t j = 0; j < n; j += Block::kElems, at += sizeof(Block)) {
      decode_block<Block>(at, decoded);
      std::memcpy(&tile.q[r][j], decoded.q, sizeof decoded.q);
      for (int g = 0; g < Block::kElems / Block::kGroup; ++g) {
        const size_t place = static_cast<size_t>(((begin + j) / Block::kGroup + g) * width + column + r);
        if (to.coding.half_scales) {
          // These blocks begin with the scale, and then the min if there is one.
          std::memcpy(to.scales + 2 * place, at, 2);
          if (to.mins != nullptr) std::memcpy(to.mins + 2 * place, at + 2, 2);
        } else {
          std::memcpy(to.scales + 4 * place, &decoded.scale[g], 4);
          if (to.mins != nullptr) std::memcpy(to.mins + 4 * place, &decoded.min[g], 4);
        }
      }
    }
  }
  for (int64_t r = n_rows; r < kTileColumns; ++r) {
    std::fill_n(tile.q[r], kTurnedNeurons, static_cast<int8_t>(-to.coding.offset));
  }
}

/// Writes a strip of 32 columns of 16 neurons as 4-bit codes.
void store_nibbles(const Tile& tile, int64_t strip, int64_t neuron, int offset, std::byte* out,
                   size_t stride) {
  const Bytes all = Bytes{} + static_cast<uint8_t>(offset);
  Bytes rows[16];
  for (int64_t k = 0; k < 16; ++k) {
    const Bytes low = load_16(&tile.q[strip * kStrip + k][neuron]) + all;
    const Bytes high = load_16(&tile.q[strip * kStrip + 16 + k][neuron]) + all;
    rows[k] = low | (high << 4);
  }
  transpose_16(rows, out + strip * 16, stride);
}

/// Like store_nibbles(), but writes 8-bit codes.
void store_bytes(const Tile& tile, int64_t strip, int64_t neuron, std::byte* out, size_t stride) {
  for (int64_t column = strip * kStrip; column < (strip + 1) * kStrip; column += 16) {
    Bytes rows[16];
    for (int64_t k = 0; k < 16; ++k) rows[k] = load_16(&tile.q[column + k][neuron]);
    transpose_16(rows, out + column, stride);
  }
}

template <class Block>
void turn_blocks(const Matrix& down, int64_t begin, int64_t end, const Turned& to) {
  Tile tile;
  for (int64_t first = begin; first < end; first += kTurnedNeurons) {
    const int64_t n = std::min(kTurnedNeurons, end - first);
    for (int64_t column = 0; column < down.n_rows; column += kTileColumns) {
      const int64_t n_rows = std::min(kTileColumns, down.n_rows - column);
      fill_tile<Block>(down, column, n_rows, first, n, to, tile);
      for (int64_t j = 0; j < n; j += 16) {
        std::byte* codes =
            to.codes + static_cast<size_t>(first + j) * to.stride + column * to.coding.bits / 8;
        for (int64_t strip = 0; strip * kStrip < n_rows; ++strip) {
          if (to.coding.bits == 4) {
            store_nibbles(tile, strip, j, to.coding.offset, codes, to.stride);
          } else {
            store_bytes(tile, strip, j, codes, to.stride);
          }
        }
      }
    }
  }
}

size_t whole_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

/// Bytes of the neurons of packed columns.
size_t packed_codes_bytes(const Matrix& down) {
  return packed_columns_stride(down) * static_cast<size_t>(down.n_cols);
}

template <class Element>
void turn_elements(const Matrix& down, int64_t begin, int64_t end, std::byte* rows, size_t stride) {
  constexpr int64_t kSide = 32;
  for (int64_t j = begin; j < end; j += kSide) {
    const int64_t j_end = std::min(end, j + kSide);
    for (int64_t c = 0; c < down.n_rows; ++c) {
      const std::byte* from = down.row(c);
      for (int64_t k = j; k < j_end; ++k) {
        std::memcpy(rows + static_cast<size_t>(k) * stride + static_cast<size_t>(c) * sizeof(Element),
                    from + static_cast<size_t>(k) * sizeof(Element), sizeof(Element));
      }
    }
  }
}

}  // namespace

size_t column_codes_bytes(DType source, int64_t d_model) {
  if (is_float(source)) return row_bytes(source, d_model);
  return static_cast<size_t>(padded(d_model) * coding_of(source).bits / 8);
}

size_t column_scales_bytes(const Matrix& down) {
  if (is_float(down.dtype)) return 0;
  const Coding coding = coding_of(down.dtype);
  return factor_bytes(down, coding) * (coding.has_mins ? 2 : 1);
}

void turn_neurons(const Matrix& down, int64_t begin, int64_t end, std::byte* codes, size_t stride,
                  std::byte* scales) {
  assert(begin % kTurnedNeurons == 0 && (end % kTurnedNeurons == 0 || end == down.n_cols));
  if (down.dtype == DType::kF32) return turn_elements<uint32_t>(down, begin, end, codes, stride);
  if (is_float(down.dtype)) return turn_elements<uint16_t>(down, begin, end, codes, stride);
  const Coding coding = coding_of(down.dtype);
  std::byte* mins = coding.has_mins ? scales + factor_bytes(down, coding) : nullptr;
  visit_block_type(down.dtype, [&]<class Block>() {
    turn_blocks<Block>(down, begin, end, {coding, codes, stride, scales, mins});
  });
}

DownColumns turned_columns(const Matrix& down, const float* bias, const std::byte* codes, size_t stride,
                           const std::byte* scales) {
  DownColumns out{.rows = {}, .coded = {}, .n_neurons = down.n_cols, .n_cols = down.n_rows, .bias = bias};
  if (is_float(down.dtype)) {
    out.rows = {.data = codes,
                .dtype = down.dtype,
                .n_rows = down.n_cols,
                .n_cols = down.n_rows,
                .row_stride = stride};
    return out;
  }
  const Coding coding = coding_of(down.dtype);
  out.coded = {.codes = codes,
               .stride = stride,
               .bits = coding.bits,
               .offset = coding.offset,
               .group = coding.group,
               .half_scales = coding.half_scales,
               .scales = scales,
               .mins = coding.has_mins ? scales + factor_bytes(down, coding) : nullptr,
               .n_cols_padded = padded(down.n_rows)};
  return out;
}

DownColumns turn_down_projection(const Matrix& down, const float* bias, std::byte* codes, size_t stride,
                                 std::byte* scales) {
  turn_neurons(down, 0, down.n_cols, codes, stride, scales);
  return turned_columns(down, bias, codes, stride, scales);
}

size_t packed_columns_stride(const Matrix& down) {
  return whole_lines(column_codes_bytes(down.dtype, down.n_rows));
}

size_t packed_columns_bytes(const Matrix& down) {
  return packed_codes_bytes(down) + whole_lines(column_scales_bytes(down));
}

void pack_columns(const Matrix& down, std::byte* to) {
  turn_neurons(down, 0, down.n_cols, to, packed_columns_stride(down), to + packed_codes_bytes(down));
}

DownColumns packed_columns(const Matrix& down, const std::byte* at) {
  return turned_columns(down, nullptr, at, packed_columns_stride(down), at + packed_codes_bytes(down));
}

}  // namespace hearth
