// Chooses after which tokens snapshots of recurrent states are made, and gives them to the prefix cache.
//
// A snapshot can be used only at the end of a KV block. Snapshots are made
//   - at the ends of prefixes that the request names (SequenceRequest::prefix_ends), each rounded down to the
//     end of a KV block, because a later prompt often continues there: chat templates render an earlier
//     answer in another way than it was generated;
//   - at the last end of a KV block in the prompt, and every kSnapshotTokens tokens of the prompt;
//   - every kPassingTokens generated tokens; each of these replaces the one before, as long as the sequence
//     has its slot.
// A snapshot that would save fewer than kLeastSaved tokens after the previous one is not made.
//
// Pure functions over the engine's bookkeeping; engine thread.
#pragma once

#include <memory>
#include <span>

#include "engine/kv/kv_blocks.h"
#include "engine/serving/scheduler.h"
#include "engine/serving/sequence.h"
#include "engine/step/batch.h"

namespace hearth {

inline constexpr int kSnapshotTokens = 2048;
inline constexpr int kPassingTokens = 64;
inline constexpr int kLeastSaved = 32;

/// Adds to batch.state_copies the snapshots that the step of these pieces makes. Call it after fill_batch().
/// of_answers: whether the prefix cache gets KV blocks with generated tokens; if not, their snapshots would
/// be useless.
void add_state_copies(std::span<const StepPiece> pieces, std::span<const std::unique_ptr<Sequence>> slots,
                      bool of_answers, KvBlocks& blocks, Batch& batch);

/// Gives the prefix cache the snapshots that the step made for the piece's sequence. Call it after
/// Scheduler::computed() of the piece.
void keep_state_copies(const StepPiece& piece, const Sequence& sequence, KvBlocks& blocks,
                       const Batch& batch);

}  // namespace hearth
