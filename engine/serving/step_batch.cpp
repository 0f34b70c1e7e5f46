// See the header.
#include "engine/serving/step_batch.h"

namespace hearth {
namespace {

// Adds the piece's rows to the batch's list of logits or hidden states. Call it before the piece's tokens are
// appended.
void add_rows(const StepPiece& piece, const Sequence& sequence, Batch& batch) {
  const bool embeds = sequence.request.embedding.has_value();
  const int first_row = batch.n_tokens() + piece.first_row;
  std::vector<int32_t>& rows = embeds ? batch.hidden_rows : batch.logit_rows;
  for (int row = 0; row < piece.n_rows; ++row) {
    const bool scores = piece.begin + piece.first_row + row < sequence.n_prompt - 1;
    if (scores && !embeds) batch.scored_rows.push_back(static_cast<int32_t>(rows.size()));
    rows.push_back(first_row + row);
  }
}

void add_tokens(const StepPiece& piece, const Sequence& sequence, Batch& batch) {
  const size_t n_known = sequence.tokens.size();
  for (int position = piece.begin; position < piece.begin + piece.n_tokens; ++position) {
    const auto at = static_cast<size_t>(position);
    batch.tokens.push_back(at < n_known ? sequence.tokens[at] : sequence.drafts.tokens()[at - n_known]);
    if (position < sequence.n_prompt) batch.prompt_rows.push_back(batch.n_tokens() - 1);
    if (at >= n_known) batch.draft_rows.push_back(batch.n_tokens() - 1);
    batch.positions.push_back(position);
    batch.slots.push_back(piece.slot);
    const int second_text = sequence.request.second_text;
    batch.token_types.push_back(second_text > 0 && position >= second_text ? 1 : 0);
    batch.sequences.push_back(sequence.number);
  }
}

}  // namespace

Batch reserved_batch(const StepLimits& limits) {
  Batch batch;
  const size_t n_tokens = static_cast<size_t>(limits.max_tokens);
  const size_t n_logit_rows = static_cast<size_t>(limits.max_logit_rows);
  for (std::vector<int32_t>* const of_tokens :
       {&batch.tokens, &batch.positions, &batch.slots, &batch.token_types, &batch.hidden_rows,
        &batch.prompt_rows, &batch.draft_rows})
    of_tokens->reserve(n_tokens);
  batch.sequences.reserve(n_tokens);
  batch.logit_rows.reserve(n_logit_rows);
  batch.scored_rows.reserve(n_logit_rows);
  return batch;
}

void set_tables(const KvBlocks& blocks, Batch& batch) {
  batch.block_tables = blocks.tables();
  batch.window_tables = blocks.window_tables();
  batch.max_blocks = blocks.max_blocks();
}

void fill_batch(std::span<const StepPiece> pieces, std::span<const std::unique_ptr<Sequence>> slots,
                const KvBlocks& blocks, Batch& batch) {
  batch.clear();
  set_tables(blocks, batch);
  for (const StepPiece& piece : pieces) {
    const Sequence& sequence = *slots[static_cast<size_t>(piece.slot)];
    add_rows(piece, sequence, batch);
    add_tokens(piece, sequence, batch);
  }
}

}  // namespace hearth
