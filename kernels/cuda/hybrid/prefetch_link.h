// The device's end of the link to the prefetcher (kernels/row_prefetcher.h): brings a layer's row changes to
// the device, and what the layers want or propose to the prefetcher. Without a prefetcher it does nothing.
//
// Changes are fetched as late as possible and applied in stream order. A recorded step reads the list when it
// runs, so the latest changes are fetched just before its graph is launched.
//
// The device finds a proposal (the neurons that a later layer will probably want) while the CPU computes its
// share of a layer. The host reads it after it has begun with the next layer, so it never waits for a
// proposal that the device has not reached. At most two are in flight: the device may already write the next
// one while the host reads.
//
// Owned by CudaHybridFfn; engine thread.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/scratch.h"
#include "kernels/cuda/runtime/step_recorder.h"
#include "kernels/hybrid_ffn.h"
#include "kernels/row_prefetcher.h"

namespace hearth::cuda {

class PrefetchLink {
 public:
  /// Allocates pinned memory. At load, if there are hybrid layers.
  void reserve(const StepBounds& bounds, cudaStream_t stream, const Scratch& scratch);

  /// Null: there is no prefetcher. Between steps.
  void set_prefetcher(RowPrefetcher* prefetcher) { prefetcher_ = prefetcher; }

  /// The layer's changes, for work that is enqueued next; null: there are none.
  const RowChanges* changes(const HybridLayer& layer, const StepRecorder& recorder);
  /// Fetches the changes before the launch of a recorded segment that applies them. The list may be
  /// overwritten, because the previous shared layer's hand-over came after its last read.
  void before_launch(const HybridLayer& layer) {
    if (due_) fetch(layer);
  }

  /// Begins the hand-over of a proposal that is made while the CPU computes its share of layer `in`. The
  /// proposal is for `layer`: the bits `any` (device memory, [words] of n_neurons). The caller must enqueue
  /// the returned hand-over.
  HandOver begin_proposal(const HybridLayer& in, int layer, const uint64_t* any, int64_t n_neurons,
                          const Scratch& scratch);
  /// If the hybrid layer before `after` has made a proposal, waits until it is handed over on the stream and
  /// passes it on. Throws like wait_for_number().
  void deliver_proposal(const HybridLayer& after, cudaStream_t stream);

  // As RowPrefetcher has them.
  void enqueued(const HybridLayer& layer, cudaStream_t stream) {
    if (prefetcher_ != nullptr) prefetcher_->enqueued(layer.layer, stream);
  }
  void wanted(const HybridLayer& layer, std::span<const uint64_t> any, std::span<const uint64_t> cold) {
    if (prefetcher_ != nullptr) prefetcher_->wanted(layer.layer, any, cold);
  }
  void computed(const HybridLayer& layer, double seconds) {
    if (prefetcher_ != nullptr) prefetcher_->computed(layer.layer, seconds);
  }

 private:
  struct Proposed {
    int layer = -1;  // the layer that the proposal in flight is for; -1: none is in flight
    size_t words = 0;
    uint32_t n_begun = 0;  // hand-overs begun, as the device counts them
    PinnedArray<uint64_t> bits;
    PinnedArray<uint32_t> number;
  };

  void fetch(const HybridLayer& layer);

  RowPrefetcher* prefetcher_ = nullptr;
  PinnedArray<RowChanges> changes_;
  bool due_ = false;                   // the open segment reads the changes, and they are not fetched yet
  std::array<Proposed, 2> proposals_;  // for hybrid layers with even and with odd index
};

}  // namespace hearth::cuda
