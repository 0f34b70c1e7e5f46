// The interface through which the hybrid FFN and the prefetcher share the neuron cache: which neurons change
// device rows, and which neurons each layer wanted.
//
// The device rows behind a layer's hot neurons hold copies of cold neurons while these are useful
// (HybridLayer). The prefetcher (engine/residency/prefetcher.h), on a thread of its own, decides which
// neurons are cached. Through this interface it learns what the layers wanted, and the hybrid FFN learns,
// layer by layer, which rows have changed. Called on the engine thread.
#pragma once

#include <cstdint>
#include <span>

namespace hearth {

/// Neuron `neuron` is in device row `device_row` from now on; -1: it has no device row.
struct RowChange {
  int32_t neuron = 0;
  int32_t device_row = -1;
};

class NeuronTraffic {
 public:
  virtual ~NeuronTraffic() = default;

  /// Changes that hold from this layer's step on, at most kMaxChanges: neurons whose bytes have all arrived
  /// in their device rows, and neurons that leave theirs. The hybrid FFN applies them in stream order before
  /// it checks which of the layer's neurons have a device row. The span is valid until the next call of
  /// changes().
  static constexpr size_t kMaxChanges = 2048;
  virtual std::span<const RowChange> changes(int layer) = 0;

  /// Reports that all work of the layer that reads device rows is enqueued on `stream` (the device's handle).
  /// Once that work is done, rows that the layer's changes have emptied may be overwritten.
  virtual void enqueued(int layer, void* stream) = 0;

  /// Reports which neurons the layer's tokens wanted together, as bits [words]: `any` has all of them, `cold`
  /// those without a device row.
  virtual void wanted(int layer, std::span<const uint64_t> any, std::span<const uint64_t> cold) = 0;

  /// Reports which neurons a layer's tokens will probably want in this step, as bits [words]. Called before
  /// the layer is reached, in the order of the layers; the first layers get no call.
  virtual void proposed(int layer, std::span<const uint64_t> any) = 0;

  /// Reports how long the CPU took to compute the layer's cold neurons. Called after wanted() for the same
  /// layer.
  virtual void computed(int layer, double seconds) = 0;
};

}  // namespace hearth
