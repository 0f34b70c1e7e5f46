// The conversions before and after a library's products (cublaslt_products.h). Before, tokens and weights are
// converted to the number type that the library multiplies. Afterward, the library's results are converted to
// the output of a Product. Each conversion is enqueued on the stream; the rules of ops.h apply.
#pragma once

#include "kernels/cuda/ops/ops.h"

namespace hearth::cuda {

/// The number types that a library multiplies. A number takes two or four bytes.
enum class LibraryType : uint8_t { kF16, kBF16, kF32 };
constexpr size_t library_bytes(LibraryType type) { return type == LibraryType::kF32 ? 4 : 2; }

/// Fills packed [n_packed, n_cols] with the rows of x [n, n_cols], converted to `type`, and then with rows of
/// zeros. For F16, each row is first multiplied by the power of two that brings its largest value to [2^14,
/// 2^15), so that no value overflows and small values do not become subnormal. unscale [n_packed] gets the
/// inverses of these factors. Infinities and NaNs are kept. n_cols must be a multiple of 4, and n_packed >=
/// n.
void pack_tokens(const float* x, int n, int n_packed, int64_t n_cols, LibraryType type, void* packed,
                 float* unscale, cudaStream_t stream);

/// out [n_rows, weight.n_cols] = the rows of a quantized matrix from `first` on, rounded to the nearest f16.
void decode_rows(const Matrix& weight, int64_t first, int64_t n_rows, uint16_t* out, cudaStream_t stream);

/// The library's products with a piece of a matrix, and their destination, as in Product. out and bias point
/// to the entries for the first row of the piece.
struct LibraryResults {
  const float* products = nullptr;  // [n_tokens, n_rows], rows `stride` floats apart
  int64_t stride = 0;
  const float* unscale = nullptr;  // [n_tokens]
  int n_tokens = 0;
  int64_t n_rows = 0;
  const float* bias = nullptr;  // [n_rows] or null
  float* out = nullptr;
  int64_t out_stride = 0;
  bool accumulate = false;
};
/// out[t, r] = products[t, r] * unscale[t] + bias[r]. With `accumulate`, += instead of =.
void store_results(const LibraryResults& results, cudaStream_t stream);

}  // namespace hearth::cuda
