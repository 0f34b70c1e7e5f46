// A weight matrix as packed halves, rounded to nearest even: for products with libraries. Writes 2 bytes a
// weight, which bounds it.
#include "kernels/cuda/dequantize.cuh"
#include "kernels/cuda/error.h"
#include "kernels/cuda/float_weights.cuh"
#include "kernels/cuda/matmul_args.cuh"

namespace hearth::cuda {
namespace {

constexpr int kFloatThreads = 256;
constexpr int64_t kMostRows = 65535;  // of a grid; more are taken in turns

struct Rows {
  const uint8_t* data;
  int64_t row_bytes;
  int64_t n_cols;
  int64_t n;
};

__device__ __forceinline__ unsigned half_bits(float v) { return __half_as_ushort(__float2half_rn(v)); }

template <class Block, int kAlign>
__global__ void __launch_bounds__(kDequantizeThreads) halve_blocks(Rows rows, uint16_t* out) {
  __shared__ UnpackedSpans spans[kDequantizeWarps];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t warp_of_row = int64_t{blockIdx.x} * kDequantizeWarps + warp;
  for (int64_t i = blockIdx.y; i < rows.n; i += gridDim.y) {
    if (i > blockIdx.y) __syncwarp();  // until the spans before are written
    dequantize_spans<Block, kAlign>(
        rows.data + i * rows.row_bytes, rows.n_cols, warp_of_row, spans[warp], [&](int64_t column, float4 v) {
          const uint2 halves{half_bits(v.x) | half_bits(v.y) << 16, half_bits(v.z) | half_bits(v.w) << 16};
          reinterpret_cast<uint2*>(out + i * rows.n_cols)[column / 4] = halves;
        });
  }
}

template <class Load>
__global__ void __launch_bounds__(kFloatThreads) halve_floats(Rows rows, uint16_t* out) {
  const int64_t column = int64_t{blockIdx.x} * kFloatThreads + threadIdx.x;
  if (column >= rows.n_cols) return;
  for (int64_t i = blockIdx.y; i < rows.n; i += gridDim.y) {
    const float value = Load::at(rows.data + i * rows.row_bytes, column);
    out[i * rows.n_cols + column] = static_cast<uint16_t>(half_bits(value));
  }
}

}  // namespace

void dequantize_to_half(const Matrix& weight, uint16_t* out, cudaStream_t stream) {
  if (weight.n_rows == 0 || weight.n_cols == 0) return;
  const Rows rows{reinterpret_cast<const uint8_t*>(weight.data), static_cast<int64_t>(weight.stride_bytes()),
                  weight.n_cols, weight.n_rows};
  const auto n_grid = static_cast<unsigned>(weight.n_rows < kMostRows ? weight.n_rows : kMostRows);
  constexpr const char* kDoing = "dequantising a matrix";
  if (weight.dtype == DType::kF32 || weight.dtype == DType::kF16 || weight.dtype == DType::kBF16) {
    const dim3 grid(static_cast<unsigned>((weight.n_cols + kFloatThreads - 1) / kFloatThreads), n_grid);
    return visit_float_type(weight.dtype, rows_aligned(weight, sizeof(float)), [&]<class Load>() {
      check(gpu_launch(halve_floats<Load>, grid, kFloatThreads, 0, stream, rows, out), kDoing);
    });
  }
  const dim3 grid(dequantize_blocks(weight.n_cols), n_grid);
  visit_block_type(weight.dtype, [&]<class Block>() {
    constexpr int kAlign = kBlockAlign<Block>;
    const auto kernel = rows_aligned(weight, kAlign) ? halve_blocks<Block, kAlign> : halve_blocks<Block, 2>;
    check(gpu_launch(kernel, grid, kDequantizeThreads, 0, stream, rows, out), kDoing);
  });
}

}  // namespace hearth::cuda
