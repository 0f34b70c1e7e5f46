// Implements measure_bandwidth() and measure_latency().
#include "kernels/cuda/bench/speed.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "kernels/cuda/bench/timed_work.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/flag_wait.h"

namespace hearth::cuda {
namespace {

// Several times as large as any GPU's cache (B200: 126 MB), so that copies read and write memory.
constexpr size_t kCopiedBytes = size_t{512} << 20;
constexpr size_t kLeastBytes = size_t{8} << 20;
// Large enough that the time to start a copy, some microseconds, does not matter: 10 ms at 25 GB/s.
constexpr size_t kSentBytes = size_t{256} << 20;
// Copies of pageable memory are slow (some GB/s) and run in pieces of a few MiB, so a quarter of kSentBytes
// is enough.
constexpr size_t kPageableBytes = size_t{64} << 20;
constexpr int kPasses = 5;

/// Returns the seconds of the fastest of kPasses copies.
double best_copy_seconds(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                         const Stream& stream) {
  double best = 1e30;
  TimedEvent begin, end;
  for (int pass = 0; pass < kPasses; ++pass) {
    begin.record(stream);
    check(cudaMemcpyAsync(to, from, bytes, kind, stream), "measuring bandwidth");
    end.record(stream);
    stream.wait();
    // An emulated device may take no time, so the result has a lower limit.
    best = std::min(best, std::max(end.seconds_since(begin), 1e-7));
  }
  return best;
}

/// Like best_copy_seconds(), for host memory that is not pinned. The driver makes such a copy synchronously:
/// the call returns when the copy is done, or at least when the host's memory has been read. No other code of
/// the backend may make synchronous copies.
double best_pageable_seconds(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                             const Stream& stream) {
  using Clock = std::chrono::steady_clock;
  double best = 1e30;
  for (int pass = 0; pass < kPasses; ++pass) {
    const Clock::time_point begin = Clock::now();
    check(cudaMemcpyAsync(to, from, bytes, kind, stream), "measuring copies of pageable memory");
    stream.wait();
    best = std::min(best, std::max(std::chrono::duration<double>(Clock::now() - begin).count(), 1e-7));
  }
  return best;
}

/// Allocates twice `bytes` of device memory; halves `bytes` until it succeeds.
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

Bandwidth measure_bandwidth(BandwidthOf what) {
  Bandwidth found;
  const Stream stream;
  size_t bytes = kCopiedBytes;
  const DeviceArray<std::byte> memory = take_pair(bytes);
  const double within =
      best_copy_seconds(memory.data() + bytes, memory.data(), bytes, cudaMemcpyDeviceToDevice, stream);
  found.vram_bytes_per_s = 2 * static_cast<double>(bytes) / within;

  const size_t sent = std::min(2 * bytes, kSentBytes);
  const PinnedArray<std::byte> host(sent);
  // a page that was never written takes no memory, so reading it would not be measured
  std::fill_n(host.data(), sent, std::byte{1});
  const auto n_sent = static_cast<double>(sent);
  found.to_device_bytes_per_s =
      n_sent / best_copy_seconds(memory.data(), host.data(), sent, cudaMemcpyHostToDevice, stream);
  if (what == BandwidthOf::kVramAndPinned) return found;

  found.from_device_bytes_per_s =
      n_sent / best_copy_seconds(host.data(), memory.data(), sent, cudaMemcpyDeviceToHost, stream);
  const size_t paged = std::min(sent, kPageableBytes);
  const auto pages = std::make_unique<std::byte[]>(paged);
  std::fill_n(pages.get(), paged, std::byte{1});
  const auto n_paged = static_cast<double>(paged);
  found.pageable_to_device_bytes_per_s =
      n_paged / best_pageable_seconds(memory.data(), pages.get(), paged, cudaMemcpyHostToDevice, stream);
  found.pageable_from_device_bytes_per_s =
      n_paged / best_pageable_seconds(pages.get(), memory.data(), paged, cudaMemcpyDeviceToHost, stream);
  return found;
}

namespace {

constexpr int64_t kFloats = 4096;  // the activations of a token in a 7B model
// Kernels in a short and in a long graph. The cost of launching a graph cancels in the difference of their
// times.
constexpr int kFewKernels = 16, kManyKernels = 80;
constexpr int kRoundTrips = 32;
constexpr int kLatencyPasses = 5;
// A lower limit for measured times, because an emulated device may take no time.
constexpr double kLeastSeconds = 1e-8;

/// Returns the seconds between the events around a graph, in the fastest of kLatencyPasses passes.
double best_seconds(const GraphExec& graph, const Stream& stream) {
  TimedEvent begin, end;
  double best = 1e30;
  for (int pass = 0; pass < kLatencyPasses; ++pass) {
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
  for (int pass = 0; pass < kLatencyPasses; ++pass) {
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
