// Classes that own device memory, pinned host memory, streams and events.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <new>
#include <utility>

#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {

/// Throws std::bad_alloc if `code` means that there is too little memory, and CudaError for any other error.
inline void check_allocation(cudaError_t code, const char* doing) {
  if (code == cudaErrorMemoryAllocation) {
    // Clear the error. The device still works, and the next check must not find the error.
    cudaGetLastError();
    throw std::bad_alloc();
  }
  check(code, doing);
}

/// Owns n elements of T in device memory from cudaMalloc(). Their initial contents are undefined.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(size_t n) : n_(n) {
    void* data = nullptr;
    if (n > 0) check_allocation(cudaMalloc(&data, n * sizeof(T)), "reserving device memory");
    data_ = static_cast<T*>(data);
  }
  DeviceArray(DeviceArray&& other) noexcept { swap(other); }
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    DeviceArray(std::move(other)).swap(*this);
    return *this;
  }
  ~DeviceArray() {
    if (data_ != nullptr) cudaFree(data_);
  }
  void swap(DeviceArray& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(n_, other.n_);
  }
  T* data() const { return data_; }
  size_t size() const { return n_; }
  size_t bytes() const { return n_ * sizeof(T); }

 private:
  T* data_ = nullptr;
  size_t n_ = 0;
};

/// Owns n elements of T in page-locked host memory. The device can copy from and to this memory while both
/// work. Kernels can read and write it at the host's address.
template <class T>
class PinnedArray {
 public:
  PinnedArray() = default;
  explicit PinnedArray(size_t n) : n_(n) {
    void* data = nullptr;
    if (n > 0) {
      check_allocation(cudaHostAlloc(&data, n * sizeof(T), cudaHostAllocMapped), "pinning host memory");
    }
    data_ = static_cast<T*>(data);
  }
  PinnedArray(PinnedArray&& other) noexcept { swap(other); }
  PinnedArray& operator=(PinnedArray&& other) noexcept {
    PinnedArray(std::move(other)).swap(*this);
    return *this;
  }
  ~PinnedArray() {
    if (data_ != nullptr) cudaFreeHost(data_);
  }
  void swap(PinnedArray& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(n_, other.n_);
  }
  T* data() const { return data_; }
  size_t size() const { return n_; }

 private:
  T* data_ = nullptr;
  size_t n_ = 0;
};

/// Owns a stream that does not synchronize with the default stream. `first`: the stream gets the highest
/// priority, so that its waiting kernels begin before those of other streams.
class Stream {
 public:
  explicit Stream(bool first = false) {
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for the priorities of streams");
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, first ? greatest : least),
          "creating a stream");
  }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }  // NOLINT: used like the handle
  void wait() const { check(cudaStreamSynchronize(stream_), "waiting for the device"); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A mark in a stream's work.
class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "creating an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }  // NOLINT: used like the handle

 private:
  cudaEvent_t event_ = nullptr;
};

/// A mark in a stream's work that records the time at which the device reaches it. A thread that waits for it
/// sleeps.
class TimeMark {
 public:
  TimeMark() { check(cudaEventCreateWithFlags(&event_, cudaEventBlockingSync), "creating an event"); }
  ~TimeMark() { cudaEventDestroy(event_); }
  TimeMark(const TimeMark&) = delete;
  TimeMark& operator=(const TimeMark&) = delete;
  void record(cudaStream_t stream) const { check(cudaEventRecord(event_, stream), "marking copies"); }
  void wait() const { check(cudaEventSynchronize(event_), "waiting for copies"); }
  /// Delays the work that is enqueued on `stream` later until the mark is reached.
  void delay(cudaStream_t stream) const {
    check(cudaStreamWaitEvent(stream, event_, 0), "waiting for copies");
  }
  /// Whether the device has reached the mark that was recorded last. Does not wait.
  bool reached() const {
    const cudaError_t code = cudaEventQuery(event_);
    if (code == cudaErrorNotReady) return false;
    check(code, "asking whether copies are complete");
    return true;
  }
  /// Seconds from `begin` to this mark. REQUIRES: both are reached.
  double seconds_since(const TimeMark& begin) const {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin.event_, event_), "timing copies");
    return ms / 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace hearth::cuda
