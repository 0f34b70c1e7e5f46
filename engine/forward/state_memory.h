// The memory of recurrent layers, which tokens of each slot's sequence it contains, and snapshots of it.
//
// kernels/recurrent.h defines the layout and how drafts are logged and replayed. This class allocates one
// state per slot and recurrent layer, and turns a step's tokens into runs. A snapshot has the states and
// tails of all recurrent layers after one token of a sequence; engine/kv/snapshot_pool.h decides which are
// kept. Snapshots are in host memory. ForwardPass owns this class. Engine thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/devices.h"
#include "engine/model/model_spec.h"
#include "engine/step/batch.h"
#include "kernels/recurrent.h"

namespace hearth {

/// The maximum number of drafts that one sequence has in a step, if the model has recurrent layers. Each
/// logged draft of a delta net takes about 3 % of a state's bytes.
inline constexpr int kMaxStateDrafts = 16;

/// The memory of one recurrent layer for all slots, in the memory of the device that computes the layer.
struct LayerStates {
  LayerStates() = default;
  LayerStates(Memory& memory, const RecurrentShape& shape, int n_slots);

  RecurrentMemory view() const;
  size_t bytes() const { return states.bytes() + tails.bytes() + log.bytes(); }

  Buffer states, tails, log;
};

/// A device's buffer for the snapshots that a step makes of one layer.
struct StagedStates {
  StagedStates() = default;
  StagedStates(Memory& memory, const RecurrentShape& shape);

  Buffer states, tails;  // [kMostStateCopies]
};

class StateMemory {
 public:
  /// Allocates nothing if the model has no recurrent layers. Throws std::bad_alloc.
  StateMemory(const ModelSpec& spec, int n_slots, int n_snapshots, const Devices& devices);

  /// Bytes that the constructor allocates. A double, so that absurd sizes do not overflow.
  static double bytes_needed(const ModelSpec& spec, int n_slots, int n_snapshots);
  static double snapshot_bytes(const ModelSpec& spec);

  /// Makes a slot's memory equal to a snapshot that was made after n_tokens tokens. If `snapshot` is below 0,
  /// the memory stays as it is. Does nothing if the model has no recurrent layers.
  void restore(int slot, int32_t snapshot, int n_tokens);

  /// Returns one run per sequence of the batch, and from then on counts the batch's tokens as computed: all
  /// of them except the drafts. The runs are valid until the next call. Throws std::logic_error (a sentence)
  /// if a sequence does not continue what its slot contains, or if it has more drafts than kMaxStateDrafts.
  std::span<const RecurrentRun> begin_step(const Batch& batch);

  /// REQUIRES: the layer is recurrent.
  const RecurrentMemory& layer(int index) const { return layers_[static_cast<size_t>(index)].memory; }
  /// The copies that the step of the last begin_step() makes of one recurrent layer's states and tails. Valid
  /// until the next call. Call take_copies() after the layer's operations.
  struct Copies {
    std::span<const RecurrentCopy> states, tails;
  };
  Copies copies(int layer);
  /// Brings the layer's copies from a device to the snapshots.
  void take_copies(int layer);

  /// Copies a snapshot's states and tails of all recurrent layers to other memory or back. REQUIRES: the span
  /// has snapshot_bytes() bytes.
  void copy_snapshot_out(int32_t snapshot, std::span<std::byte> out) const;
  void copy_snapshot_in(int32_t snapshot, std::span<const std::byte> in);

  size_t host_bytes() const;
  size_t device_bytes() const;

 private:
  /// A slot's state contains the tokens [0, n_tokens) of its sequence, and its log the n_logged next ones,
  /// which were drafts.
  struct Slot {
    int n_tokens = 0;
    int n_logged = 0;
  };
  struct Layer {
    Backend* backend = nullptr;  // null: the layer is not recurrent
    bool on_device = false;
    LayerStates slots;
    RecurrentMemory memory;     // a view of `slots`
    RecurrentMemory snapshots;  // in host memory, without a log; entry i is snapshot i
  };
  RecurrentRun run_of(const Batch& batch, int first, int end);

  RecurrentShape shape_;
  std::vector<Buffer> snapshots_;  // owns Layer::snapshots
  StagedStates staged_;            // empty without a device
  RecurrentMemory staging_;        // a view of staged_
  std::vector<Layer> layers_;      // [n_layers], or empty without recurrent layers
  std::vector<Slot> slots_;
  std::vector<RecurrentRun> runs_;
  std::vector<StateCopy> step_copies_;
  std::vector<RecurrentCopy> state_copies_, tail_copies_;  // see copies()
};

}  // namespace hearth
