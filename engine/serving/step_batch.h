// Makes a step's Batch from the pieces that the scheduler chose. Pure functions; engine thread.
#pragma once

#include <memory>
#include <span>

#include "engine/kv/kv_blocks.h"
#include "engine/serving/scheduler.h"
#include "engine/serving/sequence.h"
#include "engine/step/batch.h"

namespace hearth {

/// An empty batch with memory for the largest step, so that fill_batch() allocates nothing.
Batch reserved_batch(const StepLimits& limits);

/// Replaces the batch by the pieces' tokens and rows, in the order of the pieces, and points it to the block
/// tables. slots: the scheduler's; a piece may extend past its sequence's tokens into its drafts. The batch
/// is valid until the block tables change.
void fill_batch(std::span<const StepPiece> pieces, std::span<const std::unique_ptr<Sequence>> slots,
                const KvBlocks& blocks, Batch& batch);

}  // namespace hearth
