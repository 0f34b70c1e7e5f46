// Implements rows_changed_by_mixing().
#include "tests/support/mixed_steps.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <utility>

#include "tests/support/golden.h"

namespace hearth::test {
namespace {

struct Sequence {
  std::vector<int32_t> tokens;
  std::vector<float> alone;  // logits [n_tokens, n_vocab] of the sequence when run alone
  int n_done = 0;
};

/// Makes one random step: takes zero to a few next tokens from each slot, in random order.
void deal(std::mt19937& random, std::vector<Sequence>& sequences, int max_tokens, Batch& batch) {
  std::vector<int32_t> turns;
  for (size_t slot = 0; slot < sequences.size(); ++slot) {
    const int left = static_cast<int>(sequences[slot].tokens.size()) - sequences[slot].n_done;
    const int n = std::min(left, static_cast<int>(random() % 4 == 0 ? random() % 9 : random() % 3));
    turns.insert(turns.end(), static_cast<size_t>(n), static_cast<int32_t>(slot));
  }
  for (size_t i = turns.size(); i > 1; --i) std::swap(turns[i - 1], turns[random() % i]);
  if (static_cast<int>(turns.size()) > max_tokens) turns.resize(static_cast<size_t>(max_tokens));
  batch.clear();
  for (const int32_t slot : turns) {
    Sequence& sequence = sequences[static_cast<size_t>(slot)];
    batch.logit_rows.push_back(batch.n_tokens());
    batch.tokens.push_back(sequence.tokens[static_cast<size_t>(sequence.n_done)]);
    batch.positions.push_back(sequence.n_done++);
    batch.slots.push_back(slot);
  }
}

/// Returns block tables in which the slots' KV blocks alternate; each slot has n_ring different ones.
std::vector<int32_t> alternating_tables(int n_slots, int max_blocks, int n_ring) {
  std::vector<int32_t> tables;
  for (int slot = 0; slot < n_slots; ++slot) {
    for (int i = 0; i < max_blocks; ++i) tables.push_back(i % n_ring * n_slots + slot);
  }
  return tables;
}

}  // namespace

size_t rows_changed_by_mixing(ForwardModel& model, const std::vector<int>& lengths, uint32_t seed) {
  const StepLimits limits = model.limits();
  const size_t n_vocab = static_cast<size_t>(limits.n_vocab);
  std::vector<Sequence> sequences;
  size_t n_left = 0;
  for (const int n_tokens : lengths) {
    Sequence sequence;
    for (int i = 0; i < n_tokens; ++i) {
      sequence.tokens.push_back((i * i * 29 + i * 11 + n_tokens) % limits.n_vocab);
    }
    sequence.alone = testing::logits_of(model, sequence.tokens, limits.max_tokens);
    sequences.push_back(std::move(sequence));
    n_left += static_cast<size_t>(n_tokens);
  }

  const int n_slots = static_cast<int>(sequences.size());
  const int max_blocks = limits.n_blocks / n_slots;
  const std::vector<int32_t> tables = alternating_tables(n_slots, max_blocks, max_blocks);
  std::vector<int32_t> window_tables;
  if (limits.window)
    window_tables = alternating_tables(n_slots, max_blocks, limits.window.n_blocks / n_slots);
  std::mt19937 random(seed);
  size_t n_changed = 0;
  Batch batch;
  while (n_left > 0) {
    deal(random, sequences, std::min(limits.max_tokens, limits.max_logit_rows), batch);
    if (batch.tokens.empty()) continue;
    batch.block_tables = tables;
    batch.window_tables = window_tables;
    batch.max_blocks = max_blocks;
    const std::span<const float> logits = model.forward(batch).logits;
    for (size_t t = 0; t < batch.tokens.size(); ++t) {
      const Sequence& sequence = sequences[static_cast<size_t>(batch.slots[t])];
      const float* alone = sequence.alone.data() + static_cast<size_t>(batch.positions[t]) * n_vocab;
      n_changed += std::memcmp(logits.data() + t * n_vocab, alone, n_vocab * sizeof(float)) != 0 ? 1 : 0;
    }
    n_left -= batch.tokens.size();
  }
  return n_changed;
}

}  // namespace hearth::test
