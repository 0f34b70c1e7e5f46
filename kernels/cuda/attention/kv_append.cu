// Writes the keys and values of a step to the KV cache, rounded to its type.
//
// A thread handles one number of k and one of v. It reads 8 bytes and writes 4. With KvType::kQ8 it writes 2
// bytes and its part of two scales. The numbers of a value are adjacent. A key is a column of its KV block,
// so its numbers are 16 apart. A step writes each byte once; for a prompt, the L2 cache combines neighboring
// keys before they are written to memory. Halves are rounded to nearest even, and numbers that are too large
// become infinite; the bits are the same as from the CPU's to_half(), except for NaNs. With KvType::kQ8
// (kv_layout.h), a warp has the 32 numbers that share a scale, and the bits are always the same as from the
// CPU's to_q8().
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;

/// A number as KvType::kQ8 stores it.
struct Scaled {
  int8_t whole;
  uint16_t scale;
};

/// Rounds the numbers of a warp's lanes, which share one scale.
__device__ Scaled round_together(float x) {
  static_assert(kKvGroup == 32, "a warp's lanes");
  constexpr unsigned kAllLanes = 0xffffffffu;
  float largest = fabsf(x);
  GPU_UNROLL
  for (int apart = 16; apart > 0; apart /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, largest, apart);
    largest = other > largest ? other : largest;
  }
  const bool poison = __any_sync(kAllLanes, fabsf(x) <= 3.402823466e38f ? 0 : 1) != 0;
  const uint16_t scale = __half_as_ushort(__float2half_rn(__fdiv_rn(largest, 127.0f)));
  if (poison || (scale & 0x7c00) == 0x7c00) return {0, kKvPoison};
  if (scale == 0) return {0, 0};
  const float divided = __fdiv_rn(x, __half2float(__ushort_as_half(scale)));
  return {static_cast<int8_t>(rintf(fmaxf(fminf(divided, 127.0f), -127.0f))), scale};
}

template <KvType kType>
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
  const int head = column / shape.head_dim;
  const int dim = column - head * shape.head_dim;
  const int64_t row = int64_t{head} * shape.block_tokens + within;
  const int64_t key_at = int64_t{column} * shape.block_tokens + within;
  const int64_t value_at = row * shape.head_dim + dim;
  const float key = k[token * stride + column], value = v[token * stride + column];
  if constexpr (kType == KvType::kQ8) {
    auto* const keys = static_cast<int8_t*>(layer.k) + block * shape.block_bytes();
    auto* const values = static_cast<int8_t*>(layer.v) + block * shape.block_bytes();
    const Scaled rounded_key = round_together(key), rounded_value = round_together(value);
    keys[key_at] = rounded_key.whole;
    values[value_at] = rounded_value.whole;
    if (threadIdx.x % kKvGroup != 0) return;
    // Like the key's numbers, its scales form a column of the KV block.
    gpu_aligned<uint16_t>(keys +
                          shape.block_numbers())[int64_t{column / kKvGroup} * shape.block_tokens + within] =
        rounded_key.scale;
    gpu_aligned<uint16_t>(values + shape.block_numbers())[value_at / kKvGroup] = rounded_value.scale;
  } else {
    const int64_t start = block * shape.block_numbers();
    gpu_aligned<uint16_t>(layer.k)[start + key_at] = __half_as_ushort(__float2half_rn(key));
    gpu_aligned<uint16_t>(layer.v)[start + value_at] = __half_as_ushort(__float2half_rn(value));
  }
}

}  // namespace

void kv_append(const float* k, const float* v, int64_t stride, const KvPlaces& places, const KvShape& shape,
               KvLayer layer, cudaStream_t stream) {
  const int64_t n = int64_t{places.n_tokens} * shape.n_kv_heads * shape.head_dim;
  if (n == 0) return;
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  const KvType type = shape.type;
  const auto& kernel = type == KvType::kQ8 ? gpu_kernel<kv_append_kernel<KvType::kQ8>>
                                           : gpu_kernel<kv_append_kernel<KvType::kF16>>;
  check(gpu_launch(
            [=] { return KernelWork{.bytes = 2 * (floats(n) + static_cast<double>(kv_bytes(type, n)))}; },
            kernel, blocks, kThreads, 0, stream, k, v, stride, places, shape, layer, n),
        "writing keys and values to the cache");
}

}  // namespace hearth::cuda
