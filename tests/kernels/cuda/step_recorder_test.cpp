// Steps recorded and played back: they do the same work with one launch per segment.
#include "kernels/cuda/runtime/step_recorder.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/step_inputs.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu_test/emulated.h"

namespace hearth::test {
namespace {

/// A step of two segments that adds first 1 and then 10 to a number, through memory that changes from step to
/// step.
struct Steps {
  void run(const StepShape& shape) {
    recorder.begin_step(shape);
    recorder.enqueue([this] { cuda::add(ones.data(), 1, number.data(), stream); });
    recorder.end_segment();
    stream.wait();  // the host's work in between
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

/// A server with four slots: requests come and go in them, and each step has a token of every sequence, with
/// or without draft tokens after it.
class Server {
 public:
  Server() { inputs_.reserve(kBounds, on_device_.data()); }

  /// Runs a decoding step and checks the device's tables. Returns whether the step was played back.
  bool step(bool drafts) {
    do {
      change_requests();
    } while (std::ranges::none_of(slots_, &Slot::decodes));
    fill(drafts);
    const StepShape shape{.n_tokens = static_cast<int>(positions_.size()),
                          .n_logit_rows = static_cast<int>(positions_.size()),
                          .n_tables = kSlots,
                          .longest = 1 + *std::ranges::max_element(positions_),
                          .decoding = true};
    recorder_.begin_step(shape);
    inputs_.begin_step();
    const KvPlaces there =
        inputs_.on_device({.n_tokens = shape.n_tokens,
                           .positions = positions_.data(),
                           .table_of = table_of_.data(),
                           .block_tables = tables_.data(),
                           .max_blocks = kMaxBlocks,
                           .n_tables = kSlots},
                          kBlockTokens, cuda::StepRecorder::rounded(shape).longest, recorder_);
    bool played = true;
    recorder_.enqueue([&played] { played = false; });
    recorder_.end_segment();
    check_tables(there);
    return played;
  }

 private:
  static constexpr int kSlots = 4, kBlockTokens = 16, kContext = 4096, kMaxBlocks = kContext / kBlockTokens,
                       kMaxDraft = 4;
  static constexpr StepBounds kBounds{
      .max_tokens = kSlots * (1 + kMaxDraft), .max_cols = 64, .max_context = kContext};
  struct Slot {
    int position = 0, n_left = 0;
    bool decodes() const { return n_left > 0; }
  };

  int random(int from, int to) { return std::uniform_int_distribution(from, to)(random_); }

  /// A slot stays empty for 40 steps on average. Prompts are computed in steps of their own.
  void change_requests() {
    for (int s = 0; s < kSlots; ++s) {
      Slot& slot = slots_[static_cast<size_t>(s)];
      if (slot.decodes() || random(1, 40) != 1) continue;
      slot = {.position = random(20, 2500), .n_left = random(20, 500)};
      for (int b = 0; b < kMaxBlocks; ++b) tables_[static_cast<size_t>(s * kMaxBlocks + b)] = random(0, 9999);
    }
  }

  void fill(bool drafts) {
    positions_.clear();
    table_of_.clear();
    for (int s = 0; s < kSlots; ++s) {
      Slot& slot = slots_[static_cast<size_t>(s)];
      if (!slot.decodes()) continue;
      const int n = 1 + (drafts && random(1, 2) == 1 ? random(1, kMaxDraft) : 0);
      for (int i = 0; i < n; ++i) {
        positions_.push_back(slot.position + i);
        table_of_.push_back(s);
      }
      const int n_kept = random(1, n);
      slot.position += n_kept;
      slot.n_left = std::max(0, slot.n_left - n_kept);
    }
  }

  /// Every token finds the KV block of its position, and its sequence's first one.
  void check_tables(const KvPlaces& there) {
    stream_.wait();
    const std::vector<int32_t> device = on_device_.read(stream_);
    const auto at = [&](const int32_t* array) { return device.begin() + (array - on_device_.data()); };
    for (size_t t = 0; t < positions_.size(); ++t) {
      const int32_t table = at(there.table_of)[static_cast<int>(t)], block = positions_[t] / kBlockTokens;
      REQUIRE(table == table_of_[t]);
      REQUIRE(at(there.positions)[static_cast<int>(t)] == positions_[t]);
      REQUIRE(block < there.max_blocks);
      for (const int b : {0, block}) {
        REQUIRE(at(there.block_tables)[table * there.max_blocks + b] ==
                tables_[static_cast<size_t>(table * kMaxBlocks + b)]);
      }
    }
  }

  TestStream stream_;
  DeviceArray<int32_t> on_device_{cuda::StepInputs::size(kBounds)};
  cuda::StepRecorder recorder_{stream_, true};
  cuda::StepInputs inputs_;
  std::mt19937 random_{7};
  std::array<Slot, kSlots> slots_;
  std::vector<int32_t> tables_ = std::vector<int32_t>(kSlots * kMaxBlocks);
  std::vector<int32_t> positions_, table_of_;
};

}  // namespace

TEST_CASE("CUDA: a decoding step is recorded the second time, and only its graphs run from then on") {
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

TEST_CASE("CUDA: only decoding steps are recorded, and none if recording is off") {
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

TEST_CASE("CUDA: a graph's inputs can still be written before it is launched") {
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

TEST_CASE("CUDA: the least recently used shape is forgotten", "[emulated]") {
  cudaemu::Emulated emulated;
  Steps steps;
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (int n = 1; n <= 64; ++n) steps.run(of_tokens(n));
  }
  const auto graphs_of = [&](int n_tokens) {
    cudaemu::reset_stats();
    steps.run(of_tokens(n_tokens));
    return cudaemu::stats().graph_launches;
  };
  CHECK(graphs_of(1) == 2);
  CHECK(graphs_of(65) == 0);  // replaces 2
  CHECK(graphs_of(1) == 2);
  CHECK(graphs_of(3) == 2);
  CHECK(graphs_of(2) == 0);
  steps.recorder.forget();
  CHECK(graphs_of(1) == 0);
  CHECK(graphs_of(1) == 2);
}

TEST_CASE("CUDA: shapes are forgotten before their graphs take more than 160 MiB of the device's memory",
          "[emulated]") {
  cudaemu::Emulated emulated;
  cudaemu::config().graph_bytes = size_t{10} << 20;  // a step has two
  Steps steps;
  const auto n_graphs = [] {
    size_t free = 0, total = 0;
    REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
    return (cudaemu::config().vram_bytes - cudaemu::stats().vram_used - free) / cudaemu::config().graph_bytes;
  };
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (int n = 1; n <= 12; ++n) steps.run(of_tokens(n));
  }
  steps.run(of_tokens(12));  // begins after the memory for 12 was measured
  CHECK(n_graphs() == 16);
  CHECK(steps.value() == 11.0f * 25);
  cudaemu::reset_stats();
  for (int n = 5; n <= 12; ++n) steps.run(of_tokens(n));
  CHECK(cudaemu::stats().graph_launches == 16);
  cudaemu::reset_stats();
  for (int n = 1; n <= 4; ++n) steps.run(of_tokens(n));
  CHECK(cudaemu::stats().graph_launches == 0);

  // One shape is kept, whatever it takes.
  steps.recorder.forget();
  cudaemu::config().graph_bytes = size_t{100} << 20;
  for (int i = 0; i < 4; ++i) steps.run(of_tokens(1));
  CHECK(n_graphs() == 2);
}

TEST_CASE("CUDA: a server of four slots plays back nearly all steps, whichever slots have sequences") {
  cudaemu::Emulated emulated;
  const bool drafts = GENERATE(false, true);
  constexpr int kWarmUp = 2000, kSteps = 4000;
  Server server;
  for (int i = 0; i < kWarmUp; ++i) server.step(drafts);
  int n_played = 0;
  for (int i = 0; i < kSteps; ++i) n_played += server.step(drafts) ? 1 : 0;
  INFO("drafts " << drafts << ": " << 100.0 * n_played / kSteps << " % played back");
  CHECK(n_played >= kSteps * 99 / 100);
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

TEST_CASE("CUDA: a failure while a step is recorded is an error of that step", "[emulated]") {
  cudaemu::Emulated emulated;
  Steps steps;
  steps.run(kDecoding);
  cudaemu::fail_next("launch", 0, cudaErrorLaunchFailure);
  CHECK_THROWS_AS(steps.run(kDecoding), cuda::CudaError);
  cudaStreamCaptureStatus status;
  REQUIRE(cudaStreamIsCapturing(steps.stream, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusNone);
}

TEST_CASE("CUDA: a step with a recorded shape but other work is refused, not played back wrongly") {
  cudaemu::Emulated emulated;
  Steps steps;
  for (int i = 0; i < 3; ++i) steps.run(kDecoding);
  steps.recorder.begin_step(kDecoding);
  steps.recorder.enqueue([] {});
  steps.recorder.enqueue([] {});
  CHECK_THROWS_AS(steps.recorder.end_segment(), std::logic_error);
}

}  // namespace hearth::test
