// Runs a matmul kernel on whole matrices for tests: activations in, outputs out.
#pragma once

#include <cstring>
#include <new>
#include <vector>

#include "kernels/cpu/isa/activation_row.h"
#include "kernels/cpu/isa/matmul_kernels.h"

namespace hearth::test {

/// Quantized activation rows, aligned as the kernels require.
class QuantizedRows {
 public:
  QuantizedRows(const MatmulKernels& kernels, const std::vector<float>& x, int n_tokens, int64_t n_cols,
                ActivationBits bits = ActivationBits::k15)
      : row_bytes_(activation_row_bytes(n_cols, bits)),
        lines_(row_bytes_ / sizeof(Line) * static_cast<size_t>(n_tokens)) {
    for (int t = 0; t < n_tokens; ++t) kernels.quantize(x.data() + t * n_cols, n_cols, row(t));
  }
  std::byte* row(int t) {
    return reinterpret_cast<std::byte*>(lines_.data()) + row_bytes_ * static_cast<size_t>(t);
  }
  size_t row_bytes() const { return row_bytes_; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  size_t row_bytes_;
  std::vector<Line> lines_;
};

/// Returns the quant of a column. Each ISA's quantize_row orders the quants of a span of 32 columns in its
/// own way.
inline int quant_at(Isa isa, const ActivationRow& row, int64_t column) {
  const std::byte* span = row.quants + column / kActivationSpan * kSpanBytes;
  const int64_t i = column % kActivationSpan;
  if (isa == Isa::kAvx512Vnni || isa == Isa::kAmx || isa == Isa::kAvxVnni || isa == Isa::kNeonDotprod ||
      isa == Isa::kNeonI8mm) {
    return 256 * static_cast<int8_t>(span[i]) + static_cast<int8_t>(span[kActivationSpan + i]);
  }
  // AVX2: among 16 columns, the even ones come first.
  const int64_t at = isa == Isa::kAvx2 ? i / 16 * 16 + i % 2 * 8 + i % 16 / 2 : i;
  int16_t quant;
  std::memcpy(&quant, span + 2 * at, sizeof quant);
  return quant;
}

/// Returns the 8-bit quant of a column. Bytes are in column order on every ISA.
inline int byte_at(const ActivationRow& row, int64_t column) {
  return static_cast<int8_t>(row.quants[column]);
}

/// out [n_tokens, n_rows] = x * weight^T with the kernels of `isa`.
inline std::vector<float> multiply(Isa isa, const Matrix& weight, const std::vector<float>& x, int n_tokens,
                                   ActivationBits bits = ActivationBits::k15) {
  const MatmulKernels& kernels = matmul_kernels(isa, bits);
  std::vector<float> out(static_cast<size_t>(n_tokens * weight.n_rows), -1.0f);
  MatmulArgs args;
  args.weight = &weight;
  args.row_end = weight.n_rows;
  args.x = x.data();
  args.n_tokens = n_tokens;
  args.out = out.data();
  args.out_stride = weight.n_rows;
  if (!uses_quantized_activations(weight.dtype)) {
    kernels.multiply[static_cast<size_t>(weight.dtype)](args);
    return out;
  }
  QuantizedRows quantized(kernels, x, n_tokens, weight.n_cols, bits);
  args.quantized = quantized.row(0);
  kernels.multiply[static_cast<size_t>(weight.dtype)](args);
  return out;
}

}  // namespace hearth::test
