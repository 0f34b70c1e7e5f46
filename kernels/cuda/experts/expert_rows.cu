// The operations on experts' rows between and after their products: the activation, and the sum of each
// token's rows. Both are memory-bound.
#include "kernels/cuda/ops/expert_ops.h"
#include "kernels/cuda/rows/activation.cuh"
#include "kernels/cuda/rows/exponential.cuh"
#include "kernels/cuda/rows/quantize_rows.cuh"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kThreads = 256;

/// Like gated_activation(), for n_rows rows. The number of rows is in device memory.
template <Activation kKind>
__global__ void __launch_bounds__(kThreads)
    expert_activation_kernel(const float* gate, const float* up, const int32_t* n_rows, int64_t d_expert,
                             ActivationNumbers numbers, float* out, QuantizedActivations quantized) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= *n_rows * d_expert) return;
  const float value = gated<kKind>(gate[i], up == nullptr ? nullptr : up + i, numbers);
  out[i] = value;
  if (quantized.high != nullptr) quantize_own(value, i, quantized);
}

unsigned blocks_for(int64_t n) { return static_cast<unsigned>((n + kThreads - 1) / kThreads); }

}  // namespace

void expert_activation(FfnActivation act, const float* gate, const float* up, const ExpertGroups& groups,
                       int64_t d_expert, float* out, cudaStream_t stream,
                       const QuantizedActivations& quantized) {
  if (groups.n_pairs == 0 || d_expert == 0) return;
  visit_activation(act.kind, [&]<Activation kKind>() {
    check(gpu_launch(
              [=] {
                const int64_t n = groups.counts[1] * d_expert;
                return KernelWork{.bytes = (up == nullptr ? 2 : 3) * floats(n) +
                                           (quantized.high == nullptr ? 0 : quantized_written(n)),
                                  .instructions = 40.0 * static_cast<double>(n)};
              },
              gpu_kernel<expert_activation_kernel<kKind>>, blocks_for(groups.n_pairs * d_expert), kThreads, 0,
              stream, gate, up, groups.counts + 1, d_expert, numbers_of(act), out, quantized),
          "applying experts' activation");
  });
}

// out = x times the weight of each token's expert.
namespace {

__global__ void __launch_bounds__(kThreads)
    weigh_kernel(const float* weights, const float* x, int64_t n, int64_t n_cols, float* out,
                 QuantizedActivations quantized) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const float value = __fmul_rn(x[i], weights[i / n_cols]);
  out[i] = value;
  if (quantized.high != nullptr) quantize_own(value, i, quantized);
}

}  // namespace

void weigh_inputs(const DeviceChoice& choice, const float* x, int64_t n_cols, float* out, cudaStream_t stream,
                  const QuantizedActivations& quantized) {
  const int64_t n = choice.n_tokens * n_cols;
  if (n == 0) return;
  check(gpu_launch(
            [=] {
              return KernelWork{.bytes = floats(2 * n + choice.n_tokens) +
                                         (quantized.high == nullptr ? 0 : quantized_written(n))};
            },
            gpu_kernel<weigh_kernel>, blocks_for(n), kThreads, 0, stream, choice.weights, x, n, n_cols, out,
            quantized),
        "weighting experts' inputs");
}

// out += the weighted sum of a token's rows.
namespace {

constexpr int kBatch = 8;  // rows that are loaded at the same time, some of them from host memory

struct CombineArgs {
  DeviceChoice choice;
  const int32_t* row_of_pair;
  const float* rows;
  const float* host_rows;
  GatedSharedExpert shared;
  int64_t d_model;
};

/// Returns the weighted sum over the token's pairs in the order of choice, as
/// VectorKernels::add_weighted_rows() computes it.
__device__ __forceinline__ float weighted_sum(const CombineArgs& args, int64_t token, int64_t column) {
  const int n_used = args.choice.n_used;
  float sum = 0.0f;
  for (int begin = 0; begin < n_used; begin += kBatch) {
    float value[kBatch], weight[kBatch];
    GPU_UNROLL
    for (int j = 0; j < kBatch; ++j) {
      if (begin + j >= n_used) continue;
      const int64_t pair = token * n_used + begin + j;
      const int row = args.row_of_pair[pair];
      const float* from = row >= 0 ? args.rows + row * args.d_model : args.host_rows + pair * args.d_model;
      value[j] = from[column];
      weight[j] = args.choice.weights == nullptr ? 1.0f : args.choice.weights[pair];
    }
    GPU_UNROLL
    for (int j = 0; j < kBatch; ++j) {
      if (begin + j < n_used) sum = __fmaf_rn(weight[j], value[j], sum);
    }
  }
  return sum;
}

/// Thread block (b, t) computes 256 columns of token t, from column 256 * b on.
__global__ void __launch_bounds__(kThreads)
    combine_kernel(CombineArgs args, float* out, QuantizedActivations quantized) {
  const int64_t token = blockIdx.y, column = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (column >= args.d_model) return;
  const int64_t i = token * args.d_model + column;
  // The CPU adds the sum to zeros, which turns -0 into 0.
  float mixed = __fadd_rn(0.0f, weighted_sum(args, token, column));
  if (args.shared.logits != nullptr) {
    const float weight = sigmoid(args.shared.logits[token]);
    mixed = __fadd_rn(mixed, __fmaf_rn(weight, args.shared.rows[i], 0.0f));
  }
  const float value = __fadd_rn(out[i], mixed);
  out[i] = value;
  if (quantized.high != nullptr) quantize_own(value, i, quantized);
}

/// Returns the number of resident pairs. REQUIRES: the host can read row_of_pair.
int64_t count_resident(const int32_t* row_of_pair, int64_t n_pairs) {
  int64_t n = 0;
  for (int64_t pair = 0; pair < n_pairs; ++pair) n += row_of_pair[pair] >= 0 ? 1 : 0;
  return n;
}

}  // namespace

void combine(const DeviceChoice& choice, const int32_t* row_of_pair, const float* rows,
             const float* host_rows, const GatedSharedExpert& shared, int64_t d_model, float* out,
             cudaStream_t stream, const QuantizedActivations& quantized) {
  const int64_t n = choice.n_tokens * d_model;
  if (n == 0) return;
  check(gpu_launch(
            [=] {
              const int64_t pairs = choice.n_pairs(), resident = count_resident(row_of_pair, pairs);
              const int64_t read = resident * d_model + (shared.logits == nullptr ? 0 : n) +
                                   (choice.weights == nullptr ? 1 : 2) * pairs;
              return KernelWork{
                  .kind = KernelClass::kSums,
                  .bytes = floats(read + 2 * n) + (quantized.high == nullptr ? 0 : quantized_written(n)),
                  .host_reads = floats((pairs - resident) * d_model)};
            },
            gpu_kernel<combine_kernel>, dim3(blocks_for(d_model), static_cast<unsigned>(choice.n_tokens)),
            kThreads, 0, stream, CombineArgs{choice, row_of_pair, rows, host_rows, shared, d_model}, out,
            quantized),
        "adding experts to the residual stream");
}

}  // namespace hearth::cuda
