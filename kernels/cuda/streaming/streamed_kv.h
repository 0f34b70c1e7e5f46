// Streams the keys and values of a layer that is in host memory but is computed on the device in a long step.
// First all KV blocks that the step reads or writes are copied to the device. Afterward the changed KV blocks
// are copied back to host memory.
//
// KV blocks have the same numbers on the device and on the host, so both use the step's block tables. The
// host never waits for the copies. Owned by CudaBackend; engine thread.
#pragma once

#include <cuda_runtime.h>

#include "kernels/backend.h"
#include "kernels/cuda/runtime/device_memory.h"

namespace hearth::cuda {

class StreamedKv {
 public:
  /// For each sequence of the step, copies the KV blocks of all positions up to its last token in the step
  /// from `host` to `device`. The copies run on the stream `copies`, and `stream` waits for them. The arrays
  /// of `places` are in host memory.
  void bring(const KvPlaces& places, const KvShape& shape, KvLayer host, KvLayer device, cudaStream_t copies,
             cudaStream_t stream);
  /// Copies the KV blocks of the step's tokens back to `host`, after the work already on `stream`.
  void write_back(const KvPlaces& places, const KvShape& shape, KvLayer host, KvLayer device,
                  cudaStream_t stream);
  /// Allows the next bring() to overwrite the device's KV blocks as soon as the work that is now on `stream`
  /// is done.
  void give_back(cudaStream_t stream);

 private:
  Event arrived_, used_;
};

}  // namespace hearth::cuda
