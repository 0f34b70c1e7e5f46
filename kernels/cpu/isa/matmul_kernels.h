// Matrix products of every tensor type on one CPU thread: the table of inner loops per ISA.
//
// CpuBackend cuts a product into row ranges and gives each to a thread of its pool; the functions here
// compute a range. Quantized weights are multiplied in the form they have in the model file, with activations
// quantized to 16-bit integers; F32, F16 and BF16 weights with float activations.
//
// Arithmetic with quantized activations, which have one scale per span of 32 columns, x ~= scale_x * q_x. For
// row r and token t, over the spans s in order, and in each span over its weight groups g in order (one group
// of 32 columns, or two of 16):
//   term = float(sum of q_w * q_x over g) * scale_w[g]                 the integer sum is exact
//   term = term + min_w[g] * float(sum of q_x over g)                   for types with mins; an exact sum
//   dot = term, or the first group's term + the second's
//   acc = acc + dot * scale_x[s]
// Each operation is rounded to float32 once. Hence a result depends only on its own row and token, never on
// the row range, the tile shape or n_tokens, and every ISA gives the same bits. Float weights use 16 sums of
// fused multiply-adds, column c in sum c % 16, added up in halves (simd/matmul_float.h): the same for any
// range and n_tokens, and on every vector ISA; scalar code has an order of its own. Tests check this.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa/isa.h"
#include "kernels/matrix.h"

namespace hearth {

/// Whether weights of this type are multiplied with quantized activations (false for F32, F16, BF16).
bool uses_quantized_activations(DType type);

/// Bits of a quantized activation: k15 plus a sign, or k8 including the sign. k8 halves the arithmetic, for a
/// larger error.
enum class ActivationBits : uint8_t { k8 = 8, k15 = 15 };

/// Bytes of one activation row of n_cols columns quantized by MatmulKernels::quantize; a multiple of 64.
/// The size is the same for every weight type and ISA (kernels/cpu/isa/activation_row.h).
size_t activation_row_bytes(int64_t n_cols, ActivationBits bits = ActivationBits::k15);

/// One matmul, restricted to the weight rows [row_begin, row_end), or to those rows of a list.
struct MatmulArgs {
  const Matrix* weight = nullptr;
  const int32_t* rows = nullptr;  // null, or row numbers; then row_begin and row_end are indices in this list
  int64_t row_begin = 0;
  int64_t row_end = 0;
  const float* x = nullptr;              // [n_tokens, n_cols], contiguous; read for float weights only
  const std::byte* quantized = nullptr;  // n_tokens rows of activation_row_bytes(n_cols), 64-byte aligned;
                                         // read for quantized weights only
  int n_tokens = 0;
  const float* bias = nullptr;  // [n_rows] or null, indexed by the weight's row number
  float* out = nullptr;  // row r of token t is out[t * out_stride + r]; with a list, index i is used for r
  int64_t out_stride = 0;
  bool accumulate = false;  // out += instead of out =
  /// For one token: l1_is_large() (topology.h). Chooses the order in which rows are read, and changes no bit.
  bool large_l1 = false;
};

/// The loops of one ISA. All are thread-safe, allocate nothing and use only the stack (about 60 KB, with
/// tiles 75 KB).
struct MatmulKernels {
  /// Quantizes x [n_cols] into out (activation_row_bytes(n_cols) bytes, 64-byte aligned): per 32 columns
  /// scale = max|x| / L, q = round to nearest even of x * (L / max|x|), in [-L, L]; L is 32512 for 15 bits
  /// and 127 for 8. Columns with a NaN or an infinity among them give NaN products. For multiply() of the
  /// same table only: each ISA orders the quants to suit itself. REQUIRES: n_cols a multiple of 32.
  void (*quantize)(const float* x, int64_t n_cols, std::byte* out);

  /// Indexed by DType. out[t, r] (+)= dot(weight row r, token t) (+ bias[r]); with a list, out[t, i] (+)=
  /// dot(weight row rows[i], token t) (+ bias[rows[i]]), the same bits as without one.
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
