// Graphs of emulated CUDA: captured, forked and joined, launched again and again, updated, and what a capture
// forbids.
#include <thread>

#include "kernels/cuda/runtime/gpu.h"
#include "tests/support/cudaemu_test/emulated.h"

namespace hearth::cudaemu {
namespace {

using cuda::gpu_kernel;
using cuda::gpu_launch;
using test::DeviceArray;
using test::TestStream;

__global__ void add_amount_kernel(int* value, int amount) { *value += amount; }
__global__ void scale_kernel(int* value, int factor) { *value *= factor; }

void add(cudaStream_t stream, int* value, int amount) {
  REQUIRE(gpu_launch(no_work, gpu_kernel<add_amount_kernel>, 1, 1, 0, stream, value, amount) == cudaSuccess);
}

/// Captures what `work` enqueues in the stream as a graph.
template <class Work>
cudaGraph_t captured(cudaStream_t stream, Work&& work) {
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  work();
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  return graph;
}

/// A graph ready to be launched.
class Executable {
 public:
  explicit Executable(cudaGraph_t graph) {
    REQUIRE(cudaGraphInstantiate(&exec_, graph, 0) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  }
  ~Executable() { cudaGraphExecDestroy(exec_); }
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  operator cudaGraphExec_t() const { return exec_; }  // converts on purpose

 private:
  cudaGraphExec_t exec_ = nullptr;
};

TEST_CASE("emulated: a graph does nothing when captured, and all of its work at each launch") {
  Emulated emulated;
  const TestStream stream;
  const DeviceArray<int> value(std::vector<int>{1});
  const Executable exec(captured(stream, [&] {
    cudaStreamCaptureStatus status;
    REQUIRE(cudaStreamIsCapturing(stream, &status) == cudaSuccess);
    CHECK(status == cudaStreamCaptureStatusActive);
    add(stream, value.data(), 2);
    REQUIRE(gpu_launch(no_work, gpu_kernel<scale_kernel>, 1, 1, 0, stream, value.data(), 10) == cudaSuccess);
  }));
  CHECK(value.read(stream)[0] == 1);
  REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
  CHECK(value.read(stream)[0] == 30);
  REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
  CHECK(value.read(stream)[0] == 320);
  CHECK(stats().graph_launches == 2);
  CHECK(stats().launches == 4);
  CHECK(stats().graph_kernels == 2 * stats().graph_launches);
  CHECK(stats().graph_kernels == stats().launches);
  add(stream, value.data(), 1);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(stats().launches == stats().graph_kernels + 1);
}

/// A graph that forks into `other` and joins: + 1, then * 3 and * 5 side by side on two values, then a copy.
cudaGraph_t forked(cudaStream_t stream, cudaStream_t other, int* values) {
  cudaEvent_t fork = nullptr, join = nullptr;
  REQUIRE(cudaEventCreate(&fork) == cudaSuccess);
  REQUIRE(cudaEventCreate(&join) == cudaSuccess);
  const cudaGraph_t graph = captured(stream, [&] {
    add(stream, values, 1);
    REQUIRE(cudaEventRecord(fork, stream) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(other, fork, 0) == cudaSuccess);
    REQUIRE(gpu_launch(no_work, gpu_kernel<scale_kernel>, 1, 1, 0, stream, values, 3) == cudaSuccess);
    REQUIRE(gpu_launch(no_work, gpu_kernel<scale_kernel>, 1, 1, 0, other, values + 1, 5) == cudaSuccess);
    REQUIRE(cudaEventRecord(join, other) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(stream, join, 0) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(values + 2, values, 2 * sizeof(int), cudaMemcpyDeviceToDevice, stream) ==
            cudaSuccess);
  });
  REQUIRE(cudaEventDestroy(fork) == cudaSuccess);
  REQUIRE(cudaEventDestroy(join) == cudaSuccess);
  return graph;
}

TEST_CASE("emulated: a graph's nodes run after those they depend on, and otherwise in any order") {
  Emulated emulated;
  config().schedule = GENERATE(Schedule::kForward, Schedule::kReverse, Schedule::kRandom);
  const TestStream stream, other;
  const DeviceArray<int> values(std::vector<int>{1, 1, 0, 0});
  const cudaGraph_t graph = forked(stream, other, values.data());
  size_t n_nodes = 0;
  REQUIRE(cudaGraphGetNodes(graph, nullptr, &n_nodes) == cudaSuccess);
  CHECK(n_nodes == 4);
  const Executable exec(graph);
  REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
  CHECK(values.read(stream) == std::vector<int>{6, 5, 6, 5});
  // The stream that joined works as before.
  add(other, values.data(), 1);
  CHECK(values.read(other)[0] == 7);
}

TEST_CASE("emulated: schedules run independent nodes in different orders") {
  Emulated emulated;
  const TestStream stream, other;
  const DeviceArray<int> values(std::vector<int>{1, 1, 0, 0});
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreate(&event) == cudaSuccess);
  // Wrong because it is unordered: + 1 in one stream and * 10 in the other, on the same value.
  const Executable exec(captured(stream, [&] {
    REQUIRE(cudaMemsetAsync(values.data(), 0, 4, stream) == cudaSuccess);
    REQUIRE(cudaEventRecord(event, stream) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(other, event, 0) == cudaSuccess);
    add(stream, values.data(), 1);
    REQUIRE(gpu_launch(no_work, gpu_kernel<scale_kernel>, 1, 1, 0, other, values.data(), 10) == cudaSuccess);
    REQUIRE(cudaEventRecord(event, other) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(stream, event, 0) == cudaSuccess);
  }));
  const auto result = [&](Schedule schedule) {
    config().schedule = schedule;
    REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
    return values.read(stream)[0];
  };
  CHECK(result(Schedule::kForward) == 10);
  CHECK(result(Schedule::kReverse) == 1);
  REQUIRE(cudaEventDestroy(event) == cudaSuccess);
}

TEST_CASE("emulated: a fork that is not joined spoils the capture") {
  Emulated emulated;
  const TestStream stream, other;
  const DeviceArray<int> values(std::vector<int>{1, 1});
  cudaEvent_t fork = nullptr;
  REQUIRE(cudaEventCreate(&fork) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  add(stream, values.data(), 1);
  REQUIRE(cudaEventRecord(fork, stream) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(other, fork, 0) == cudaSuccess);
  add(other, values.data() + 1, 1);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(other, &graph) == cudaErrorStreamCaptureUnmatched);
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureUnjoined);
  CHECK(graph == nullptr);
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorIllegalState);
  // An event of an ended capture marks no point in time.
  CHECK(cudaStreamWaitEvent(other, fork, 0) == cudaErrorCapturedEvent);
  CHECK(cudaEventQuery(fork) == cudaErrorCapturedEvent);
  REQUIRE(cudaEventDestroy(fork) == cudaSuccess);
}

TEST_CASE("emulated: a capture cannot depend on work outside it, or on another capture") {
  Emulated emulated;
  const TestStream stream, other;
  cudaEvent_t outside = nullptr, captured_event = nullptr;
  REQUIRE(cudaEventCreate(&outside) == cudaSuccess);
  REQUIRE(cudaEventCreate(&captured_event) == cudaSuccess);
  REQUIRE(cudaEventRecord(outside, other) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) == cudaSuccess);
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) == cudaErrorIllegalState);
  CHECK(cudaStreamWaitEvent(stream, outside, 0) == cudaErrorStreamCaptureIsolation);
  REQUIRE(cudaStreamBeginCapture(other, cudaStreamCaptureModeRelaxed) == cudaSuccess);
  REQUIRE(cudaEventRecord(captured_event, other) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(stream, captured_event, 0) == cudaErrorStreamCaptureMerge);
  CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed) == cudaErrorStreamCaptureUnsupported);
  for (const cudaStream_t capturing : {cudaStream_t{stream}, cudaStream_t{other}}) {
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(capturing, &graph) == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  }
  REQUIRE(cudaEventDestroy(outside) == cudaSuccess);
  REQUIRE(cudaEventDestroy(captured_event) == cudaSuccess);
}

TEST_CASE("emulated: a capture's mode says which threads may not wait for the device; a wait spoils it") {
  Emulated emulated;
  const TestStream stream, other;
  const auto mode =
      GENERATE(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed);
  const bool from_elsewhere = GENERATE(false, true);
  const bool forbidden =
      mode == cudaStreamCaptureModeGlobal || (mode == cudaStreamCaptureModeThreadLocal && !from_elsewhere);
  REQUIRE(cudaStreamBeginCapture(stream, mode) == cudaSuccess);
  cudaError_t waited = cudaErrorUnknown, allocated = cudaErrorUnknown;
  const auto forbidden_calls = [&] {
    waited = cudaStreamSynchronize(other);
    void* p = nullptr;
    allocated = cudaMalloc(&p, 16);
    if (p != nullptr) cudaFree(p);
  };
  if (from_elsewhere)
    std::jthread(forbidden_calls).join();
  else
    forbidden_calls();
  CHECK(waited == (forbidden ? cudaErrorStreamCaptureUnsupported : cudaSuccess));
  CHECK(allocated == waited);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph) ==
        (forbidden ? cudaErrorStreamCaptureInvalidated : cudaSuccess));
  CHECK((graph == nullptr) == forbidden);
  if (graph != nullptr) CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
}

TEST_CASE("emulated: an executable graph takes new arguments and sizes, and no new shape") {
  Emulated emulated;
  const TestStream stream;
  const DeviceArray<int> value(std::vector<int>{0});
  const auto adding = [&](int amount) {
    return captured(stream, [&] { add(stream, value.data(), amount); });
  };
  const Executable exec(adding(1));
  Gate gate;
  gate.hold(stream);
  REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
  const cudaGraph_t ten = adding(10);
  cudaGraphExecUpdateResultInfo info;
  REQUIRE(cudaGraphExecUpdate(exec, ten, &info) == cudaSuccess);
  CHECK(info.result == cudaGraphExecUpdateSuccess);
  REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
  gate.open();
  CHECK(value.read(stream)[0] == 11);  // the waiting launch used the graph as it was before the update

  const cudaGraph_t more = captured(stream, [&] {
    add(stream, value.data(), 1);
    add(stream, value.data(), 1);
  });
  CHECK(cudaGraphExecUpdate(exec, more, &info) == cudaErrorGraphExecUpdateFailure);
  CHECK(info.result == cudaGraphExecUpdateErrorTopologyChanged);
  const cudaGraph_t fill =
      captured(stream, [&] { REQUIRE(cudaMemsetAsync(value.data(), 0, 4, stream) == cudaSuccess); });
  CHECK(cudaGraphExecUpdate(exec, fill, &info) == cudaErrorGraphExecUpdateFailure);
  REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
  CHECK(value.read(stream)[0] == 21);
  for (const cudaGraph_t graph : {ten, more, fill}) CHECK(cudaGraphDestroy(graph) == cudaSuccess);
}

}  // namespace
}  // namespace hearth::cudaemu
