// Hands the neurons that later layers will probably want over to the host, and passes them to the prefetcher.
//
// The device finds a proposal while the CPU computes its share of a layer. The host reads it after it has
// begun with the next layer, so it never waits for a proposal that the device has not reached. At most two
// are in flight: the device may already write the next one while the host reads.
//
// Owned by CudaHybridFfn; engine thread.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/scratch.h"
#include "kernels/hybrid_ffn.h"
#include "kernels/neuron_traffic.h"

namespace hearth::cuda {

class Proposals {
 public:
  /// Allocates pinned memory. At load, where there are hybrid layers.
  void reserve(const StepBounds& bounds, cudaStream_t stream, const Scratch& scratch);

  /// Begins the hand-over of a proposal that is made while the CPU computes its share of layer `in`. The
  /// proposal is for `layer`: the bits `any` (device memory, [words] of n_neurons). The caller must enqueue
  /// the returned hand-over.
  HandOver begin(const HybridLayer& in, int layer, const uint64_t* any, int64_t n_neurons,
                 const Scratch& scratch);

  /// If the hybrid layer before `after` has made a proposal, waits until it is handed over on the stream and
  /// passes it to `traffic` (null: drops it). Throws like wait_for_number().
  void deliver(const HybridLayer& after, cudaStream_t stream, NeuronTraffic* traffic);

 private:
  struct Entry {
    int layer = -1;  // the layer that the proposal in flight is for; -1: none is in flight
    size_t words = 0;
    uint32_t n_begun = 0;  // hand-overs begun, as the device counts them
    PinnedArray<uint64_t> bits;
    PinnedArray<uint32_t> number;
  };
  std::array<Entry, 2> entries_;  // for hybrid layers with even and with odd index
};

}  // namespace hearth::cuda
