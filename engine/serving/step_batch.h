// Fills a step's Batch from the pieces that the scheduler chose. Pure functions; engine thread.
#pragma once

#include <memory>
#include <span>

#include "engine/kv/kv_blocks.h"
#include "engine/serving/scheduler.h"
#include "engine/serving/sequence.h"
#include "engine/step/batch.h"

namespace hearth {

/// Returns an empty batch with memory for the largest step, so that fill_batch() allocates nothing.
Batch reserved_batch(const StepLimits& limits);

/// Points the batch to the block tables.
void set_tables(const KvBlocks& blocks, Batch& batch);

/// Replaces the batch's contents by the tokens and rows of the pieces, in order, and points the batch to the
/// block tables. slots: the scheduler's slots. A piece may extend past its sequence's tokens into the
/// sequence's draft. The batch is valid until the block tables change.
void fill_batch(std::span<const StepPiece> pieces, std::span<const std::unique_ptr<Sequence>> slots,
                const KvBlocks& blocks, Batch& batch);

}  // namespace hearth
