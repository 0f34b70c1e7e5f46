// The memory of recurrent layers: the runs that a step becomes, and steps that fit no slot.
#include "engine/forward/state_memory.h"

#include "engine/model/weights.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/catch.h"
#include "tests/support/delta_model.h"
#include "tests/support/temp_folder.h"

namespace hearth::state_memory_test {
namespace {

Batch batch_of(int slot, int position, int n_tokens, int n_drafts = 0) {
  Batch batch;
  for (int i = 0; i < n_tokens; ++i) {
    batch.tokens.push_back(1);
    batch.positions.push_back(position + i);
    batch.slots.push_back(slot);
    if (i >= n_tokens - n_drafts) batch.draft_rows.push_back(i);
  }
  return batch;
}

void append(Batch& batch, const Batch& more) {
  const int n = batch.n_tokens();
  for (const int32_t row : more.draft_rows) batch.draft_rows.push_back(n + row);
  batch.tokens.insert(batch.tokens.end(), more.tokens.begin(), more.tokens.end());
  batch.positions.insert(batch.positions.end(), more.positions.begin(), more.positions.end());
  batch.slots.insert(batch.slots.end(), more.slots.begin(), more.slots.end());
}

struct Memory {
  explicit Memory(int n_slots) : states(spec, n_slots, 1, Devices(cpu)) {}
  test::TempFolder folder;
  ModelFile file = [this] {
    test::tiny_delta("qwen35").write(folder / "model.gguf");
    return ModelFile::open(folder / "model.gguf");
  }();
  ModelSpec spec = read_model_spec(file);
  CpuBackend cpu{1, supported_isas().front(), ActivationBits::k15};
  StateMemory states;
};

}  // namespace

TEST_CASE("state memory: a step becomes one run per sequence") {
  Memory memory(3);
  Batch batch = batch_of(2, 0, 5);
  append(batch, batch_of(0, 0, 4, 3));
  const std::span<const RecurrentRun> runs = memory.states.begin_step(batch);
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].slot == 2);
  CHECK(runs[0].n_tokens == 5);
  CHECK(runs[0].fresh);
  CHECK(runs[1].first_token == 5);
  CHECK(runs[1].n_uncertain == 3);

  // Slot 0 has accepted two of its three drafts.
  batch = batch_of(0, 3, 1);
  append(batch, batch_of(2, 5, 1));
  const std::span<const RecurrentRun> next = memory.states.begin_step(batch);
  CHECK(next[0].n_replayed == 2);
  CHECK_FALSE(next[0].fresh);
  CHECK(next[1].n_replayed == 0);
}

TEST_CASE("state memory: a step that fits no slot is refused by a sentence") {
  Memory memory(2);
  memory.states.begin_step(batch_of(0, 0, 4, 1));
  CHECK_THROWS_WITH(
      memory.states.begin_step(batch_of(0, 5, 1)),
      ContainsSubstring("contains 3 tokens and its log 1 drafts, but the step begins at position 5"));
  CHECK_THROWS_WITH(memory.states.begin_step(batch_of(0, 2, 1)), ContainsSubstring("begins at position 2"));
  CHECK_THROWS_WITH(memory.states.begin_step(batch_of(2, 0, 1)), ContainsSubstring("there are 2 slots"));
  CHECK_THROWS_WITH(memory.states.begin_step(batch_of(1, 0, kMaxStateDrafts + 2, kMaxStateDrafts + 1)),
                    ContainsSubstring("it has 17 drafts, and at most 16 are possible"));
  CHECK(memory.states.begin_step(batch_of(0, 4, 1))[0].n_replayed == 1);
}

TEST_CASE("state memory: a model without recurrent layers has no memory and no runs") {
  Memory memory(1);
  memory.spec.recurrent = {};
  StateMemory none(memory.spec, 4, 4, Devices(memory.cpu));
  CHECK(none.host_bytes() == 0);
  none.restore(3, -1, 100);
  CHECK(none.begin_step(batch_of(7, 5, 2, 1)).empty());
}

TEST_CASE("state memory: needs as many bytes as it takes") {
  const Memory memory(3);
  CHECK(StateMemory::bytes_needed(memory.spec, 3, 1) == static_cast<double>(memory.states.host_bytes()));
}

}  // namespace hearth::state_memory_test
