// A layer's changes of device rows (kernels/neuron_traffic.h) on their way to the device: asked for as late
// as possible, carried out in the stream's order.
//
// Owned by CudaHybridFfn; engine thread. A recorded step reads the list when it runs, so the changes are
// asked for before its graph is launched, and the latest are good enough for it.
#pragma once

#include <algorithm>
#include <cassert>
#include <span>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/step_recorder.h"
#include "kernels/hybrid_ffn.h"
#include "kernels/neuron_traffic.h"

namespace hearth::cuda {

class RowUpdates {
 public:
  /// Takes pinned memory. At load, where neurons are shared at all.
  void reserve() { list_ = PinnedArray<RowChanges>(1); }

  /// Who tells of changes; null: nobody.
  void set_traffic(NeuronTraffic* traffic) { traffic_ = traffic; }

  /// From here on in the stream the layer's changes hold.
  void apply(const HybridLayer& layer, StepRecorder& recorder) {
    due_ = traffic_ != nullptr;
    if (!due_) return;
    if (recorder.enqueues_at_once()) ask(layer);
    recorder.enqueue([list = list_.data(), resident = layer.resident, device_row = layer.device_row,
                      stream = recorder.stream()] { change_rows(list, resident, device_row, stream); });
  }

  /// Before a recorded segment that applies them is launched: the list as the device reads it. It is free
  /// again: the shared layer before has handed over since it was read.
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
  bool due_ = false;  // the open segment reads them, and they were not asked for yet
};

}  // namespace hearth::cuda
