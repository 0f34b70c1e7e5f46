// The small integer arrays that the operations of a step read. Each array is copied to the device once per
// step.
//
// Owned by CudaBackend; engine thread. Arrays are identified by their host addresses, which must not change
// within a step (ComputeDevice::begin_step). Copies go through pinned memory, so that the host does not wait
// for them. Steps of the same shape put the same arrays at the same offsets, so that recorded copies can be
// played back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/ops/recurrent_ops.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/step_recorder.h"

namespace hearth::cuda {

class StepInputs {
 public:
  /// The maximum number of integers that the positions, tables, tokens and row numbers of a step within these
  /// bounds take on the device.
  static size_t size(const StepBounds& bounds);
  /// device: [size(bounds)].
  void reserve(const StepBounds& bounds, int32_t* device);

  /// Forgets the last step's arrays. REQUIRES: the device has finished the last step.
  void begin_step();

  /// Returns the device's copy of the array, for operations that are enqueued afterward.
  const int32_t* on_device(std::span<const int32_t> host, StepRecorder& recorder);
  /// block_tokens: positions per KV block. longest: the maximum number of positions to which a token of the
  /// step attends; only the table columns for these positions are copied. The rows of all tables are copied,
  /// so that a recorded step can be played back with any of them.
  KvPlaces on_device(const KvPlaces& host, int block_tokens, int longest, StepRecorder& recorder);
  DeviceList list(std::span<const int32_t> host, StepRecorder& recorder);
  /// Returns n_entries entries with the runs, of which the last ones may be unused. Runs are identified by
  /// their contents, so the host's array may change its address.
  const DeviceRun* on_device(std::span<const RecurrentRun> runs, size_t n_entries, StepRecorder& recorder);

 private:
  const int32_t* tables_on_device(const KvPlaces& host, int n_columns, StepRecorder& recorder);
  /// Returns the device's copy of a host array, or null if this step has not copied the array yet.
  int32_t* known(const int32_t* host, size_t n) const;
  /// Returns the pinned memory for the next n integers. Throws std::length_error if they do not fit.
  int32_t* room(size_t n);
  /// Copies the n integers that were written to room() to the device. known() finds the copy by the host
  /// array, which has n_host integers.
  int32_t* send(const int32_t* host, size_t n_host, size_t n, StepRecorder& recorder);
  /// Copies n integers at offset `at` from pinned memory to the device.
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
  Known runs_ = {};  // the last runs; their `host` is pinned memory
};

}  // namespace hearth::cuda
