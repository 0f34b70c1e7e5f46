// Element-wise operations. Memory-bound: 12 bytes per element.
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/rows/activation.cuh"
#include "kernels/cuda/rows/exponential.cuh"
#include "kernels/cuda/rows/quantize_rows.cuh"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;

}  // namespace

// out += x
namespace {

__global__ void __launch_bounds__(kThreads) add_kernel(const float* x, int64_t n, float* out) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) out[i] = __fadd_rn(out[i], x[i]);
}

}  // namespace

namespace {

void add(const float* x, bool on_host, int64_t n, float* out, cudaStream_t stream) {
  if (n == 0) return;
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  check(gpu_launch(
            [=] {
              return KernelWork{.bytes = (on_host ? 2 : 3) * floats(n),
                                .host_reads = on_host ? floats(n) : 0};
            },
            gpu_kernel<add_kernel>, blocks, kThreads, 0, stream, x, n, out),
        "adding to the residual stream");
}

}  // namespace

void add(const float* x, int64_t n, float* out, cudaStream_t stream) { add(x, false, n, out, stream); }

void add_from_host(const float* x, int64_t n, float* out, cudaStream_t stream) {
  add(x, true, n, out, stream);
}

// Kernels for out = x, out = 0, out = out * factor, and out = cap * tanh(out / cap).
namespace {

template <class Value>
__global__ void __launch_bounds__(kThreads) fill_kernel(Value value, int64_t n, float* out) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) out[i] = value(i, out);
}

struct Copied {
  const float* x;
  __device__ float operator()(int64_t i, const float* /*out*/) const { return x[i]; }
};
struct Zero {
  __device__ float operator()(int64_t /*i*/, const float* /*out*/) const { return 0.0f; }
};
struct Scaled {
  float factor;
  __device__ float operator()(int64_t i, const float* out) const { return __fmul_rn(out[i], factor); }
};
struct ScaledRow {
  const float* factors;
  int64_t n_cols;
  __device__ float operator()(int64_t i, const float* out) const {
    return __fmul_rn(out[i], factors[i / n_cols]);
  }
};
struct ScaledColumn {
  const float* factors;
  int64_t n_cols;
  __device__ float operator()(int64_t i, const float* out) const {
    return __fmul_rn(out[i], factors[i % n_cols]);
  }
};
struct SoftCapped {
  float cap;
  __device__ float operator()(int64_t i, const float* out) const { return capped(out[i], cap); }
};

template <class Value>
void fill(Value value, int64_t n, float* out, const char* what, cudaStream_t stream) {
  if (n == 0) return;
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  check(gpu_launch([=] { return KernelWork{.bytes = 2 * floats(n)}; }, gpu_kernel<fill_kernel<Value>>, blocks,
                   kThreads, 0, stream, value, n, out),
        what);
}

}  // namespace

void copy(const float* x, int64_t n, float* out, cudaStream_t stream) {
  fill(Copied{x}, n, out, "copying activations", stream);
}

void zero(int64_t n, float* out, cudaStream_t stream) {
  fill(Zero{}, n, out, "clearing activations", stream);
}

void scale(float factor, int64_t n, float* out, cudaStream_t stream) {
  fill(Scaled{factor}, n, out, "scaling activations", stream);
}

void scale_rows(const float* factors, int64_t n_rows, int64_t n_cols, float* out, cudaStream_t stream) {
  fill(ScaledRow{factors, n_cols}, n_rows * n_cols, out, "scaling rows of activations", stream);
}

void scale_columns(const float* factors, int64_t n_rows, int64_t n_cols, float* out, cudaStream_t stream) {
  fill(ScaledColumn{factors, n_cols}, n_rows * n_cols, out, "scaling columns of activations", stream);
}

void soft_cap(float cap, int64_t n, float* out, cudaStream_t stream) {
  fill(SoftCapped{cap}, n, out, "capping logits", stream);
}

// The sums of MixedRows. blockIdx.y is the sum. A thread block's threads read the same weights, and the sums
// read the same added rows, which come from a cache after the first.
namespace {

__global__ void __launch_bounds__(kThreads) mix_kernel(MixedRows call) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= call.n_rows * call.n_cols) return;
  const int64_t sum = blockIdx.y, row = i / call.n_cols;
  const float* const weights = call.weights + (row * call.n_sums + sum) * call.n_added;
  float value = call.x[sum * call.stride + i];
  for (int j = 0; j < call.n_added; ++j)
    value = __fmaf_rn(weights[j], call.added[j * call.stride + i], value);
  call.out[sum * call.stride + i] = value;
}

}  // namespace

void mix_rows(const MixedRows& call, cudaStream_t stream) {
  const int64_t n = call.n_rows * call.n_cols;
  if (n == 0 || call.n_sums == 0) return;
  const dim3 grid(static_cast<unsigned>((n + kThreads - 1) / kThreads), static_cast<unsigned>(call.n_sums));
  check(gpu_launch(
            [=] {
              const int n_read = call.n_sums + (call.added == call.x ? 0 : call.n_added);
              return KernelWork{
                  .bytes = floats((n_read + call.n_sums) * n + call.n_rows * call.n_sums * call.n_added)};
            },
            gpu_kernel<mix_kernel>, grid, kThreads, 0, stream, call),
        "mixing rows of activations");
}

// out = act(gate) * up, the operation between the matrices of an FFN.
namespace {

template <Activation kKind>
__global__ void __launch_bounds__(kThreads)
    gated_kernel(const float* gate, const float* up, int64_t n, ActivationNumbers numbers, float* out,
                 QuantizedActivations quantized) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const float value = gated<kKind>(gate[i], up == nullptr ? nullptr : up + i, numbers);
  out[i] = value;
  if (quantized.high != nullptr) quantize_own(value, i, quantized);
}

}  // namespace

void gated_activation(FfnActivation act, const float* gate, const float* up, int64_t n, float* out,
                      cudaStream_t stream, const QuantizedActivations& quantized) {
  if (n == 0) return;
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  visit_activation(act.kind, [&]<Activation kKind>() {
    check(gpu_launch(
              [=] {
                return KernelWork{.bytes = (up == nullptr ? 2 : 3) * floats(n) +
                                           (quantized.high == nullptr ? 0 : quantized_written(n)),
                                  .instructions = 40.0 * static_cast<double>(n)};
              },
              gpu_kernel<gated_kernel<kKind>>, blocks, kThreads, 0, stream, gate, up, n, numbers_of(act), out,
              quantized),
          "applying an FFN's activation");
  });
}

// Copies rows from one stride to another.
namespace {

__global__ void __launch_bounds__(kThreads) copy_rows_kernel(const float* x, int64_t stride, int64_t n_rows,
                                                             int64_t n_cols, float* out, int64_t out_stride) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n_rows * n_cols) return;
  const int64_t row = i / n_cols, column = i - row * n_cols;
  out[row * out_stride + column] = x[row * stride + column];
}

}  // namespace

void copy_rows(const float* x, int64_t stride, int64_t n_rows, int64_t n_cols, float* out, int64_t out_stride,
               cudaStream_t stream) {
  const int64_t n = n_rows * n_cols;
  if (n == 0) return;
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  check(gpu_launch([=] { return KernelWork{.bytes = 2 * floats(n_rows * n_cols)}; },
                   gpu_kernel<copy_rows_kernel>, blocks, kThreads, 0, stream, x, stride, n_rows, n_cols, out,
                   out_stride),
        "copying rows");
}

}  // namespace hearth::cuda
