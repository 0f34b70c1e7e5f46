// F32, F16 and BF16 weights times float activations, for any vector ISA.
//
// Every row and token have 16 sums. Column c is added to sum c % 16 with a fused multiply-add, in column
// order, and the sums are added up in one fixed tree. The order does not depend on the tile or on the number
// of lanes of a vector, so every vector ISA gives the same bits. The rows and tokens of a tile share loads.
#pragma once

#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cpu/simd/matmul_panel.h"

namespace hearth {

inline constexpr int kFloatChains = 16;

/// Tokens whose activations stay in the L2 cache while all rows use them: 24 rows of 4096 floats are 384 KB.
/// A multiple of every ISA's kFloatTokens.
inline constexpr int kFloatTokenTile = 24;

/// Computes the products of n_rows rows and n_tokens tokens over all columns. Load reads the weights
/// (Load::kBytes bytes each). `row` is the output column of the first row.
template <class S, class Load, int n_rows, int n_tokens>
void multiply_float_tile(const MatmulArgs& args, int64_t row, int token) {
  using Float = typename S::Float;
  const int64_t n_cols = args.weight->n_cols;
  const size_t stride = row_stride(*args.weight, static_cast<size_t>(n_cols) * Load::kBytes);
  const std::byte* w[n_rows];
  for (int r = 0; r < n_rows; ++r) w[r] = args.weight->data + row_at(args, row + r) * stride;
  const float* x = args.x + token * n_cols;
  // Computes the 16 sums one vector after the other, so that a tile's sums stay in registers on every ISA.
  constexpr int kParts = kFloatChains / S::kLanes;
  Float sum[n_rows][n_tokens][kParts];
  for (int p = 0; p < kParts; ++p) {
    Float part[n_rows][n_tokens];
    for (int r = 0; r < n_rows; ++r) {
      for (int t = 0; t < n_tokens; ++t) part[r][t] = S::floats(0.0f);
    }
    int64_t column = p * S::kLanes;
    for (; column + S::kLanes <= n_cols; column += kFloatChains) {
      Float weights[n_rows];
      for (int r = 0; r < n_rows; ++r) weights[r] = Load::full(w[r] + column * Load::kBytes);
      for (int t = 0; t < n_tokens; ++t) {
        const Float xs = S::load_floats(x + t * n_cols + column);
        for (int r = 0; r < n_rows; ++r) part[r][t] = S::fma(weights[r], xs, part[r][t]);
      }
    }
    if (column < n_cols) {
      const int left = static_cast<int>(n_cols - column);
      for (int t = 0; t < n_tokens; ++t) {
        const Float xs = S::load_floats(x + t * n_cols + column, left);
        for (int r = 0; r < n_rows; ++r) {
          part[r][t] = S::fma(Load::part(w[r] + column * Load::kBytes, left), xs, part[r][t]);
        }
      }
    }
    for (int r = 0; r < n_rows; ++r) {
      for (int t = 0; t < n_tokens; ++t) sum[r][t][p] = part[r][t];
    }
  }
  for (int t = 0; t < n_tokens; ++t) {
    for (int r = 0; r < n_rows; ++r) {
      float value = S::total(sum[r][t]);  // add the second half to the first half until one value is left
      if (args.bias != nullptr) value += args.bias[row_at(args, row + r)];
      float& out = args.out[(token + t) * args.out_stride + row + r];
      out = args.accumulate ? out + value : value;
    }
  }
}

/// Multiplies one tile of rows by all tokens.
template <class S, class Load, int n_rows>
void multiply_float_rows(const MatmulArgs& args, int64_t row, int token, int n_tokens) {
  int t = 0;
  for (; t + S::kFloatTokens <= n_tokens; t += S::kFloatTokens) {
    multiply_float_tile<S, Load, n_rows, S::kFloatTokens>(args, row, token + t);
  }
  for (; t < n_tokens; ++t) multiply_float_tile<S, Load, n_rows, 1>(args, row, token + t);
}

/// Multiplies rows from `row` on in tiles of n_rows, as long as whole tiles fit. Returns the first row that
/// remains.
template <class S, class Load, int n_rows>
int64_t multiply_float_tiles(const MatmulArgs& args, int64_t row, int token, int n_tokens) {
  for (; row + n_rows <= args.row_end; row += n_rows) {
    multiply_float_rows<S, Load, n_rows>(args, row, token, n_tokens);
  }
  return row;
}

template <class S, class Load>
void multiply_float(const MatmulArgs& args) {
  for (int token = 0; token < args.n_tokens; token += kFloatTokenTile) {
    const int left = args.n_tokens - token;
    const int n_tokens = left < kFloatTokenTile ? left : kFloatTokenTile;
    int64_t row = args.row_begin;
    // A single token needs the sums of more rows to hide the latency of fused multiply-adds.
    if (n_tokens == 1) row = multiply_float_tiles<S, Load, S::kFloatRowsOfOne>(args, row, token, n_tokens);
    row = multiply_float_tiles<S, Load, S::kFloatRows>(args, row, token, n_tokens);
    multiply_float_tiles<S, Load, 1>(args, row, token, n_tokens);
  }
}

}  // namespace hearth
