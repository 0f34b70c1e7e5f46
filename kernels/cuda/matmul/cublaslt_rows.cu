// Packs tokens and weights for the library, and stores the library's products. All kernels are memory-bound.
#include "kernels/cuda/matmul/cublaslt_rows.cuh"

#include "kernels/cuda/matmul/dequantize_spans.cuh"
#include "kernels/cuda/matmul/matmul_args.cuh"
#include "kernels/cuda/ops/device_types.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kPackThreads = 256, kStoreThreads = 256;
constexpr int kDecodeWarps = 4, kDecodeThreads = 32 * kDecodeWarps;
constexpr unsigned kMostRows = 65535;  // limit of a grid dimension; thread blocks take further rows in turn

unsigned grid_rows(int64_t n) { return n < kMostRows ? static_cast<unsigned>(n) : kMostRows; }

}  // namespace

// packed[t, c] = type(x[t, c] * factor[t])
namespace {

// The exponent field of a factor plus the exponent field of its inverse, for factors that are powers of two.
constexpr int kInverseExponents = 254;

/// Returns the exponent field of a row's factor. largest: the bits of the row's largest magnitude. If that
/// magnitude is infinite or NaN, the factor is 1. Otherwise it is 2^(14 - exponent of that magnitude), but at
/// most 2^126, so that the inverse of the factor is a normal number.
__device__ __forceinline__ int factor_exponent(int largest) {
  const int exponent = largest >> 23;  // biased by 127
  if (exponent == 255) return 127;
  const int wanted = 127 + 14 + 127 - exponent;
  return wanted > 253 ? 253 : wanted;
}

__device__ __forceinline__ float power_of_two(int exponent_field) {
  return __int_as_float(exponent_field << 23);
}

struct PackF16 {
  using Number = uint16_t;
  static constexpr bool kScales = true;
  static __device__ uint16_t pack(float v) { return __half_as_ushort(__float2half_rn(v)); }
};
struct PackBF16 {
  using Number = uint16_t;
  static constexpr bool kScales = false;
  /// Rounds to nearest even. A NaN stays a NaN.
  static __device__ uint16_t pack(float v) {
    const unsigned bits = __float_as_uint(v);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
    return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
};
struct PackF32 {
  using Number = float;
  static constexpr bool kScales = false;
  static __device__ float pack(float v) { return v; }
};

template <class Number>
struct alignas(4 * sizeof(Number)) FourNumbers {
  Number of[4];
};

/// Returns the bits of the row's largest magnitude in all threads. The bit patterns of magnitudes have the
/// same order as the magnitudes; infinity is above all numbers, and NaN above infinity.
__device__ __forceinline__ int largest_of_row(const float4* row, int64_t n_fours) {
  __shared__ int of_warps[kPackThreads / 32];
  int largest = 0;
  for (int64_t i = threadIdx.x; i < n_fours; i += kPackThreads) {
    const float4 v = row[i];
    largest = max(largest, max(max(__float_as_int(v.x) & 0x7fffffff, __float_as_int(v.y) & 0x7fffffff),
                               max(__float_as_int(v.z) & 0x7fffffff, __float_as_int(v.w) & 0x7fffffff)));
  }
  GPU_UNROLL
  for (int apart = 16; apart > 0; apart /= 2)
    largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, apart, 32));
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = largest;
  __syncthreads();
  GPU_UNROLL
  for (int warp = 0; warp < kPackThreads / 32; ++warp) largest = max(largest, of_warps[warp]);
  return largest;
}

// One thread block per packed row.
template <class Pack>
__global__ void __launch_bounds__(kPackThreads)
    pack_kernel(const float4* x, int n, int64_t n_fours, FourNumbers<typename Pack::Number>* packed,
                float* unscale) {
  const auto t = static_cast<int>(blockIdx.x);
  FourNumbers<typename Pack::Number>* const out = packed + t * n_fours;
  if (t >= n) {
    for (int64_t i = threadIdx.x; i < n_fours; i += kPackThreads) out[i] = {};
    if (threadIdx.x == 0) unscale[t] = 1.0f;
    return;
  }
  const float4* const row = x + t * n_fours;
  float factor = 1.0f, inverse = 1.0f;
  if constexpr (Pack::kScales) {
    const int exponent = factor_exponent(largest_of_row(row, n_fours));
    factor = power_of_two(exponent);
    inverse = power_of_two(kInverseExponents - exponent);
  }
  for (int64_t i = threadIdx.x; i < n_fours; i += kPackThreads) {
    const float4 v = row[i];
    out[i] = {{Pack::pack(__fmul_rn(v.x, factor)), Pack::pack(__fmul_rn(v.y, factor)),
               Pack::pack(__fmul_rn(v.z, factor)), Pack::pack(__fmul_rn(v.w, factor))}};
  }
  if (threadIdx.x == 0) unscale[t] = inverse;
}

template <class Pack>
void pack_as(const float* x, int n, int n_packed, int64_t n_cols, void* packed, float* unscale,
             cudaStream_t stream) {
  using Number = typename Pack::Number;
  const auto work = [=] {
    const double of_packed = static_cast<double>(n_packed * n_cols) * sizeof(Number);
    return KernelWork{.bytes = floats(n * n_cols) + of_packed + floats(n_packed)};
  };
  check(gpu_launch(work, gpu_kernel<pack_kernel<Pack>>, static_cast<unsigned>(n_packed), kPackThreads, 0,
                   stream, gpu_aligned<float4>(x), n, n_cols / 4, gpu_aligned<FourNumbers<Number>>(packed),
                   unscale),
        "packing tokens for a library");
}

}  // namespace

void pack_tokens(const float* x, int n, int n_packed, int64_t n_cols, LibraryType type, void* packed,
                 float* unscale, cudaStream_t stream) {
  if (n_packed == 0) return;
  switch (type) {
    case LibraryType::kF16:
      return pack_as<PackF16>(x, n, n_packed, n_cols, packed, unscale, stream);
    case LibraryType::kBF16:
      return pack_as<PackBF16>(x, n, n_packed, n_cols, packed, unscale, stream);
    case LibraryType::kF32:
      return pack_as<PackF32>(x, n, n_packed, n_cols, packed, unscale, stream);
  }
}

// out[r, c] = f16(weight[first + r, c])
namespace {

template <class Block, int kAlign>
__global__ void __launch_bounds__(kDecodeThreads)
    decode_kernel(const uint8_t* rows, int64_t row_bytes, int64_t n_rows, int64_t n_cols, uint16_t* out) {
  __shared__ UnpackedSpans spans[kDecodeWarps];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t warp_of_row = int64_t{blockIdx.x} * kDecodeWarps + warp;
  for (int64_t r = blockIdx.y; r < n_rows; r += gridDim.y) {
    if (r > blockIdx.y) __syncwarp();  // wait until the previous spans are written
    dequantize_spans<Block, kAlign>(
        rows + r * row_bytes, n_cols, warp_of_row, spans[warp], [&](int64_t column, float4 v) {
          gpu_aligned<FourNumbers<uint16_t>>(out + r * n_cols)[column / 4] = {
              {PackF16::pack(v.x), PackF16::pack(v.y), PackF16::pack(v.z), PackF16::pack(v.w)}};
        });
  }
}

}  // namespace

void decode_rows(const Matrix& weight, int64_t first, int64_t n_rows, uint16_t* out, cudaStream_t stream) {
  if (n_rows == 0 || weight.n_cols == 0) return;
  constexpr int64_t kColumns = int64_t{kSpan} * kDecodeThreads;
  const dim3 grid(static_cast<unsigned>((weight.n_cols + kColumns - 1) / kColumns), grid_rows(n_rows));
  const auto work = [=, n_cols = weight.n_cols, bytes = row_bytes(weight.dtype, weight.n_cols)] {
    return KernelWork{.bytes = static_cast<double>(n_rows) *
                               (static_cast<double>(bytes) + 2.0 * static_cast<double>(n_cols))};
  };
  visit_device_block_type(weight.dtype, [&]<class Block>() {
    constexpr int kAlign = kBlockAlign<Block>;
    const auto& kernel = rows_aligned(weight, kAlign) ? gpu_kernel<decode_kernel<Block, kAlign>>
                                                      : gpu_kernel<decode_kernel<Block, 2>>;
    check(gpu_launch(work, kernel, grid, kDecodeThreads, 0, stream,
                     reinterpret_cast<const uint8_t*>(weight.row(first)),
                     static_cast<int64_t>(weight.stride_bytes()), n_rows, weight.n_cols, out),
          "dequantizing weights for a library");
  });
}

namespace {

__global__ void __launch_bounds__(kStoreThreads) store_kernel(LibraryResults results) {
  const int64_t r = int64_t{blockIdx.x} * kStoreThreads + threadIdx.x;
  if (r >= results.n_rows) return;
  const float bias = results.bias != nullptr ? results.bias[r] : 0.0f;
  for (int t = static_cast<int>(blockIdx.y); t < results.n_tokens; t += static_cast<int>(gridDim.y)) {
    float value = __fmul_rn(results.products[t * results.stride + r], results.unscale[t]);
    if (results.bias != nullptr) value = __fadd_rn(value, bias);
    float& to = results.out[t * results.out_stride + r];
    to = results.accumulate ? __fadd_rn(to, value) : value;
  }
}

}  // namespace

void store_results(const LibraryResults& results, cudaStream_t stream) {
  if (results.n_tokens == 0 || results.n_rows == 0) return;
  const dim3 grid(static_cast<unsigned>((results.n_rows + kStoreThreads - 1) / kStoreThreads),
                  grid_rows(results.n_tokens));
  const auto work = [=] {
    return KernelWork{.bytes = (results.accumulate ? 3 : 2) * floats(results.n_tokens * results.n_rows) +
                               floats(results.n_tokens) +
                               (results.bias != nullptr ? floats(results.n_rows) : 0)};
  };
  check(gpu_launch(work, gpu_kernel<store_kernel>, grid, kStoreThreads, 0, stream, results),
        "storing a library's products");
}

}  // namespace hearth::cuda
