// The small arrays of integers that a step's operations read. Each is copied to the device once a step.
//
// Owned by CudaBackend; engine thread. Arrays are identified by their addresses, which stay the same within a
// step (ComputeDevice::begin_step). Copies go through pinned memory, so that the host need not wait for them.
// Steps of one shape put the same arrays at the same offsets, so that recorded copies can be played back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/step_recorder.h"

namespace hearth::cuda {

class StepInputs {
 public:
  /// The most integers that the positions, tables, tokens and row numbers of such steps take on the device.
  static size_t size(const StepBounds& bounds);
  /// device: [size(bounds)].
  void reserve(const StepBounds& bounds, int32_t* device);

  /// Forgets the last step's arrays. REQUIRES: the device has finished the last step.
  void begin_step();

  /// Returns the array on the device, valid from the stream's next operation on.
  const int32_t* on_device(std::span<const int32_t> host, StepRecorder& recorder);
  /// block_tokens: positions of a KV block. longest: the most positions that a token sees; the tables'
  /// columns behind it are not copied. All tables are copied, so that steps of one shape may use any of them.
  KvPlaces on_device(const KvPlaces& host, int block_tokens, int longest, StepRecorder& recorder);
  DeviceList list(std::span<const int32_t> host, StepRecorder& recorder);

 private:
  const int32_t* tables_on_device(const KvPlaces& host, int n_columns, StepRecorder& recorder);
  /// The device's copy of a host array in this step; null if there is none.
  int32_t* known(const int32_t* host, size_t n) const;
  /// Pinned memory for the next n integers. Throws std::length_error if they do not fit.
  int32_t* room(size_t n);
  /// Copies the n integers that were written to room(), and remembers them by the host array, which has
  /// n_host.
  int32_t* send(const int32_t* host, size_t n_host, size_t n, StepRecorder& recorder);
  /// Copies n integers from pinned memory to the device, at the same offset.
  void copy(size_t at, size_t n, StepRecorder& recorder);

  struct Known {
    const int32_t* host;
    size_t n;
    int32_t* device;
  };
  int32_t* device_ = nullptr;
  PinnedArray<int32_t> pinned_;
  size_t used_ = 0;
  std::vector<Known> known_;
};

}  // namespace hearth::cuda
