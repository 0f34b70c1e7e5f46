// The batch of a step, entry by entry.
#include "engine/serving/step_batch.h"

#include <memory>

#include "tests/support/catch.h"

namespace hearth::step_batch_test {
namespace {

std::unique_ptr<Sequence> sequence_of(std::vector<int32_t> tokens, int n_prompt) {
  auto sequence = std::make_unique<Sequence>();
  sequence->tokens = std::move(tokens);
  sequence->n_prompt = n_prompt;
  return sequence;
}

}  // namespace

TEST_CASE("step batch: tokens, positions and rows follow the pieces, drafts follow the known tokens") {
  KvBlocks blocks(8, 4, 4, 8);
  std::vector<std::unique_ptr<Sequence>> slots(4);
  slots[0] = sequence_of({10, 11, 12, 13}, 3);  // decodes, with two drafts of three computed
  slots[0]->drafts.looked_up.tokens = {50, 51, 52};
  slots[1] = sequence_of({20, 21, 22, 23}, 4);  // a scored prompt's end
  slots[3] = sequence_of({30, 31, 32}, 3);      // a text to embed
  slots[3]->request.embedding = Pooling::kMean;
  slots[0]->number = 7;
  slots[1]->number = 5;
  slots[3]->number = 9;
  const std::vector<StepPiece> pieces = {
      {.slot = 0, .begin = 3, .n_tokens = 3, .first_row = 0, .n_rows = 3, .n_drafted = 2},
      {.slot = 1, .begin = 1, .n_tokens = 3, .first_row = 1, .n_rows = 2},
      {.slot = 3, .begin = 0, .n_tokens = 2, .first_row = 0, .n_rows = 2}};
  Batch batch = reserved_batch({.max_tokens = 16, .max_logit_rows = 8});
  batch.tokens = {1, 2, 3};  // from the last step
  batch.sequences = {4, 4, 4};
  fill_batch(pieces, slots, blocks, batch);
  using Ids = std::vector<int32_t>;
  CHECK(batch.tokens == Ids{13, 50, 51, 21, 22, 23, 30, 31});
  CHECK(batch.positions == Ids{3, 4, 5, 1, 2, 3, 0, 1});
  CHECK(batch.slots == Ids{0, 0, 0, 1, 1, 1, 3, 3});
  CHECK(batch.sequences == std::vector<uint64_t>{7, 7, 7, 5, 5, 5, 9, 9});
  CHECK(batch.logit_rows == Ids{0, 1, 2, 4, 5});
  CHECK(batch.scored_rows == Ids{3});  // the row of token 22; that of the prompt's last token chooses
  CHECK(batch.hidden_rows == Ids{6, 7});
  CHECK(batch.prompt_rows == Ids{3, 4, 5, 6, 7});
  CHECK(batch.block_tables.data() == blocks.tables().data());
  CHECK(batch.max_blocks == 8);
}

TEST_CASE("step batch: tokens of a pair's second text have type 1") {
  KvBlocks blocks(8, 4, 2, 8);
  std::vector<std::unique_ptr<Sequence>> slots(2);
  slots[0] = sequence_of({10, 11, 12, 13}, 4);
  slots[0]->request.second_text = 3;
  slots[1] = sequence_of({20, 21}, 2);
  const std::vector<StepPiece> pieces = {{.slot = 0, .begin = 1, .n_tokens = 3, .first_row = 0, .n_rows = 0},
                                         {.slot = 1, .begin = 0, .n_tokens = 2, .first_row = 0, .n_rows = 0}};
  Batch batch = reserved_batch({.max_tokens = 16, .max_logit_rows = 8});
  fill_batch(pieces, slots, blocks, batch);
  CHECK(batch.token_types == std::vector<int32_t>{0, 0, 1, 0, 0});
}

TEST_CASE("step batch: a step within the limits allocates nothing") {
  Batch batch = reserved_batch({.max_tokens = 16, .max_logit_rows = 8});
  CHECK(batch.tokens.capacity() >= 16);
  CHECK(batch.sequences.capacity() >= 16);
  CHECK(batch.token_types.capacity() >= 16);
  CHECK(batch.prompt_rows.capacity() >= 16);
  CHECK(batch.hidden_rows.capacity() >= 16);
  CHECK(batch.logit_rows.capacity() >= 8);
  CHECK(batch.scored_rows.capacity() >= 8);
}

}  // namespace hearth::step_batch_test
