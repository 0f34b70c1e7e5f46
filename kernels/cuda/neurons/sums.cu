// Sums over neurons: integers, so that it does not matter who adds which neuron when (kernels/neuron_sums.h).
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;

}  // namespace

// Sets sums over neurons to zero.
void clear_sums(const NeuronSums& sums, int n_tokens, int64_t n_cols, cudaStream_t stream) {
  const auto tokens = static_cast<size_t>(n_tokens), columns = static_cast<size_t>(n_cols);
  if (tokens == 0) return;
  check(cudaMemsetAsync(sums.poison, 0, tokens * sizeof *sums.poison, stream), "clearing sums over neurons");
  if (columns == 0) return;
  check(cudaMemsetAsync(sums.sums, 0, tokens * columns * sizeof *sums.sums, stream),
        "clearing sums over neurons");
}

// Adds one device's sums over neurons to another's.
namespace {

__global__ void __launch_bounds__(kThreads)
    merge_sums_kernel(const int64_t* from, const int32_t* poison_from, int64_t n, int n_tokens,
                      const int32_t* any, int64_t* to, int32_t* poison_to) {
  if (any != nullptr && *any == 0) return;
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) to[i] += from[i];
  if (i < n_tokens) poison_to[i] |= poison_from[i];
}

}  // namespace

void merge_sums(const NeuronSums& from, int n_tokens, int64_t n_cols, const NeuronSums& to,
                cudaStream_t stream, const int32_t* any) {
  const int64_t n = n_tokens * n_cols;
  if (n == 0) return;
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  check(gpu_launch(
            [=] {
              const bool none = any != nullptr && *any == 0;
              const double bytes = 8.0 * static_cast<double>(none ? 0 : n);
              return KernelWork{.bytes = 2 * bytes, .host_reads = bytes};
            },
            merge_sums_kernel, blocks, kThreads, 0, stream, from.sums, from.poison, n, n_tokens, any, to.sums,
            to.poison),
        "adding the CPU's share of the neurons");
}

// Adds the integer sums over neurons, as floats, to the residual stream.
namespace {

/// Block (b, t): 256 columns of token t.
__global__ void __launch_bounds__(kThreads) add_sums_kernel(const int64_t* sums, const int32_t* poison,
                                                            const float* bias, int64_t n_cols, float* out) {
  const int64_t t = blockIdx.y, c = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (c >= n_cols) return;
  const int64_t i = t * n_cols + c;
  float sum = __fmul_rn(__ll2float_rn(sums[i]), 0x1p-36f);  // a power of two: exact
  if (poison[t] != 0) sum = __uint_as_float(0x7fc00000u);
  const float total = __fadd_rn(out[i], sum);
  out[i] = bias == nullptr ? total : __fadd_rn(total, bias[c]);
}

}  // namespace

void add_sums(const NeuronSums& sums, const float* bias, int n_tokens, int64_t n_cols, float* out,
              cudaStream_t stream) {
  if (n_tokens == 0 || n_cols == 0) return;
  const auto blocks = static_cast<unsigned>((n_cols + kThreads - 1) / kThreads);
  check(gpu_launch([=] { return KernelWork{.bytes = 4 * floats(n_tokens * n_cols)}; }, add_sums_kernel,
                   dim3(blocks, static_cast<unsigned>(n_tokens)), kThreads, 0, stream, sums.sums, sums.poison,
                   bias, n_cols, out),
        "adding sums over neurons to the residual stream");
}

}  // namespace hearth::cuda
