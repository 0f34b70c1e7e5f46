// Hands over to the host which neurons later layers will probably want, and tells the prefetcher.
//
// A proposal is found while the CPU computes its share of a layer. The host reads it when it has begun with the next layer, so
// it never waits for a proposal that the device has not come to. Two are under way at most: the device may already write the
// next one while the host reads.
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

  /// Begins the hand-over of a proposal that is made while the CPU computes its share of `in`: for this layer the bits `any`
  /// (device memory, [words] of n_neurons). The caller must enqueue what is returned.
  HandOver begin(const HybridLayer& in, int layer, const uint64_t* any, int64_t n_neurons,
                 const Scratch& scratch);

  /// If the hybrid layer before this one has made a proposal, waits until it was handed over on the stream and tells `traffic`
  /// (null: nobody). Throws like wait_for_number().
  void deliver(const HybridLayer& after, cudaStream_t stream, NeuronTraffic* traffic);

 private:
  struct Entry {
    int layer = -1;  // the proposal that is under way is for this layer; -1: none is
    size_t words = 0;
    uint32_t n_begun = 0;  // as the device counts them
    PinnedArray<uint64_t> bits;
    PinnedArray<uint32_t> number;
  };
  std::array<Entry, 2> entries_;  // of layers at even and at odd places
};

}  // namespace hearth::cuda
