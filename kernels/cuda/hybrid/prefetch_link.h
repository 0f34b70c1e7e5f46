// The device's side of the link to the prefetcher (kernels/row_prefetcher.h). It passes the prefetcher's row
// changes to the device, and tells the prefetcher which neurons layers want or will probably want. Without a
// prefetcher it does nothing.
//
// Changes are fetched as late as possible and applied in stream order. The graph of a recorded step reads the
// list of changes when it runs, so the changes are fetched just before the graph is launched.
//
// A proposal is the set of neurons that a later layer will probably want. The device computes it while the
// CPU computes its share of a layer. The host reads it after it has enqueued the next layer, so the device
// always has other work while the host waits for a proposal. At most two proposals are in flight: the device
// may already write the next one while the host reads one.
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
  /// Allocates pinned memory. Call it at load if there are hybrid layers.
  void reserve(const StepBounds& bounds, cudaStream_t stream, const Scratch& scratch);

  /// Sets the prefetcher, or removes it if null. Called between steps.
  void set_prefetcher(RowPrefetcher* prefetcher) { prefetcher_ = prefetcher; }

  /// Returns the list of the layer's changes, for the work that is enqueued next, or null if there is no
  /// prefetcher.
  const RowChanges* changes(const HybridLayer& layer, const StepRecorder& recorder);
  /// Call this before the launch of a recorded segment. Fetches the changes if the segment applies them. At
  /// that time the list may be overwritten, because the device reads it before the hand-over of each hybrid
  /// layer, and the host has already received the previous layer's hand-over.
  void before_launch(const HybridLayer& layer) {
    if (due_) fetch(layer);
  }

  /// Begins the hand-over of a proposal that the device computes while the CPU computes its share of layer
  /// `in`. `layer`: the layer that the proposal is for. `any`: device memory, one bit for each of n_neurons
  /// neurons. The caller must enqueue the returned hand-over.
  HandOver begin_proposal(const HybridLayer& in, int layer, const uint64_t* any, int64_t n_neurons,
                          const Scratch& scratch);
  /// If the hybrid layer before `after` began a proposal, waits until its hand-over has arrived and passes
  /// the proposal to the prefetcher. Throws like wait_for_number().
  void deliver_proposal(const HybridLayer& after, cudaStream_t stream);

  // Pass these reports to the prefetcher, if there is one.
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
    int layer = -1;  // the layer that the proposal is for; -1: no proposal is in flight
    size_t words = 0;
    uint32_t n_begun = 0;  // number of hand-overs begun, which the device also counts
    PinnedArray<uint64_t> bits;
    PinnedArray<uint32_t> number;
  };

  void fetch(const HybridLayer& layer);

  RowPrefetcher* prefetcher_ = nullptr;
  PinnedArray<RowChanges> changes_;
  bool due_ = false;                   // whether the current segment reads changes that were not fetched yet
  std::array<Proposed, 2> proposals_;  // by whether the index of the hybrid layer is even or odd
};

}  // namespace hearth::cuda
