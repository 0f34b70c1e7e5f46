// See the header.
#include "kernels/cuda/runtime/latency.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/error.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/step_recorder.h"
#include "kernels/cuda/runtime/timed_event.h"
#include "kernels/cuda/sharing/number_wait.h"

namespace hearth::cuda {
namespace {

constexpr int64_t kFloats = 4096;  // a token's, of a 7B model
// A short and a long graph: the cost of launching a graph is in both, and cancels in the difference.
constexpr int kFewKernels = 16, kManyKernels = 80;
constexpr int kRoundTrips = 32;
constexpr int kPasses = 5;
// One tick of a clock, because an emulated device may take no time.
constexpr double kLeastSeconds = 1e-8;

/// Records what work() enqueues.
template <class Work>
GraphExec record(const Stream& stream, const Work& work) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording what is to be timed");
  cudaGraph_t graph = nullptr;
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), "recording what is to be timed");
  cudaGraphExec_t exec = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  check_allocation(code, "making what is to be timed ready");
  return GraphExec(exec);
}

void launch(const GraphExec& graph, const Stream& stream) {
  check(cudaGraphLaunch(graph, stream), "launching what is to be timed");
}

/// Seconds between the events around a graph, the best of a few passes.
double best_seconds(const GraphExec& graph, const Stream& stream) {
  TimedEvent begin, end;
  double best = 1e30;
  for (int pass = 0; pass < kPasses; ++pass) {
    begin.record(stream);
    launch(graph, stream);
    end.record(stream);
    stream.wait();
    best = std::min(best, end.seconds_since(begin));
  }
  return best;
}

double measure_round_trip(const Stream& stream, float* x, float* y) {
  const DeviceArray<uint32_t> state(2);
  const PinnedArray<uint32_t> number(4);
  const PinnedArray<float> host(kFloats);
  check(cudaMemsetAsync(state.data(), 0, state.bytes(), stream), "clearing the hand-over's state");
  stream.wait();
  *number.data() = 0;
  HandOver what;
  what.parts[0] = {x, host.data(), kFloats};
  what.state = state.data();
  what.number = number.data();
  const GraphExec graph = record(stream, [&] {
    add(x, kFloats, y, stream);
    hand_over(what, stream);
  });
  double best = 1e30;
  uint32_t n_begun = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    for (int trip = 0; trip < kRoundTrips; ++trip) {
      launch(graph, stream);
      wait_for_number(*number.data(), ++n_begun, stream, "a round trip's number");
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    best = std::min(best, taken.count() / kRoundTrips);
    stream.wait();
  }
  return best;
}

}  // namespace

Latency measure_latency() {
  const Stream stream;
  const DeviceArray<float> x(kFloats), y(kFloats);
  check(cudaMemsetAsync(x.data(), 0, x.bytes(), stream), "clearing floats to add");
  check(cudaMemsetAsync(y.data(), 0, y.bytes(), stream), "clearing floats to add");
  const auto chain = [&](int n_kernels) {
    return record(stream, [&] {
      for (int i = 0; i < n_kernels; ++i) add(x.data(), kFloats, y.data(), stream);
    });
  };
  const GraphExec few = chain(kFewKernels), many = chain(kManyKernels);
  Latency found;
  found.launch_s = std::max(
      (best_seconds(many, stream) - best_seconds(few, stream)) / (kManyKernels - kFewKernels), kLeastSeconds);
  found.round_trip_s = std::max(measure_round_trip(stream, x.data(), y.data()), kLeastSeconds);
  return found;
}

}  // namespace hearth::cuda
