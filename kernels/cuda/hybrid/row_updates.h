// Passes a layer's changes of device rows (kernels/neuron_traffic.h) to the device. They are fetched as late
// as possible and applied in stream order.
//
// Owned by CudaHybridFfn; engine thread. A recorded step reads the list when it runs, so the latest changes
// are fetched just before its graph is launched.
#pragma once

#include <algorithm>
#include <cassert>
#include <span>

#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/step_recorder.h"
#include "kernels/hybrid_ffn.h"
#include "kernels/neuron_traffic.h"

namespace hearth::cuda {

class RowUpdates {
 public:
  /// Allocates pinned memory. At load, if there are layers with shared neurons.
  void reserve() { list_ = PinnedArray<RowChanges>(1); }

  /// Sets where changes are fetched; null: there are none.
  void set_traffic(NeuronTraffic* traffic) { traffic_ = traffic; }

  /// The layer's changes, for work that is enqueued next; null: there are none.
  const RowChanges* next(const HybridLayer& layer, const StepRecorder& recorder) {
    due_ = traffic_ != nullptr;
    if (!due_) return nullptr;
    if (recorder.enqueues_at_once()) ask(layer);
    return list_.data();
  }

  /// Fetches the changes before the launch of a recorded segment that applies them. The list may be
  /// overwritten, because the previous shared layer's hand-over came after its last read.
  void before_launch(const HybridLayer& layer) {
    if (due_) ask(layer);
  }

 private:
  void ask(const HybridLayer& layer) {
    const std::span<const RowChange> changes = traffic_->changes(layer.layer);
    assert(changes.size() <= NeuronTraffic::kMaxChanges);
    RowChanges& list = *list_.data();
    list.n = static_cast<int32_t>(changes.size());
    std::copy(changes.begin(), changes.end(), list.list);
    due_ = false;
  }

  NeuronTraffic* traffic_ = nullptr;
  PinnedArray<RowChanges> list_;
  bool due_ = false;  // the open segment reads the changes, and they are not fetched yet
};

}  // namespace hearth::cuda
