// Streams and events of emulated CUDA: what is ordered, what runs at the same time, and the default stream's
// order.
#include <deque>
#include <mutex>
#include <vector>

#include "kernels/cuda/runtime/gpu.h"
#include "tests/support/cudaemu_test/emulated.h"

namespace hearth::cudaemu {
namespace {

using test::DeviceArray;
using test::TestStream;

/// Appends numbers from streams, in the order of their turns.
class Log {
 public:
  void append_from(cudaStream_t stream, int number) {
    entries_.push_back({this, number});
    REQUIRE(cudaLaunchHostFunc(
                stream, [](void* entry) { static_cast<Entry*>(entry)->append(); }, &entries_.back()) ==
            cudaSuccess);
  }
  std::vector<int> numbers() {
    const std::lock_guard lock(mutex_);
    return numbers_;
  }

 private:
  struct Entry {
    Log* log;
    int number;
    void append() {
      const std::lock_guard lock(log->mutex_);
      log->numbers_.push_back(number);
    }
  };
  std::deque<Entry> entries_;
  std::mutex mutex_;
  std::vector<int> numbers_;
};

class TestEvent {
 public:
  explicit TestEvent(unsigned flags = cudaEventDisableTiming) {
    REQUIRE(cudaEventCreateWithFlags(&event_, flags) == cudaSuccess);
  }
  ~TestEvent() { cudaEventDestroy(event_); }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;
  operator cudaEvent_t() const { return event_; }  // converts on purpose

 private:
  cudaEvent_t event_ = nullptr;
};

TEST_CASE("emulated: a stream does its work in order") {
  Emulated emulated;
  config().jitter_us = GENERATE(0, 50);
  const TestStream stream;
  Log log;
  std::vector<int> want;
  for (int i = 0; i < 50; ++i) {
    log.append_from(stream, i);
    want.push_back(i);
  }
  stream.wait();
  CHECK(log.numbers() == want);
}

TEST_CASE("emulated: streams run at the same time") {
  Emulated emulated;
  const TestStream a, b;
  Gate first, second;
  // Each waits for the other, so neither would end if they ran one after the other.
  first.hold(a);
  second.open_from(a);
  first.open_from(b);
  second.hold(b);
  a.wait();
  b.wait();
  CHECK(cudaStreamQuery(a) == cudaSuccess);
}

TEST_CASE("emulated: a stream waits for another stream's event as it was last recorded") {
  Emulated emulated;
  config().jitter_us = GENERATE(0, 50);
  const TestStream a, b;
  const TestEvent event;
  Log log;
  Gate gate;
  CHECK(cudaStreamWaitEvent(b, event, 0) == cudaSuccess);  // never recorded, so there is nothing to wait for
  log.append_from(b, 1);
  b.wait();
  gate.hold(a);
  log.append_from(a, 2);
  REQUIRE(cudaEventRecord(event, a) == cudaSuccess);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  cudaGetLastError();
  REQUIRE(cudaStreamWaitEvent(b, event, 0) == cudaSuccess);
  log.append_from(b, 3);
  CHECK(cudaStreamQuery(b) == cudaErrorNotReady);
  cudaGetLastError();
  gate.open();
  b.wait();
  CHECK(log.numbers() == std::vector<int>{1, 2, 3});
  CHECK(cudaEventQuery(event) == cudaSuccess);
}

TEST_CASE("emulated: a destroyed event still releases its waiters") {
  Emulated emulated;
  const TestStream a, b;
  Gate gate;
  gate.hold(a);
  {
    const TestEvent event;
    REQUIRE(cudaEventRecord(event, a) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(b, event, 0) == cudaSuccess);
  }
  gate.open();
  b.wait();
  CHECK(cudaStreamQuery(b) == cudaSuccess);
}

TEST_CASE("emulated: events measure the time between them, if created to do so") {
  Emulated emulated;
  const TestStream stream;
  const TestEvent begin(cudaEventDefault), end(cudaEventDefault), timeless;
  float ms = -1;
  CHECK(cudaEventElapsedTime(&ms, begin, end) == cudaErrorInvalidResourceHandle);  // not recorded
  Gate gate;
  REQUIRE(cudaEventRecord(begin, stream) == cudaSuccess);
  gate.hold(stream);
  REQUIRE(cudaEventRecord(end, stream) == cudaSuccess);
  REQUIRE(cudaEventRecord(timeless, stream) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&ms, begin, end) == cudaErrorNotReady);
  gate.open();
  REQUIRE(cudaEventSynchronize(end) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&ms, begin, end) == cudaSuccess);
  CHECK(ms >= 0);
  CHECK(cudaEventElapsedTime(&ms, end, begin) == cudaSuccess);
  CHECK(ms <= 0);
  CHECK(cudaEventElapsedTime(&ms, begin, timeless) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("emulated: the default stream is ordered with blocking streams only") {
  Emulated emulated;
  cudaStream_t blocking = nullptr;
  REQUIRE(cudaStreamCreate(&blocking) == cudaSuccess);
  const TestStream other;
  Log log;
  Gate gate;
  gate.hold(other);  // otherwise the default stream would wait for it here forever
  log.append_from(other, 0);
  log.append_from(blocking, 1);
  log.append_from(nullptr, 2);
  log.append_from(blocking, 3);
  log.append_from(cudaStreamLegacy, 4);
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(log.numbers() == std::vector<int>{1, 2, 3, 4});
  CHECK(stats().default_stream == 2);
  gate.open();
  other.wait();
  REQUIRE(cudaStreamDestroy(blocking) == cudaSuccess);
}

TEST_CASE("emulated: uses of the default stream are counted") {
  Emulated emulated;
  const TestStream stream;
  const DeviceArray<int> values(4);
  REQUIRE(cudaMemsetAsync(values.data(), 0, 16, stream) == cudaSuccess);
  stream.wait();
  CHECK(stats().default_stream == 0);
  REQUIRE(cudaMemset(values.data(), 0, 16) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(values.data(), 0, 16, nullptr) == cudaSuccess);
  CHECK(stats().default_stream == 2);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("emulated: a destroyed stream finishes its work first, and is unknown afterward") {
  Emulated emulated;
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  Log log;
  log.append_from(stream, 1);
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(log.numbers() == std::vector<int>{1});
  CHECK(cudaStreamSynchronize(stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamDestroy(stream) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("emulated: streams keep their priorities, within the device's range") {
  Emulated emulated;
  int least = 0, greatest = 0, priority = 9;
  REQUIRE(cudaDeviceGetStreamPriorityRange(&least, &greatest) == cudaSuccess);
  CHECK(greatest < least);
  const auto priority_of = [&](int asked) {
    cudaStream_t stream = nullptr;
    REQUIRE(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, asked) == cudaSuccess);
    REQUIRE(cudaStreamGetPriority(stream, &priority) == cudaSuccess);
    REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
    return priority;
  };
  CHECK(priority_of(greatest) == greatest);
  CHECK(priority_of(greatest - 10) == greatest);
  CHECK(priority_of(least + 1) == least);
}

}  // namespace
}  // namespace hearth::cudaemu
