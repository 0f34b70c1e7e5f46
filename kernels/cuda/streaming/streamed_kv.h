// Streams the keys and values of a layer in host memory that the device computes in a long step: copies the
// KV blocks that the step needs to the device, and copies back those that it writes.
//
// KV blocks have the same numbers on the device and on the host, so the step's block tables serve both. Owned
// by CudaBackend; engine thread. The host waits for nothing.
#pragma once

#include <cuda_runtime.h>

#include "kernels/backend.h"
#include "kernels/cuda/runtime/device_memory.h"

namespace hearth::cuda {

class StreamedKv {
 public:
  /// Copies the KV blocks of all positions up to a sequence's last token in the step from `host` to `device`
  /// on the stream `copies`; `stream` waits for that. places: in host memory.
  void bring(const KvPlaces& places, const KvShape& shape, KvLayer host, KvLayer device, cudaStream_t copies,
             cudaStream_t stream);
  /// Copies the KV blocks of the step's tokens back to `host`, after the work of `stream`.
  void write_back(const KvPlaces& places, const KvShape& shape, KvLayer host, KvLayer device,
                  cudaStream_t stream);
  /// Allows the device's KV blocks to be replaced once the work enqueued on `stream` so far is done.
  void give_back(cudaStream_t stream);

 private:
  Event arrived_, used_;
};

}  // namespace hearth::cuda
