// Steps recorded and played back: the same work, one launch a segment.
#include "kernels/cuda/runtime/step_recorder.h"

#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/error.h"
#include "kernels/cuda/runtime/memory.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu_test/emulated.h"

namespace hearth::test {
namespace {

/// A step of two segments that adds 1 and then 10 to a number, through memory that changes from step to step.
struct Steps {
  void run(const StepShape& shape) {
    recorder.begin_step(shape);
    recorder.enqueue([this] { cuda::add(ones.data(), 1, number.data(), stream); });
    recorder.end_segment();
    stream.wait();  // what the host does between
    recorder.enqueue([this] { cuda::add(tens.data(), 1, number.data(), stream); });
    recorder.end_segment();
    stream.wait();
  }
  float value() const { return number.read(stream)[0]; }

  TestStream stream;
  DeviceArray<float> ones{std::vector<float>{1}}, tens{std::vector<float>{10}}, number{std::vector<float>{0}};
  cuda::StepRecorder recorder{stream, true};
};

constexpr StepShape kDecoding{
    .n_tokens = 1, .n_logit_rows = 1, .n_tables = 1, .longest = 5, .decoding = true};

StepShape of_tokens(int n_tokens) {
  StepShape shape = kDecoding;
  shape.n_tokens = n_tokens;
  return shape;
}

}  // namespace

TEST_CASE("CUDA: a decoding step is recorded the second time, and its graphs are all there is from then on") {
  cudaemu::Emulated emulated;
  Steps steps;
  for (int i = 1; i <= 6; ++i) {
    cudaemu::reset_stats();
    steps.run(kDecoding);
    INFO("step " << i);
    REQUIRE(steps.value() == 11.0f * static_cast<float>(i));
    if (!cudaemu::is_emulated()) continue;
    const cudaemu::Stats stats = cudaemu::stats();
    REQUIRE(stats.launches == 2);
    REQUIRE(stats.graph_launches == (i == 1 ? 0 : 2));
    REQUIRE(stats.graph_kernels == (i == 1 ? 0 : 2));
  }
}

TEST_CASE("CUDA: other shapes than decoding's are never recorded, and none where recording is off") {
  cudaemu::Emulated emulated;
  Steps steps;
  StepShape prompt = kDecoding;
  prompt.decoding = false;
  for (int i = 0; i < 4; ++i) steps.run(prompt);
  steps.recorder = cuda::StepRecorder(steps.stream, false);
  for (int i = 0; i < 4; ++i) steps.run(kDecoding);
  CHECK(steps.value() == 88.0f);
  CHECK(cudaemu::stats().graph_launches == 0);
}

TEST_CASE("CUDA: steps whose contexts grow to the next power of two have one shape") {
  const auto longest = [](int n) { return cuda::StepRecorder::rounded({.longest = n}).longest; };
  CHECK(longest(1) == 256);
  CHECK(longest(256) == 256);
  CHECK(longest(257) == 512);
  CHECK(longest(8192) == 8192);
  CHECK(longest(8193) == 16384);
}

TEST_CASE("CUDA: before a graph is launched what it reads can still be written") {
  cudaemu::Emulated emulated;
  const TestStream stream;
  const cuda::PinnedArray<float> given(1);
  const DeviceArray<float> taken(1), number(std::vector<float>{0});
  cuda::StepRecorder recorder(stream, true);
  float expected = 0;
  for (int i = 1; i <= 5; ++i) {
    recorder.begin_step(kDecoding);
    if (recorder.enqueues_at_once()) *given.data() = static_cast<float>(i);
    recorder.enqueue([&] {
      REQUIRE(cudaMemcpyAsync(taken.data(), given.data(), sizeof(float), cudaMemcpyHostToDevice, stream) ==
              cudaSuccess);
      cuda::add(taken.data(), 1, number.data(), stream);
    });
    recorder.end_segment([&] { *given.data() = static_cast<float>(i); });
    expected += static_cast<float>(i);
    REQUIRE(number.read(stream)[0] == expected);
  }
}

TEST_CASE("CUDA: the shape that was not used for the longest time is forgotten", "[emulated]") {
  cudaemu::Emulated emulated;
  Steps steps;
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (int n = 1; n <= 8; ++n) steps.run(of_tokens(n));
  }
  const auto graphs_of = [&](int n_tokens) {
    cudaemu::reset_stats();
    steps.run(of_tokens(n_tokens));
    return cudaemu::stats().graph_launches;
  };
  CHECK(graphs_of(1) == 2);
  CHECK(graphs_of(9) == 0);  // takes the place of 2
  CHECK(graphs_of(1) == 2);
  CHECK(graphs_of(3) == 2);
  CHECK(graphs_of(2) == 0);
  steps.recorder.forget();
  CHECK(graphs_of(1) == 0);
  CHECK(graphs_of(1) == 2);
}

TEST_CASE("CUDA: without memory for graphs steps run as they come", "[emulated]") {
  cudaemu::Emulated emulated;
  const char* const call = GENERATE("cudaStreamBeginCapture", "cudaGraphInstantiate", "cudaGraphLaunch");
  const int n_good = GENERATE(0, 1);
  INFO(call << " after " << n_good);
  Steps steps;
  steps.run(kDecoding);
  cudaemu::fail_next(call, n_good, cudaErrorMemoryAllocation);
  for (int i = 2; i <= 5; ++i) {
    steps.run(kDecoding);
    REQUIRE(steps.value() == 11.0f * static_cast<float>(i));
  }
  CHECK(cudaemu::stats().graph_launches == static_cast<uint64_t>(n_good));
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("CUDA: what fails while a step is recorded is an error of that step", "[emulated]") {
  cudaemu::Emulated emulated;
  Steps steps;
  steps.run(kDecoding);
  cudaemu::fail_next("launch", 0, cudaErrorLaunchFailure);
  CHECK_THROWS_AS(steps.run(kDecoding), cuda::CudaError);
  cudaStreamCaptureStatus status;
  REQUIRE(cudaStreamIsCapturing(steps.stream, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusNone);
}

TEST_CASE("CUDA: a step with the shape of a recorded one and other work is refused, not played back wrong") {
  cudaemu::Emulated emulated;
  Steps steps;
  for (int i = 0; i < 3; ++i) steps.run(kDecoding);
  steps.recorder.begin_step(kDecoding);
  steps.recorder.enqueue([] {});
  steps.recorder.enqueue([] {});
  CHECK_THROWS_AS(steps.recorder.end_segment(), std::logic_error);
}

}  // namespace hearth::test
