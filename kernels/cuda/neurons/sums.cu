// Ends a sum over neurons. The sum is an integer, so it does not depend on the order in which neurons are
// added (kernels/neuron_sums.h).
//
// One kernel adds the CPU's sums to the device's in registers, rounds the results to floats, adds them to the
// residual stream, and resets the sums to zero for the next layer. So no other kernel needs to clear sums.
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;
/// A token's poison (NeuronSums) is 1 if one of its values was infinite or NaN, so its sums must become NaN.
/// Each thread block adds kHasRead to the poison when it reads it. So the lowest bit is the poison itself,
/// and the upper bits count the thread blocks that have read it.
constexpr int kHasRead = 2;

/// Thread block (b, t) handles 256 columns of token t, from column 256 * b on. The last thread block to read
/// a token's poison resets the poison to 0.
__global__ void __launch_bounds__(kThreads)
    end_sums_kernel(NeuronSums sums, CpuSums of_cpu, const float* bias, int64_t n_cols, float* out) {
  __shared__ bool poisoned;
  const int64_t t = blockIdx.y, c = int64_t{blockIdx.x} * kThreads + threadIdx.x, i = t * n_cols + c;
  // Issue all loads from host memory before waiting for the first one. If *of_cpu.any is 0, the CPU computed
  // no neurons of this layer, and the memory still holds its sums for an earlier layer. They are loaded
  // nevertheless, but ignored.
  const bool shares = of_cpu.any != nullptr;
  const int32_t any = shares ? *of_cpu.any : 0, poison = shares ? of_cpu.sums.poison[t] : 0;
  const int64_t of_host = shares && c < n_cols ? of_cpu.sums.sums[i] : 0;
  int64_t units = c < n_cols ? sums.sums[i] : 0;
  const int before = threadIdx.x == 0 ? atomicAdd(&sums.poison[t], kHasRead) : 0;
  if (any != 0) units += of_host;
  if (threadIdx.x == 0) {
    poisoned = before % kHasRead != 0 || (any != 0 && poison != 0);
    if (before / kHasRead + 1 == static_cast<int>(gridDim.x)) atomicExch(&sums.poison[t], 0);
  }
  __syncthreads();
  if (c >= n_cols) return;
  sums.sums[i] = 0;
  float sum = __fmul_rn(__ll2float_rn(units), 0x1p-36f);  // a power of two: exact
  if (poisoned) sum = __uint_as_float(0x7fc00000u);
  const float total = __fadd_rn(out[i], sum);
  out[i] = bias == nullptr ? total : __fadd_rn(total, bias[c]);
}

}  // namespace

void end_sums(const NeuronSums& sums, const CpuSums& of_cpu, const float* bias, int n_tokens, int64_t n_cols,
              float* out, cudaStream_t stream) {
  if (n_tokens == 0 || n_cols == 0) return;
  const auto blocks = static_cast<unsigned>((n_cols + kThreads - 1) / kThreads);
  check(gpu_launch(
            [=] {
              const bool both = of_cpu.any != nullptr && *of_cpu.any != 0;
              const double n = floats(n_tokens * n_cols);
              return KernelWork{.kind = KernelClass::kSums, .bytes = 6 * n, .host_reads = both ? 2 * n : 0};
            },
            gpu_kernel<end_sums_kernel>, dim3(blocks, static_cast<unsigned>(n_tokens)), kThreads, 0, stream,
            sums, of_cpu, bias, n_cols, out),
        "adding sums over neurons to the residual stream");
}

}  // namespace hearth::cuda
