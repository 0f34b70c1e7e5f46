// See the header.
#include "kernels/cuda/bandwidth.h"

#include <algorithm>
#include <cstddef>
#include <new>

#include "kernels/cuda/error.h"
#include "kernels/cuda/memory.h"

namespace hearth::cuda {
namespace {

// Several times the largest cache of a GPU (B200: 126 MB), so that copies read and write memory.
constexpr size_t kCopiedBytes = size_t{512} << 20;
constexpr size_t kLeastBytes = size_t{8} << 20;
// Long enough that starting a copy, some microseconds, is nothing: 10 ms at 25 GB/s.
constexpr size_t kSentBytes = size_t{256} << 20;
constexpr int kPasses = 5;

/// A mark in a stream's work that knows its time.
class TimedEvent {
 public:
  TimedEvent() { check(cudaEventCreate(&event_), "creating an event"); }
  ~TimedEvent() { cudaEventDestroy(event_); }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;
  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "marking a copy"); }
  double seconds_since(const TimedEvent& begin) const {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin.event_, event_), "timing a copy");
    return static_cast<double>(ms) / 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Seconds of the fastest of a few copies.
double best_copy_seconds(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                         const Stream& stream) {
  double best = 1e30;
  TimedEvent begin, end;
  for (int pass = 0; pass < kPasses; ++pass) {
    begin.record(stream);
    check(cudaMemcpyAsync(to, from, bytes, kind, stream), "measuring bandwidth");
    end.record(stream);
    stream.wait();
    // A clock's tick, where an emulated device was done at once.
    best = std::min(best, std::max(end.seconds_since(begin), 1e-7));
  }
  return best;
}

/// Twice `bytes` of device memory, or half of it, and so on.
DeviceArray<std::byte> take_pair(size_t& bytes) {
  for (;; bytes /= 2) {
    try {
      return DeviceArray<std::byte>(2 * bytes);
    } catch (const std::bad_alloc&) {
      if (bytes / 2 < kLeastBytes) throw;
    }
  }
}

}  // namespace

Bandwidth measure_bandwidth() {
  Bandwidth found;
  const Stream stream;
  size_t bytes = kCopiedBytes;
  const DeviceArray<std::byte> memory = take_pair(bytes);
  const double within =
      best_copy_seconds(memory.data() + bytes, memory.data(), bytes, cudaMemcpyDeviceToDevice, stream);
  found.vram_bytes_per_s = 2 * static_cast<double>(bytes) / within;

  const size_t sent = std::min(2 * bytes, kSentBytes);
  const PinnedArray<std::byte> host(sent);
  std::fill_n(host.data(), sent, std::byte{1});  // pages that were never written need not be read from memory
  const double across = best_copy_seconds(memory.data(), host.data(), sent, cudaMemcpyHostToDevice, stream);
  found.to_device_bytes_per_s = static_cast<double>(sent) / across;
  return found;
}

}  // namespace hearth::cuda
