// The neuron cache of a device, seen from the hybrid FFN: which neurons change device rows, and what each
// layer wanted.
//
// The device rows behind a layer's hot neurons hold copies of cold ones for as long as they are of use
// (HybridLayer). Who comes and goes is decided by a thread of its own (engine/residency/prefetcher.h), which
// learns here what the layers wanted; the hybrid FFN learns here, layer by layer, which rows have changed.
// Called on the engine thread.
#pragma once

#include <cstdint>
#include <span>

namespace hearth {

/// Neuron `neuron` is in row `device_row` from now on; -1: in none.
struct RowChange {
  int32_t neuron = 0;
  int32_t device_row = -1;
};

class NeuronTraffic {
 public:
  virtual ~NeuronTraffic() = default;

  /// Changes that hold from this layer's step on, at most kMaxChanges: neurons whose bytes have wholly
  /// arrived in their device rows, and neurons that leave theirs. The hybrid FFN carries them out in its
  /// stream's order before it looks which of the layer's neurons it has. The span is valid until the next
  /// call of changes().
  static constexpr size_t kMaxChanges = 512;
  virtual std::span<const RowChange> changes(int layer) = 0;

  /// All of the layer's work that reads device rows is enqueued on `stream` (the device's handle for it):
  /// once that work is done, rows that its changes have emptied may be written.
  virtual void enqueued(int layer, void* stream) = 0;

  /// What the layer's tokens wanted together, [words] bits each: any; of these, those that the device did
  /// not have; and the neurons proposed for the next layer that shares its neurons (empty: not proposed).
  virtual void wanted(int layer, std::span<const uint64_t> any, std::span<const uint64_t> cold,
                      std::span<const uint64_t> proposed_for_next) = 0;

  /// The CPU has computed the layer's neurons that the device did not have, after it was told of them by
  /// wanted(), in so much time.
  virtual void computed(int layer, double seconds) = 0;
};

}  // namespace hearth
