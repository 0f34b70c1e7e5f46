// The small arrays of integers that a step's operations read: copied to the device once a step, whoever asks.
//
// Owned by CudaBackend; engine thread. Arrays are known by their addresses, which stay the same within a step
// (ComputeDevice::begin_step). Copies go through pinned memory, so that nobody waits for them; steps of one shape
// find the same arrays in the same places, so that recorded copies can be played back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/step_recorder.h"

namespace hearth::cuda {

class StepInputs {
 public:
  /// Integers that the positions, tables, tokens and row numbers of such steps take on the device, at most.
  static size_t size(const StepBounds& bounds);
  /// device: [size(bounds)].
  void reserve(const StepBounds& bounds, int32_t* device);

  /// Forgets the last step's arrays. REQUIRES: the device has done with them.
  void begin_step();

  /// The array on the device, from the stream's next operation on.
  const int32_t* on_device(std::span<const int32_t> host, StepRecorder& recorder);
  KvPlaces on_device(const KvPlaces& host, StepRecorder& recorder);
  DeviceList list(std::span<const int32_t> host, StepRecorder& recorder);

 private:
  /// n integers from the pinned memory to the device's, at the same offset.
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
