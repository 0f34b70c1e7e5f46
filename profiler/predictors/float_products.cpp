// How a product is cut among threads. See the header.
#include "profiler/predictors/float_products.h"

#include <algorithm>

namespace hearth {
namespace {

// Rows of w in a piece: 64 rows of 4,096 floats are 1 MiB, which the second-level cache holds while rows of x
// pass by; of short rows too they repay being handed out.
constexpr int64_t kRowsOfPiece = 64;
constexpr int64_t kTransposeTile = 32;

}  // namespace

FloatProducts::FloatProducts(ThreadPool& pool, Isa isa) : pool_(pool), kernels_(matmul_kernels(isa)) {}

void FloatProducts::multiply(const float* x, int64_t n_x, const float* w, int64_t n_w, int64_t n_cols,
                             float* out) {
  const Matrix weight{reinterpret_cast<const std::byte*>(w), DType::kF32, n_w, n_cols};
  const auto kernel = kernels_.multiply[static_cast<size_t>(DType::kF32)];
  pool_.for_each_chunk(n_w, kRowsOfPiece, [&](int64_t begin, int64_t end, int) {
    MatmulArgs args;
    args.weight = &weight;
    args.row_begin = begin;
    args.row_end = end;
    args.x = x;
    args.n_tokens = static_cast<int>(n_x);
    args.out = out;
    args.out_stride = n_w;
    kernel(args);
  });
}

void FloatProducts::transpose(const float* in, int64_t n_rows, int64_t n_cols, float* out) {
  pool_.for_each_chunk(n_cols, kTransposeTile, [&](int64_t begin, int64_t end, int) {
    for (int64_t first = 0; first < n_rows; first += kTransposeTile) {
      const int64_t last = std::min(first + kTransposeTile, n_rows);
      for (int64_t c = begin; c < end; ++c) {
        for (int64_t r = first; r < last; ++r) out[c * n_rows + r] = in[r * n_cols + c];
      }
    }
  });
}

}  // namespace hearth
