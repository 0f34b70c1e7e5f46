// The neuron cache of a device, seen from the backend: which neurons change slots, and what each layer
// wanted.
//
// A device's slots behind the hot neurons hold copies of cold ones for as long as they are of use
// (NeuronResidency). Who comes and goes is decided elsewhere, by a thread of its own that learns here what
// the layers wanted; the backend learns here, layer by layer, which slots have changed. Engine thread.
#pragma once

#include <cstdint>
#include <span>

namespace hearth {

/// Neuron `neuron` is in `slot` from now on; slot -1: in none.
struct SlotChange {
  int32_t neuron = 0;
  int32_t slot = -1;
};

class NeuronTraffic {
 public:
  virtual ~NeuronTraffic() = default;

  /// Changes that hold from this layer's step on, at most kMaxChanges: neurons whose bytes have wholly
  /// arrived in their slots, and neurons that leave theirs. The backend carries them out in its stream's
  /// order before it looks which of the layer's neurons it has; the span is free when the call after it is
  /// made.
  static constexpr size_t kMaxChanges = 512;
  virtual std::span<const SlotChange> changes(int layer) = 0;

  /// The backend has enqueued all of the layer's work that reads slots, on `stream` (the device's handle for
  /// it): once that is done, slots that its changes have emptied may be written.
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
