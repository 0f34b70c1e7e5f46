// The convolution of recurrent layers, and the gates of delta nets.
//
// A thread of the convolution has one channel and up to kTileTokens tokens of a run. It reads each raw row
// once and keeps the last rows in registers. So the kernel is memory-bound: 8 bytes per channel and token.
//
// The first tile of a run is the only one that reads the sequence's history (tail and log), because a tile is
// longer than the history. So it also replaces the history after it has read it; no other thread needs the
// history. Decoding takes one launch, and so does a prompt.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/cuda/ops/recurrent_ops.h"
#include "kernels/cuda/rows/activation.cuh"
#include "kernels/cuda/rows/exponential.cuh"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/gpu.h"

namespace hearth::cuda {
namespace {

constexpr int kConvThreads = 256;
constexpr int kTileTokens = 16;
static_assert(kTileTokens >= RecurrentShape::kMaxTaps - 1);

struct ConvArgs {
  RecurrentShape shape;
  const DeviceRun* runs;
  const float *raw, *taps, *bias;
  bool silu;
  RecurrentMemory memory;
  float* out[3];
  int64_t widths[3];  // of the outputs; their sum is conv_dim
  DeviceCopies copies;
};

/// One channel of a run's raw rows: its tail, its accepted drafts, and its tokens of the step.
struct RawChannel {
  const float* raw;  // of the run's first token
  float* tail;
  float* log;  // of the slot's first logged draft
  int64_t width, log_stride;
  int n_history, n_replayed;
  bool fresh;

  /// The n-th number before token t is at(t - n). The numbers before the first token of a fresh run are 0.
  __device__ float at(int t) const {
    if (t >= 0) return raw[t * width];
    if (fresh) return 0.0f;
    const int logged = t + n_replayed;
    return logged >= 0 ? log[logged * log_stride] : tail[(logged + n_history) * width];
  }
};

/// Writes what the sequence keeps: copies, the tail, and the raw numbers of the log.
template <int kTaps>
__device__ void keep_channel(const ConvArgs& args, const DeviceRun& run, int64_t channel,
                             const RawChannel& rows) {
  constexpr int kHistory = kTaps - 1;
  for (int c = 0; c < args.copies.n; ++c) {
    const int t = args.copies.after_token[c] - run.first_token;
    if (t < 0 || t >= run.n_tokens) continue;
    for (int i = 0; i < kHistory; ++i)
      args.copies.out[c][i * rows.width + channel] = rows.at(t + 1 - kHistory + i);
  }
  const int n_certain = run.n_tokens - run.n_uncertain;
  float last[kHistory];
  GPU_UNROLL
  for (int i = 0; i < kHistory; ++i) last[i] = rows.at(n_certain - kHistory + i);
  GPU_UNROLL
  for (int i = 0; i < kHistory; ++i) rows.tail[i * rows.width] = last[i];
  for (int i = 0; i < run.n_uncertain; ++i) rows.log[i * rows.log_stride] = rows.at(n_certain + i);
}

/// blockIdx: channels, tile of the run, run.
template <int kTaps>
__global__ void __launch_bounds__(kConvThreads) convolve_kernel(const ConvArgs args) {
  const RecurrentShape& shape = args.shape;
  const int64_t channel = int64_t{blockIdx.x} * kConvThreads + threadIdx.x, width = shape.conv_dim();
  const DeviceRun run = args.runs[blockIdx.z];
  const int begin = static_cast<int>(blockIdx.y) * kTileTokens;
  if (run.slot < 0 || channel >= width || (begin > 0 && begin >= run.n_tokens)) return;
  float* log = nullptr;  // of a layer without drafts
  if (args.memory.log != nullptr) log = args.memory.logged_raw(shape, run.slot, 0) + channel;
  const RawChannel rows{.raw = args.raw + run.first_token * width + channel,
                        .tail = args.memory.tail(shape, run.slot) + channel,
                        .log = log,
                        .width = width,
                        .log_stride = shape.log_floats(),
                        .n_history = kTaps - 1,
                        .n_replayed = run.n_replayed,
                        .fresh = run.fresh != 0};
  int part = 0;
  int64_t within = channel;
  while (within >= args.widths[part]) within -= args.widths[part++];
  const int64_t out_width = args.widths[part];
  float* const out = args.out[part] + run.first_token * out_width + within;

  const float bias = args.bias != nullptr ? args.bias[channel] : 0.0f;
  float taps[kTaps], window[kTaps];
  GPU_UNROLL
  for (int i = 0; i < kTaps; ++i) taps[i] = args.taps[i * width + channel];
  GPU_UNROLL
  for (int i = 0; i < kTaps - 1; ++i)
    window[i] = begin < run.n_tokens ? rows.at(begin - kTaps + 1 + i) : 0.0f;
  const int end = min(begin + kTileTokens, static_cast<int>(run.n_tokens));
  for (int t = begin; t < end; ++t) {
    window[kTaps - 1] = rows.raw[t * width];
    float sum = __fmul_rn(taps[0], window[0]);
    GPU_UNROLL
    for (int i = 1; i < kTaps; ++i) sum = __fmaf_rn(taps[i], window[i], sum);
    if (args.bias != nullptr) sum = __fadd_rn(sum, bias);
    out[t * out_width] = args.silu ? silu(sum) : sum;
    GPU_UNROLL
    for (int i = 0; i < kTaps - 1; ++i) window[i] = window[i + 1];
  }
  if (begin == 0) keep_channel<kTaps>(args, run, channel, rows);
}

KernelWork conv_work(const RecurrentShape& shape, bool has_bias, const DeviceRuns& runs, int n_copies) {
  KernelWork work{.bytes = floats((shape.n_taps + (has_bias ? 1 : 0)) * shape.conv_dim())};
  int64_t n_tokens = 0, n_rows = n_copies * int64_t{shape.n_taps - 1};
  for (int i = 0; i < runs.n; ++i) {
    const DeviceRun& run = runs.runs[i];
    if (run.slot < 0) continue;
    n_tokens += run.n_tokens;
    n_rows += (run.fresh != 0 ? 1 : 2) * (shape.n_taps - 1) + run.n_replayed + run.n_uncertain;
  }
  work.bytes += floats((2 * n_tokens + n_rows) * shape.conv_dim());
  work.instructions = 50.0 * static_cast<double>(n_tokens * shape.conv_dim());
  return work;
}

template <int kTaps>
void launch_conv(const ConvArgs& args, const DeviceRuns& runs, cudaStream_t stream) {
  const int64_t width = args.shape.conv_dim();
  const dim3 grid(static_cast<unsigned>((width + kConvThreads - 1) / kConvThreads),
                  static_cast<unsigned>(std::max(1, (runs.most_tokens + kTileTokens - 1) / kTileTokens)),
                  static_cast<unsigned>(runs.n));
  const auto work = [=, shape = args.shape, has_bias = args.bias != nullptr, n = args.copies.n] {
    return conv_work(shape, has_bias, runs, n);
  };
  check(gpu_launch(work, gpu_kernel<convolve_kernel<kTaps>>, grid, kConvThreads, 0, stream, args),
        "convolving the inputs of a recurrent layer");
}

}  // namespace

DeviceCopies device_copies(std::span<const RecurrentCopy> copies) {
  if (copies.size() > size_t{RecurrentCopy::kMost}) {
    throw std::logic_error("A call for a recurrent layer requests " + std::to_string(copies.size()) +
                           " copies, at most " + std::to_string(RecurrentCopy::kMost) +
                           " are possible; this is a mistake in Hearth.");
  }
  DeviceCopies out{.n = static_cast<int>(copies.size())};
  for (size_t i = 0; i < copies.size(); ++i) {
    out.after_token[i] = copies[i].after_token;
    out.out[i] = copies[i].out;
  }
  return out;
}

void causal_conv(const CausalConv& call, const DeviceRuns& runs, cudaStream_t stream) {
  if (runs.n == 0) return;
  const std::array<int64_t, 3> widths = call.shape.conv_parts();
  const ConvArgs args{.shape = call.shape,
                      .runs = runs.runs,
                      .raw = call.raw,
                      .taps = call.taps,
                      .bias = call.bias,
                      .silu = call.silu,
                      .memory = call.memory,
                      .out = {call.out[0], call.out[1], call.out[2]},
                      .widths = {widths[0], widths[1], widths[2]},
                      .copies = device_copies(call.copies)};
  switch (call.shape.n_taps) {
    case 2:
      return launch_conv<2>(args, runs, stream);
    case 3:
      return launch_conv<3>(args, runs, stream);
    case 4:
      return launch_conv<4>(args, runs, stream);
    case 5:
      return launch_conv<5>(args, runs, stream);
    case 6:
      return launch_conv<6>(args, runs, stream);
    case 7:
      return launch_conv<7>(args, runs, stream);
    case 8:
      return launch_conv<8>(args, runs, stream);
    default:
      throw std::invalid_argument("A recurrent layer on a CUDA device: the convolution has " +
                                  std::to_string(call.shape.n_taps) + " taps, expected 2 to 8.");
  }
}

// decay = e^(a * softplus(alpha + dt)), beta = sigmoid(beta_logits) or the step.
namespace {

constexpr int kGateThreads = 256;

__global__ void __launch_bounds__(kGateThreads) gates_kernel(const DeltaGates call) {
  const int64_t i = int64_t{blockIdx.x} * kGateThreads + threadIdx.x;
  if (i >= int64_t{call.n_tokens} * call.n_v_heads) return;
  const int64_t head = i % call.n_v_heads;
  const float steps = softplus(__fadd_rn(call.alpha[i], call.dt[head]));
  const float beta = call.beta_logits == nullptr ? steps : sigmoid(call.beta_logits[i]);
  call.decay[i] = exponential(__fmul_rn(call.a[head], steps));
  call.beta[i] = beta;
}

}  // namespace

void delta_gates(const DeltaGates& call, cudaStream_t stream) {
  const int64_t n = int64_t{call.n_tokens} * call.n_v_heads;
  if (n == 0) return;
  check(gpu_launch(
            [=, heads = call.n_v_heads, n_inputs = call.beta_logits == nullptr ? 1 : 2] {
              return KernelWork{.bytes = floats((2 + n_inputs) * n + 2 * heads),
                                .instructions = 100.0 * static_cast<double>(n)};
            },
            gpu_kernel<gates_kernel>, static_cast<unsigned>((n + kGateThreads - 1) / kGateThreads),
            kGateThreads, 0, stream, call),
        "computing the gates of a recurrent layer");
}

}  // namespace hearth::cuda
