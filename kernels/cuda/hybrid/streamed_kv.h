// The keys and values of a layer in host memory that the device computes in a long step: the KV blocks that the step needs
// are copied to the device, and those that it writes are copied back.
//
// The device's KV blocks have the same numbers as the host's, so the step's block tables serve both. Owned by CudaBackend;
// engine thread. The host waits for nothing.
#pragma once

#include <cuda_runtime.h>

#include "kernels/backend.h"
#include "kernels/cuda/runtime/device_memory.h"

namespace hearth::cuda {

class StreamedKv {
 public:
  /// Copies the KV blocks of all positions before a sequence's last token in the step from `host` to `device`, by the
  /// stream of copies; `stream` waits for it. places: in host memory.
  void bring(const KvPlaces& places, const KvShape& shape, KvLayer host, KvLayer device, cudaStream_t copies,
             cudaStream_t stream);
  /// Copies the KV blocks that the step's tokens are in back to `host`, behind the work of `stream`.
  void write_back(const KvPlaces& places, const KvShape& shape, KvLayer host, KvLayer device,
                  cudaStream_t stream);
  /// The device's KV blocks may be replaced once `stream` has come so far.
  void give_back(cudaStream_t stream);

 private:
  Event arrived_, used_;
};

}  // namespace hearth::cuda
