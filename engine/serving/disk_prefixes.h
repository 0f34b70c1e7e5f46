// Keeps the prefix cache on disk, too, so that prompts that were computed before a restart, or before another
// model was served, are not computed again.
//
// Writing: KV blocks and snapshots that enter the prefix cache are copied, a few between two steps, and a
// thread writes them (DiskCache). If the disk is too slow, those that leave the prefix cache meanwhile are
// not written.
//
// Reading: a sequence that was admitted keeps its slot, and does not compute, until the KV blocks that
// continue its cached prefix have been read as far as they are on disk. They enter the slot's table and the
// prefix cache in the same way as KV blocks that were computed. They have the same bits, so the answer is the
// same. In models with recurrent layers, they end with a KV block that has a state. If such a read fails
// halfway, the sequence is set back: admitted again, it begins at a state that is in memory.
//
// Owned by the Engine; engine thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/kv/disk_cache.h"
#include "engine/kv/kv_blocks.h"
#include "engine/serving/engine_figures.h"
#include "engine/serving/scheduler.h"
#include "engine/step/batch.h"

namespace hearth {

class DiskPrefixes {
 public:
  struct Inputs {
    ForwardModel& model;
    KvBlocks& blocks;
    Scheduler& scheduler;
    std::function<void()> wake;                        // wakes the engine thread; called by other threads
    std::function<void(Sequence&)> on_read;            // called when a read has ended, even if nothing came
    std::function<void(const Sequence&)> on_set_back;  // called when the sequence has lost its slot
  };
  /// All references must outlive this object. REQUIRES: StepLimits::copies.
  DiskPrefixes(const DiskCacheOptions& options, Inputs inputs);

  /// Call after a sequence got its slot. If its prompt may continue on disk, it then waits for the disk.
  void admitted(Sequence& sequence, int slot);
  /// Deletes the prefix of a running sequence from disk, because its keys and values may be wrong.
  void forget(int slot);
  /// Does a part of the work that is due: takes what was read, and hands over what is to be written. Returns
  /// whether more could be done at once.
  bool work();
  /// Writes what is left. What is left at the deadline is lost.
  void finish(DiskCache::Clock::time_point deadline);

  DiskFigures figures() const;

 private:
  /// A sequence that waits for the disk. Its admission is the read's ticket.
  struct Load {
    uint64_t ticket = 0;
    int slot = 0;
    int n_begin = 0;               // KV blocks that were in memory
    std::vector<std::byte> state;  // the file with the state after the last KV block; empty without states
    int n_state_blocks = 0;        // KV blocks up to that state
  };
  void take(DiskCache::Piece piece);
  void take_block(const Load& load, DiskCache::Piece& piece);
  void end(Load load);
  bool restore_state(Load& load, Sequence& sequence);
  void touch(int slot, int n_blocks);
  void drop_lost();
  Sequence* sequence_of(const Load& load) const;
  bool save_block();
  bool save_state();
  DiskBlock disk_block(int32_t id) const;
  std::span<std::byte> content(std::span<std::byte> file) const;
  size_t table_index(int slot, int index) const;
  size_t block_tokens() const { return static_cast<size_t>(limits_.block_tokens); }

  Inputs in_;
  const StepLimits limits_;
  const PrefixKey model_key_;
  std::vector<PrefixKey> keys_;         // [n_blocks] of registered KV blocks
  std::vector<BlockFiles::Time> used_;  // [n_blocks] the last use on disk of registered KV blocks
  std::vector<Load> loads_;
  uint64_t n_read_tokens_ = 0;
  DiskCache disk_;  // last member: its threads call `wake`
};

}  // namespace hearth
