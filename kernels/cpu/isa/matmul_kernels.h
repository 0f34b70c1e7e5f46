// Matrix products of every tensor type on one CPU thread: the table of inner loops per ISA.
//
// CpuBackend divides a product into row ranges among the threads of its pool; a function here computes one
// range. Quantized weights are read as they are in the model file, and multiplied by activations that are
// quantized to 16-bit (or 8-bit) integers. F32, F16 and BF16 weights are multiplied by float activations.
//
// Quantized activations have one scale per span of 32 columns: x ~= scale_x * q_x. For row r and token t, the
// sum acc runs over the spans s in order. In each span, it runs over the span's weight groups g in order (one
// group of 32 columns, or two of 16):
//   term = float(sum of q_w * q_x over g) * scale_w[g]                 the integer sum is exact
//   term = term + min_w[g] * float(sum of q_x over g)                   types with mins; this sum is exact
//   dot = term, or the first group's term + the second's
//   acc = acc + dot * scale_x[s]
// Each operation is rounded to float32 once. Hence a result depends only on its own row and token, never on
// the row range, the tile shape or n_tokens, and every ISA gives the same bits. Float weights use 16 sums of
// fused multiply-adds; column c belongs to sum c % 16. At the end, sums 8 apart are added, then sums 4, 2 and
// 1 apart (simd/matmul_float.h). The result is the same for any range, any n_tokens and any vector ISA.
// Scalar code adds float products in another order. Tests check this.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa/isa.h"
#include "kernels/matrix.h"

namespace hearth {

/// Whether weights of this type are multiplied with quantized activations (false for F32, F16, BF16).
bool uses_quantized_activations(DType type);

/// Bits of a quantized activation: 15 bits and a sign (k15), or 8 bits that include the sign (k8). k8 halves
/// the arithmetic, but has a larger error.
enum class ActivationBits : uint8_t { k8 = 8, k15 = 15 };

/// Returns the bytes of an activation row of n_cols columns as MatmulKernels::quantize writes it; a multiple
/// of 64. The size is the same for every weight type and ISA (kernels/cpu/isa/activation_row.h).
size_t activation_row_bytes(int64_t n_cols, ActivationBits bits = ActivationBits::k15);

/// One matmul, restricted to the weight rows [row_begin, row_end), or to entries [row_begin, row_end) of a
/// list of rows.
struct MatmulArgs {
  const Matrix* weight = nullptr;
  const int32_t* rows = nullptr;  // row numbers, indexed by [row_begin, row_end); or null
  int64_t row_begin = 0;
  int64_t row_end = 0;
  const float* x = nullptr;              // [n_tokens, n_cols], contiguous; read for float weights only
  const std::byte* quantized = nullptr;  // n_tokens rows of activation_row_bytes(n_cols), 64-byte aligned;
                                         // read for quantized weights only
  int n_tokens = 0;
  const float* bias = nullptr;  // [n_rows] or null, indexed by the weight's row number
  // The result of token t and row r is out[t * out_stride + r]. If there is a list of rows, r is an index in
  // the list.
  float* out = nullptr;
  int64_t out_stride = 0;
  bool accumulate = false;  // out += instead of out =
  /// Whether the L1 caches are large (l1_is_large() in topology.h). Read only if n_tokens is 1. It affects
  /// the order in which rows are read, but no bit of a result.
  bool large_l1 = false;
};

/// The loops of one ISA. All are thread-safe, allocate nothing and use only the stack (about 60 KB, with
/// tiles 75 KB).
struct MatmulKernels {
  /// Quantizes x [n_cols] into out (activation_row_bytes(n_cols) bytes, 64-byte aligned): for each span of 32
  /// columns, scale = max|x| / L, and q = x * (L / max|x|), rounded to nearest even, in [-L, L]. L is 32512
  /// for 15 bits and 127 for 8. A span with a NaN or an infinity gives NaN products. Only multiply() of the
  /// same table can read the result, because each ISA has its own order of quants. REQUIRES: n_cols is a
  /// multiple of 32.
  void (*quantize)(const float* x, int64_t n_cols, std::byte* out);

  /// Indexed by DType. out[t, r] (+)= dot(weight row r, token t) (+ bias[r]); with a list, out[t, i] (+)=
  /// dot(weight row rows[i], token t) (+ bias[rows[i]]), with the same bits as without a list.
  std::array<void (*)(const MatmulArgs& args), kDTypeCount> multiply;
};

/// REQUIRES: isa is one of supported_isas().
const MatmulKernels& matmul_kernels(Isa isa, ActivationBits bits = ActivationBits::k15);

extern const MatmulKernels kMatmulKernelsScalar;
extern const MatmulKernels kMatmulKernelsAvx2;
extern const MatmulKernels kMatmulKernelsAvxVnni;
extern const MatmulKernels kMatmulKernelsAvx512;
extern const MatmulKernels kMatmulKernelsAmx;
extern const MatmulKernels kMatmulKernelsNeon;
extern const MatmulKernels kMatmulKernelsNeonDotprod;
extern const MatmulKernels kMatmulKernelsNeonI8mm;
extern const MatmulKernels kMatmulBytesScalar;  // ..Bytes..: for 8-bit activations
extern const MatmulKernels kMatmulBytesAvx2;
extern const MatmulKernels kMatmulBytesAvxVnni;
extern const MatmulKernels kMatmulBytesAvx512;
extern const MatmulKernels kMatmulBytesAmx;
extern const MatmulKernels kMatmulBytesNeon;
extern const MatmulKernels kMatmulBytesNeonDotprod;
extern const MatmulKernels kMatmulBytesNeonI8mm;

}  // namespace hearth
