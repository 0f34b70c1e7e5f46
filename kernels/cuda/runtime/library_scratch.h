// Device memory in which a library multiplies prompts' tokens (matmul/cublaslt_products.h), and the sizes
// that decide how much of it there is. Scratch reserves it at load.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace hearth::cuda {

/// Tokens per call of the library. With 128, a prompt's usual step reads a matrix once, and the tensor cores
/// are busy.
inline constexpr int kLibraryTokens = 128;
/// A matrix is multiplied in pieces of at most this many rows, and at most this many bytes as f16, so that
/// scratch stays small.
inline constexpr int64_t kLibraryRows = 16384;
inline constexpr size_t kLibraryWeightsBytes = size_t{64} << 20;

/// Rows of a piece of a matrix [n_rows, n_cols], a multiple of eight, which suits tiles; the last piece may
/// have fewer.
constexpr int64_t library_piece_rows(int64_t n_rows, int64_t n_cols) {
  const auto most = static_cast<int64_t>(kLibraryWeightsBytes / sizeof(uint16_t));
  const int64_t by_bytes = most / std::max<int64_t>(n_cols, 1);
  return std::min(n_rows, std::max<int64_t>(8, std::min(kLibraryRows, by_bytes) / 8 * 8));
}

/// Floats between the products of two tokens with a piece of n_rows rows. Rows begin at multiples of 16
/// bytes.
constexpr int64_t products_stride(int64_t n_rows) { return (n_rows + 3) / 4 * 4; }

struct LibraryScratch {
  static int packed_tokens(int n_tokens) {
    return (n_tokens + kLibraryTokens - 1) / kLibraryTokens * kLibraryTokens;
  }
  int64_t max_cols = 0;         // columns of a matrix
  int64_t max_rows = 0;         // products_stride() of a piece
  int64_t max_weights = 0;      // weights of a piece of a quantized matrix; 0: the library multiplies no such
                                // matrix
  void* tokens = nullptr;       // [packed_tokens(max_tokens), max_cols], 4 bytes each
  float* unscale = nullptr;     // [packed_tokens(max_tokens)]
  float* products = nullptr;    // [kLibraryTokens, max_rows]
  uint16_t* weights = nullptr;  // [max_weights] f16
};

}  // namespace hearth::cuda
