// The device memory that a library needs to multiply prompt tokens (matmul/cublaslt_products.h), and the
// constants that determine its size. Scratch reserves it at load.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace hearth::cuda {

/// Tokens per call of the library. With 128, the usual step of a prompt reads each matrix once, and the
/// tensor cores are busy.
inline constexpr int kLibraryTokens = 128;
/// To keep scratch small, a matrix is multiplied in pieces of rows. A piece has at most kLibraryRows rows,
/// and its weights take at most kLibraryWeightsBytes as f16.
inline constexpr int64_t kLibraryRows = 16384;
inline constexpr size_t kLibraryWeightsBytes = size_t{64} << 20;

/// Returns the number of rows per piece of a matrix [n_rows, n_cols]. It is a multiple of eight, which suits
/// the tensor cores' tiles, or n_rows if that is less. The last piece may have fewer rows.
constexpr int64_t library_piece_rows(int64_t n_rows, int64_t n_cols) {
  const auto most = static_cast<int64_t>(kLibraryWeightsBytes / sizeof(uint16_t));
  const int64_t by_bytes = most / std::max<int64_t>(n_cols, 1);
  return std::min(n_rows, std::max<int64_t>(8, std::min(kLibraryRows, by_bytes) / 8 * 8));
}

/// Returns the number of floats from one token's products to the next token's, for a piece of n_rows rows.
/// Each token's products begin at a multiple of 16 bytes.
constexpr int64_t products_stride(int64_t n_rows) { return (n_rows + 3) / 4 * 4; }

struct LibraryScratch {
  static int packed_tokens(int n_tokens) {
    return (n_tokens + kLibraryTokens - 1) / kLibraryTokens * kLibraryTokens;
  }
  int64_t max_cols = 0;  // columns of a matrix
  int64_t max_rows = 0;  // products_stride() of a piece
  // The maximum number of weights in a piece of a quantized matrix. 0: the library does not multiply by
  // quantized matrices.
  int64_t max_weights = 0;
  void* tokens = nullptr;       // [packed_tokens(max_tokens), max_cols], 4 bytes each
  float* unscale = nullptr;     // [packed_tokens(max_tokens)]
  float* products = nullptr;    // [kLibraryTokens, max_rows]
  uint16_t* weights = nullptr;  // [max_weights] f16
};

}  // namespace hearth::cuda
