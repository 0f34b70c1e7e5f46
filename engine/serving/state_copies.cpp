// See the header.
#include "engine/serving/state_copies.h"

#include <algorithm>

namespace hearth {
namespace {

/// Whether a snapshot is made after the sequence's first n tokens, a multiple of block_tokens.
bool wants_snapshot(const Sequence& sequence, int n, int block_tokens) {
  const int since = n - sequence.n_copied;
  if (n >= sequence.n_prompt) return since >= kPassingTokens;
  if (since < kLeastSaved) return false;
  const auto is_here = [&](int end) { return end / block_tokens == n / block_tokens; };
  return n % kSnapshotTokens == 0 || is_here(sequence.n_prompt - 1) ||
         std::ranges::any_of(sequence.request.prefix_ends, is_here);
}

}  // namespace

void add_state_copies(std::span<const StepPiece> pieces, std::span<const std::unique_ptr<Sequence>> slots,
                      bool of_answers, KvBlocks& blocks, Batch& batch) {
  const int width = blocks.block_tokens();
  const auto add = [&](const StepPiece& piece, int first_row) {
    Sequence& sequence = *slots[static_cast<size_t>(piece.slot)];
    const int certain_end = piece.begin + piece.n_tokens - piece.n_drafted;
    for (int n = (piece.begin / width + 1) * width; n <= certain_end; n += width) {
      if (batch.state_copies.size() == kMostStateCopies) return;
      if (n > sequence.n_prompt && !of_answers) return;
      if (sequence.request.computes_whole_prompt() || !wants_snapshot(sequence, n, width)) continue;
      const int32_t snapshot = blocks.take_snapshot();
      if (snapshot == SnapshotPool::kNone) return;
      batch.state_copies.push_back({.row = first_row + n - piece.begin - 1, .snapshot = snapshot});
      sequence.n_copied = n;
    }
  };
  // Prompts come first. An answer can have its snapshot at the end of any later KV block.
  for (const bool of_prompts : {true, false}) {
    int first_row = 0;
    for (const StepPiece& piece : pieces) {
      const Sequence& sequence = *slots[static_cast<size_t>(piece.slot)];
      if ((piece.begin < sequence.n_prompt) == of_prompts) add(piece, first_row);
      first_row += piece.n_tokens;
    }
  }
  std::ranges::sort(batch.state_copies, {}, &StateCopy::row);
}

void keep_state_copies(const StepPiece& piece, const Sequence& sequence, KvBlocks& blocks,
                       const Batch& batch) {
  for (const StateCopy& copy : batch.state_copies) {
    const auto row = static_cast<size_t>(copy.row);
    if (batch.slots[row] != piece.slot) continue;
    const int n = batch.positions[row] + 1;
    blocks.keep_snapshot(piece.slot, n, copy.snapshot, /*passing=*/n >= sequence.n_prompt);
  }
}

}  // namespace hearth
