// Row i of `out` = the dequantized row tokens[i] of the embedding table.
#include "kernels/cuda/matmul/dequantize_spans.cuh"
#include "kernels/cuda/matmul/float_weights.cuh"
#include "kernels/cuda/matmul/matmul_args.cuh"
#include "kernels/cuda/ops/device_types.h"
#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {
namespace {

constexpr int kFloatThreads = 256;
constexpr int kWarps = 4, kThreads = 32 * kWarps;  // for quantized types
constexpr int64_t kMostTokens = 65535;             // limit of a grid dimension; thread blocks take further
                                                   // tokens in turn

struct Rows {
  const uint8_t* data;
  int64_t row_bytes;
  int64_t n_cols;
  const int32_t* tokens;
  int64_t n;

  __device__ const uint8_t* row(int64_t i) const { return data + tokens[i] * row_bytes; }
};

template <class Block, int kAlign>
__global__ void __launch_bounds__(kThreads) embed_blocks(Rows rows, float* out) {
  __shared__ UnpackedSpans spans[kWarps];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t warp_of_row = int64_t{blockIdx.x} * kWarps + warp;
  for (int64_t i = blockIdx.y; i < rows.n; i += gridDim.y) {
    if (i > blockIdx.y) __syncwarp();  // wait until the previous spans are written
    dequantize_spans<Block, kAlign>(rows.row(i), rows.n_cols, warp_of_row, spans[warp],
                                    [&](int64_t column, float4 values) {
                                      gpu_aligned<float4>(out + i * rows.n_cols)[column / 4] = values;
                                    });
  }
}

template <class Load>
__global__ void __launch_bounds__(kFloatThreads) embed_floats(Rows rows, float* out) {
  const int64_t column = int64_t{blockIdx.x} * kFloatThreads + threadIdx.x;
  if (column >= rows.n_cols) return;
  for (int64_t i = blockIdx.y; i < rows.n; i += gridDim.y) {
    out[i * rows.n_cols + column] = Load::at(rows.row(i), column);
  }
}

}  // namespace

void embed(const Matrix& table, const int32_t* tokens, int64_t n, float* out, cudaStream_t stream) {
  if (n == 0 || table.n_cols == 0) return;
  const Rows rows{reinterpret_cast<const uint8_t*>(table.data), static_cast<int64_t>(table.stride_bytes()),
                  table.n_cols, tokens, n};
  const auto n_grid = static_cast<unsigned>(n < kMostTokens ? n : kMostTokens);
  const auto work = [=, row = table.stride_bytes()] {
    return KernelWork{.bytes =
                          static_cast<double>(n) * static_cast<double>(row) + floats(n * (rows.n_cols + 1))};
  };
  constexpr const char* kDoing = "looking up embeddings";
  if (table.dtype == DType::kF32 || table.dtype == DType::kF16 || table.dtype == DType::kBF16) {
    const dim3 grid(static_cast<unsigned>((table.n_cols + kFloatThreads - 1) / kFloatThreads), n_grid);
    return visit_float_type(table.dtype, rows_aligned(table, sizeof(float)), [&]<class Load>() {
      check(gpu_launch(work, gpu_kernel<embed_floats<Load>>, grid, kFloatThreads, 0, stream, rows, out),
            kDoing);
    });
  }
  constexpr int64_t kColumns = int64_t{kSpan} * kThreads;
  const dim3 grid(static_cast<unsigned>((table.n_cols + kColumns - 1) / kColumns), n_grid);
  visit_device_block_type(table.dtype, [&]<class Block>() {
    constexpr int kAlign = kBlockAlign<Block>;
    const auto& kernel = rows_aligned(table, kAlign) ? gpu_kernel<embed_blocks<Block, kAlign>>
                                                     : gpu_kernel<embed_blocks<Block, 2>>;
    check(gpu_launch(work, kernel, grid, kThreads, 0, stream, rows, out), kDoing);
  });
}

}  // namespace hearth::cuda
