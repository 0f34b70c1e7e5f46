// Writes keys and values of a step, rounded to halves, to the KV cache.
//
// A thread takes one number of k and one of v: it reads 8 bytes and writes 4. Values are written side by side. A
// key is a column of its KV block, 2 bytes of each 32. A step writes each byte once, and the second-level cache
// gathers the keys of a prompt.
// Rounds to nearest even, and numbers that are too large become infinite, as with the CPU's to_half(): the same
// bits, except those of NaNs.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    kv_append_kernel(const float* k, const float* v, int64_t stride, KvPlaces places, KvShape shape,
                     KvLayer layer, int64_t n) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= n) return;
  const int width = shape.n_kv_heads * shape.head_dim;
  const int64_t token = index / width;
  const int column = static_cast<int>(index - token * width);
  const int position = places.positions[token];
  const int64_t table = int64_t{places.table_of[token]} * places.max_blocks;
  const int64_t block = places.block_tables[table + position / shape.block_tokens];
  const int within = position % shape.block_tokens;
  const int64_t start = block * width * shape.block_tokens;
  const int head = column / shape.head_dim;
  const int dim = column - head * shape.head_dim;
  const int64_t row = int64_t{head} * shape.block_tokens + within;
  layer.k[start + int64_t{column} * shape.block_tokens + within] =
      __half_as_ushort(__float2half_rn(k[token * stride + column]));
  layer.v[start + row * shape.head_dim + dim] = __half_as_ushort(__float2half_rn(v[token * stride + column]));
}

}  // namespace

void kv_append(const float* k, const float* v, int64_t stride, const KvPlaces& places, const KvShape& shape,
               KvLayer layer, cudaStream_t stream) {
  const int64_t n = int64_t{places.n_tokens} * shape.n_kv_heads * shape.head_dim;
  if (n == 0) return;
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  check(gpu_launch([=] { return KernelWork{.bytes = 2 * (floats(n) + 2.0 * static_cast<double>(n))}; },
                   kv_append_kernel, blocks, kThreads, 0, stream, k, v, stride, places, shape, layer, n),
        "writing keys and values to the cache");
}

}  // namespace hearth::cuda
