// Copies neurons' rows from host memory to rows of a device, while the device does other work.
//
// kernels/cuda/sharing/bundle_mover.h is the one for CUDA; tests have others. One thread calls start() and
// wait(), in turn; gate() is the engine thread's, at any time. Errors are thrown, as sentences; a mover that
// has thrown is not used again.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/neuron_traffic.h"

namespace hearth {

class BundleMover {
 public:
  /// Waits for copies under way: the memory they use may go then.
  virtual ~BundleMover() = default;

  /// Rows of the layer that were emptied before this call are not written until the work enqueued on `stream`
  /// (the device's handle) so far is done. Does not wait.
  virtual void gate(int layer, void* stream) = 0;

  /// Begins to copy each neuron's rows to its device row: at most NeuronTraffic::kMaxChanges neurons, no two
  /// to the same row. May wait for memory to copy through. The list is free again when it returns.
  virtual void start(int layer, std::span<const RowChange> moves) = 0;

  /// What was copied since the last call: how much, and for how long the link was at it, until now.
  struct Copied {
    int64_t bytes = 0;
    double seconds = 0;
  };
  /// Waits, without taking a processor's time, until all that was started is done.
  virtual Copied wait() = 0;
};

}  // namespace hearth
