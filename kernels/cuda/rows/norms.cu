// Norms of rows. Row r uses row r % n_weights of the weights. A thread block computes a row. The kernels are
// memory-bound (8 bytes per element, plus the weights), but latency-bound for the single row of a decode
// token.
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/rows/quantize_rows.cuh"
#include "kernels/cuda/rows/reduce.cuh"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {

// out = x / sqrt(mean(x^2) + eps) * weight.
namespace {

__global__ void __launch_bounds__(512)
    rms_norm_kernel(const float* x, const float* weight, float eps, int64_t n, int64_t n_weights, float* out,
                    QuantizedActivations quantized) {
  GPU_DYN_SHARED(float, piece);
  __shared__ RowSumShared shared;
  x += blockIdx.x * n;
  out += blockIdx.x * n;
  weight += blockIdx.x % n_weights * n;
  const float squares =
      row_sum(x, n, piece, false, shared, [](float sum, float v) { return __fmaf_rn(v, v, sum); });
  const float scale = norm_scale(squares, n, eps);
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    const float v = n <= kRowPiece ? piece[i] : x[i];
    const float normed = __fmul_rn(__fmul_rn(v, scale), weight[i]);
    out[i] = normed;
    if (quantized.high != nullptr) quantize_own(normed, blockIdx.x * n + i, quantized);
  }
}

}  // namespace

void rms_norm(const float* x, const float* weight, float eps, int64_t n_rows, int64_t n_cols, float* out,
              int64_t n_weights, cudaStream_t stream, const QuantizedActivations& quantized) {
  if (n_rows == 0 || n_cols == 0) return;
  check(gpu_launch(
            [=] {
              return KernelWork{
                  .kind = KernelClass::kNorm,
                  .bytes = floats((2 * n_rows + n_weights) * n_cols) +
                           (quantized.high == nullptr ? 0 : quantized_written(n_rows * n_cols))};
            },
            gpu_kernel<rms_norm_kernel>, static_cast<unsigned>(n_rows), row_threads(n_cols),
            row_piece_bytes(n_cols), stream, x, weight, eps, n_cols, n_weights, out, quantized),
        "normalizing by the root mean square");
}

// out = (x - mean) / sqrt(variance + eps) * weight + bias, in two passes as on the CPU.
namespace {

__global__ void __launch_bounds__(512)
    layer_norm_kernel(const float* x, const float* weight, const float* bias, float eps, int64_t n,
                      int64_t n_weights, float* out, QuantizedActivations quantized) {
  GPU_DYN_SHARED(float, piece);
  __shared__ RowSumShared shared;
  x += blockIdx.x * n;
  out += blockIdx.x * n;
  weight += blockIdx.x % n_weights * n;
  if (bias != nullptr) bias += blockIdx.x % n_weights * n;
  const float total =
      row_sum(x, n, piece, false, shared, [](float sum, float v) { return __fadd_rn(sum, v); });
  const float mean = __fdiv_rn(total, __ll2float_rn(n));
  __syncthreads();  // all threads must have read the total
  const float squares = row_sum(x, n, piece, true, shared, [mean](float sum, float v) {
    const float apart = __fsub_rn(v, mean);
    return __fmaf_rn(apart, apart, sum);
  });
  const float scale = norm_scale(squares, n, eps);
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    const float v = n <= kRowPiece ? piece[i] : x[i];
    const float scaled = __fmul_rn(__fmul_rn(__fsub_rn(v, mean), scale), weight[i]);
    const float normed = bias == nullptr ? scaled : __fadd_rn(scaled, bias[i]);
    out[i] = normed;
    if (quantized.high != nullptr) quantize_own(normed, blockIdx.x * n + i, quantized);
  }
}

}  // namespace

void layer_norm(const float* x, const float* weight, const float* bias, float eps, int64_t n_rows,
                int64_t n_cols, float* out, int64_t n_weights, cudaStream_t stream,
                const QuantizedActivations& quantized) {
  if (n_rows == 0 || n_cols == 0) return;
  check(gpu_launch(
            [=] {
              return KernelWork{
                  .kind = KernelClass::kNorm,
                  .bytes = floats((2 * n_rows + 2 * n_weights) * n_cols) +
                           (quantized.high == nullptr ? 0 : quantized_written(n_rows * n_cols))};
            },
            gpu_kernel<layer_norm_kernel>, static_cast<unsigned>(n_rows), row_threads(n_cols),
            row_piece_bytes(n_cols), stream, x, weight, bias, eps, n_cols, n_weights, out, quantized),
        "normalizing rows");
}

// Operations of a row in place, with the sums of the norms.
namespace {

__global__ void __launch_bounds__(512) match_kernel(const float* to, float least, int64_t n, float* x) {
  GPU_DYN_SHARED(float, piece);
  __shared__ RowSumShared shared;
  to += blockIdx.x * n;
  x += blockIdx.x * n;
  const auto square = [](float sum, float v) { return __fmaf_rn(v, v, sum); };
  const float target = __fdiv_rn(row_sum(to, n, piece, false, shared, square), __ll2float_rn(n));
  __syncthreads();  // all threads must have read the total
  const float own = __fdiv_rn(row_sum(x, n, piece, false, shared, square), __ll2float_rn(n));
  const float factor = __fdiv_rn(__fsqrt_rn(target), __fsqrt_rn(own < least ? least : own));
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
    x[i] = __fmul_rn(n <= kRowPiece ? piece[i] : x[i], factor);
}

__global__ void __launch_bounds__(512) cut_kernel(float n_deviations, int64_t n, float* x) {
  GPU_DYN_SHARED(float, piece);
  __shared__ RowSumShared shared;
  x += blockIdx.x * n;
  const float total =
      row_sum(x, n, piece, false, shared, [](float sum, float v) { return __fadd_rn(sum, v); });
  const float mean = __fdiv_rn(total, __ll2float_rn(n));
  __syncthreads();  // all threads must have read the total
  const float squares = row_sum(x, n, piece, true, shared, [mean](float sum, float v) {
    const float apart = __fsub_rn(v, mean);
    return __fmaf_rn(apart, apart, sum);
  });
  const float deviation = __fsqrt_rn(__fdiv_rn(squares, __ll2float_rn(n)));
  const float least = __fmaf_rn(n_deviations, deviation, mean);
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    const float above = __fsub_rn(n <= kRowPiece ? piece[i] : x[i], least);
    x[i] = 0.0f > above ? 0.0f : above;  // a NaN stays a NaN
  }
}

}  // namespace

void match_rows(const float* to, float least, int64_t n_rows, int64_t n_cols, float* x, cudaStream_t stream) {
  if (n_rows == 0 || n_cols == 0) return;
  check(
      gpu_launch([=] { return KernelWork{.kind = KernelClass::kNorm, .bytes = floats(3 * n_rows * n_cols)}; },
                 gpu_kernel<match_kernel>, static_cast<unsigned>(n_rows), row_threads(n_cols),
                 row_piece_bytes(n_cols), stream, to, least, n_cols, x),
      "giving rows their lengths");
}

void cut_rows(float n_deviations, int64_t n_rows, int64_t n_cols, float* x, cudaStream_t stream) {
  if (n_rows == 0 || n_cols == 0) return;
  check(
      gpu_launch([=] { return KernelWork{.kind = KernelClass::kNorm, .bytes = floats(2 * n_rows * n_cols)}; },
                 gpu_kernel<cut_kernel>, static_cast<unsigned>(n_rows), row_threads(n_cols),
                 row_piece_bytes(n_cols), stream, n_deviations, n_cols, x),
      "cutting rows");
}

}  // namespace hearth::cuda
