// The contract of the neuron cache. Its device rows hold copies of neurons' rows, which are replaced by those
// of other neurons while the engine runs. The originals stay in host memory.
//
//   Choice    A RowPrefetcher learns which rows each layer wanted and which a predictor proposes, and chooses
//             which rows to copy and which to drop. engine/residency/prefetcher.h implements it on a separate
//             thread; engine/residency/neuron_cache.h tracks which neurons of each layer are cached.
//   Copies    A RowCopier (kernels/row_copier.h) copies rows. It is given addresses, and does not choose
//             rows.
//   Use       A step uses a copy if the copy has ended before the step reaches the layer: the step calls
//             changes() and applies the changes, in stream order, before it looks for resident rows. Earlier
//             steps use the row in host memory, so a late copy costs time but never changes a result.
//   Reuse     If changes() empties a row in a step, later steps do not read the row. It may be overwritten
//             once the layer's work in that step is done. enqueued() reports that this work is enqueued, and
//             RowCopier::gate() delays copies until the work is done.
//
// The hybrid FFN (kernels/hybrid_ffn.h) calls a RowPrefetcher on the engine thread, for each layer of each
// step in this order: changes, enqueued, wanted, computed. proposed() for a layer comes before its changes().
#pragma once

#include <cstdint>
#include <span>

namespace hearth {

/// From now on, `neuron` is in device row `device_row`, or has no device row if that is -1.
struct RowChange {
  int32_t neuron = 0;
  int32_t device_row = -1;
};

class RowPrefetcher {
 public:
  virtual ~RowPrefetcher() = default;

  /// Returns at most kMaxChanges changes that apply from the layer's current step on: neurons whose bytes
  /// have all arrived in their device rows, and neurons that lose their device rows. The span is valid until
  /// the next call of changes().
  static constexpr size_t kMaxChanges = 2048;
  virtual std::span<const RowChange> changes(int layer) = 0;

  /// Reports that all work of the layer that reads device rows is enqueued on `stream` (a cudaStream_t for
  /// CUDA). Once that work is done, rows that the layer's last changes() emptied may be overwritten.
  virtual void enqueued(int layer, void* stream) = 0;

  /// Reports which neurons the layer's tokens wanted, as bits [words]. `any` has all neurons that at least
  /// one token wanted; `cold` has the neurons among them that have no device row.
  virtual void wanted(int layer, std::span<const uint64_t> any, std::span<const uint64_t> cold) = 0;

  /// Reports which neurons at least one token will probably want from the layer in this step, as bits
  /// [words]. Called before the step reaches the layer, and for one layer after the other. The first layers
  /// of a step get no such report.
  virtual void proposed(int layer, std::span<const uint64_t> any) = 0;

  /// Reports how long the CPU took to compute the layer's cold neurons.
  virtual void computed(int layer, double seconds) = 0;
};

}  // namespace hearth
