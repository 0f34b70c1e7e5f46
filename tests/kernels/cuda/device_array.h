// Device memory for tests of CUDA operations: copied from the host's vectors and read back to them.
#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::test {

/// Owns a stream. The destructor waits for the stream's work.
class TestStream {
 public:
  TestStream() {
    cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
  }
  ~TestStream() {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator cudaStream_t() const { return stream_; }  // NOLINT: used like the handle
  void wait() const { cuda::check(cudaStreamSynchronize(stream_), "waiting for a stream"); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// n elements on the device, exactly as many as requested, so that sanitizers find reads beyond them.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t n) : n_(n) {
    cuda::check(cudaMalloc(&data_, n * sizeof(T) + (n == 0)), "allocating");
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    if (n_ > 0)
      cuda::check(cudaMemcpy(data_, values.data(), n_ * sizeof(T), cudaMemcpyHostToDevice), "copying");
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return static_cast<T*>(data_); }
  size_t size() const { return n_; }
  /// Reads the contents after the stream's work.
  std::vector<T> read(const TestStream& stream) const {
    stream.wait();
    std::vector<T> values(n_);
    if (n_ > 0)
      cuda::check(cudaMemcpy(values.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost), "copying");
    return values;
  }

 private:
  void* data_ = nullptr;
  size_t n_;
};

}  // namespace hearth::test
