// The scripted forward pass: writes tokens to its paged cache, reads histories back, and gets logits from the
// script.
#include "tests/support/scripted_model.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

namespace hearth {
namespace {

void expect(bool holds, const char* what) {
  if (!holds) throw std::logic_error(std::string("scripted model: ") + what);
}

uint64_t mix(uint64_t x) {  // the finalizer of SplitMix64
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

ScriptedModel::ScriptedModel(Options options) : options_(std::move(options)) {
  const StepLimits& limits = options_.limits;
  cache_.assign(static_cast<size_t>(limits.n_blocks) * static_cast<size_t>(limits.block_tokens), -1);
  window_cache_.assign(static_cast<size_t>(limits.window.n_blocks) * static_cast<size_t>(limits.block_tokens),
                       0);
  logits_.resize(static_cast<size_t>(limits.max_logit_rows) * static_cast<size_t>(limits.n_vocab));
  hidden_.resize(static_cast<size_t>(limits.max_tokens) * static_cast<size_t>(limits.d_model));
}

StepOutput ScriptedModel::forward(const Batch& batch) {
  if (options_.before_step) options_.before_step(batch);
  check(batch);
  write(batch);
  const size_t n_vocab = static_cast<size_t>(options_.limits.n_vocab);
  const size_t d_model = static_cast<size_t>(options_.limits.d_model);
  std::span<float> logits = logits_;
  for (const int32_t row : batch.logit_rows) {
    options_.script(history(batch, row), logits.first(n_vocab));
    logits = logits.subspan(n_vocab);
  }
  std::span<float> hidden = hidden_;
  for (const int32_t row : batch.hidden_rows) {
    options_.hidden(history(batch, row), hidden.first(d_model));
    hidden = hidden.subspan(d_model);
  }
  return {.logits = std::span<const float>(logits_).first(batch.logit_rows.size() * n_vocab),
          .hidden = std::span<const float>(hidden_).first(batch.hidden_rows.size() * d_model)};
}

size_t ScriptedModel::bytes_of_block(const StepLimits& limits) {
  const size_t of_window = limits.window ? sizeof(uint64_t) : 0;
  return static_cast<size_t>(limits.block_tokens) * (sizeof(int32_t) + of_window);
}

void ScriptedModel::copy_out(int32_t block, int32_t window_block, std::span<std::byte> out) const {
  const auto n = static_cast<size_t>(options_.limits.block_tokens);
  expect(options_.limits.copies && out.size() == bytes_of_block(options_.limits), "a copy of another size");
  const auto cells = std::as_bytes(std::span(cache_).subspan(static_cast<size_t>(block) * n, n));
  std::ranges::copy(cells, out.begin());
  if (!options_.limits.window) return;
  const auto hashes = std::span(window_cache_).subspan(static_cast<size_t>(window_block) * n, n);
  std::ranges::copy(std::as_bytes(hashes), out.subspan(cells.size()).begin());
}

void ScriptedModel::copy_in(int32_t block, int32_t window_block, std::span<const std::byte> in) {
  const auto n = static_cast<size_t>(options_.limits.block_tokens);
  expect(options_.limits.copies && in.size() == bytes_of_block(options_.limits), "a copy of another size");
  const auto cells = std::as_writable_bytes(std::span(cache_).subspan(static_cast<size_t>(block) * n, n));
  std::ranges::copy(in.first(cells.size()), cells.begin());
  if (!options_.limits.window) return;
  const auto hashes = std::span(window_cache_).subspan(static_cast<size_t>(window_block) * n, n);
  std::ranges::copy(in.subspan(cells.size()), std::as_writable_bytes(hashes).begin());
}

// The tokens of the row's sequence, up to and including the row's own, as the cache holds them.
std::span<const int32_t> ScriptedModel::history(const Batch& batch, int32_t row) {
  const size_t i = static_cast<size_t>(row);
  history_.clear();
  for (int position = 0; position <= batch.positions[i]; ++position) {
    history_.push_back(cell(batch, batch.slots[i], position));
  }
  return history_;
}

int32_t& ScriptedModel::cell(const Batch& batch, int slot, int position) {
  return cache_[place(batch, batch.block_tables, options_.limits.n_blocks, slot, position)];
}

size_t ScriptedModel::place(const Batch& batch, std::span<const int32_t> tables, int n_blocks, int slot,
                            int position) const {
  const int width = options_.limits.block_tokens;
  expect(position / width < batch.max_blocks, "a position beyond the block table");
  const size_t entry = static_cast<size_t>(slot) * static_cast<size_t>(batch.max_blocks) +
                       static_cast<size_t>(position / width);
  expect(entry < tables.size(), "a slot beyond the block tables");
  const int32_t block = tables[entry];
  expect(block >= 0 && block < n_blocks, "no block for a position of the batch");
  return static_cast<size_t>(block) * static_cast<size_t>(width) + static_cast<size_t>(position % width);
}

// Writes the batch's i-th token to its window block, and checks what the token sees there.
void ScriptedModel::write_window(const Batch& batch, size_t i) {
  const KvWindow& window = options_.limits.window;
  const int slot = batch.slots[i], own = batch.positions[i];
  uint64_t hash = 1;
  for (int position = 0; position <= own; ++position) {
    hash = mix(hash + static_cast<uint64_t>(cell(batch, slot, position)));
    if (position <= own - window.n_positions) continue;
    uint64_t& here = window_cache_[place(batch, batch.window_tables, window.n_blocks, slot, position)];
    if (position == own) here = hash;
    expect(here == hash, "a window block does not hold what its sequence wrote");
  }
  const auto n = static_cast<size_t>(batch.max_blocks);
  const size_t first = static_cast<size_t>(slot) * n;
  const int32_t block = batch.window_tables[first + static_cast<size_t>(own / options_.limits.block_tokens)];
  for (size_t entry = 0; entry < batch.window_tables.size(); ++entry)
    expect(entry / n == static_cast<size_t>(slot) || batch.window_tables[entry] != block,
           "a write to a shared window block");
}

void ScriptedModel::check(const Batch& batch) const {
  const StepLimits& limits = options_.limits;
  expect(batch.n_tokens() > 0 && batch.n_tokens() <= limits.max_tokens,
         "number of tokens outside the limits");
  expect(std::ssize(batch.logit_rows) <= limits.max_logit_rows, "more logit rows than the limit");
  expect(batch.positions.size() == batch.tokens.size() && batch.slots.size() == batch.tokens.size(),
         "columns of different lengths");
  expect(std::ranges::is_sorted(batch.logit_rows) &&
             std::ranges::adjacent_find(batch.logit_rows) == batch.logit_rows.end(),
         "logit rows do not ascend");
  for (const int32_t row : batch.logit_rows)
    expect(row >= 0 && row < batch.n_tokens(), "a logit row outside the batch");
  expect(std::ranges::is_sorted(batch.hidden_rows) &&
             std::ranges::adjacent_find(batch.hidden_rows) == batch.hidden_rows.end(),
         "hidden rows do not ascend");
  for (const int32_t row : batch.hidden_rows)
    expect(row >= 0 && row < batch.n_tokens(), "a hidden row outside the batch");
  for (const int32_t token : batch.tokens)
    expect(token >= 0 && token < limits.n_vocab, "a token outside the vocabulary");
}

void ScriptedModel::write(const Batch& batch) {
  std::set<const int32_t*> written;
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    const int position = batch.positions[i];
    if (position > 0)
      expect(cell(batch, batch.slots[i], position - 1) >= 0, "an earlier position is not in the cache");
    int32_t& here = cell(batch, batch.slots[i], position);
    expect(written.insert(&here).second, "two tokens of a step share a place in the cache");
    here = batch.tokens[i];
    // A block that is written must not be in two slots' tables.
    const size_t column = static_cast<size_t>(position / options_.limits.block_tokens);
    const size_t max_blocks = static_cast<size_t>(batch.max_blocks);
    const size_t own = static_cast<size_t>(batch.slots[i]) * max_blocks + column;
    for (size_t entry = 0; entry < batch.block_tables.size(); ++entry) {
      expect(entry == own || batch.block_tables[entry] != batch.block_tables[own],
             "a write to a shared block");
    }
  }
  for (size_t i = 0; options_.limits.window && i < batch.tokens.size(); ++i) write_window(batch, i);
}

ScriptedModel::Script ScriptedModel::hashed() {
  return [](std::span<const int32_t> history, std::span<float> logits) {
    uint64_t hash = 0;
    for (const int32_t token : history) hash = mix(hash + 0x9E3779B97F4A7C15u + static_cast<uint64_t>(token));
    for (size_t id = 0; id < logits.size(); ++id) {
      logits[id] = static_cast<float>(mix(hash + id * 0x9E3779B97F4A7C15u) >> 40) * 0x1.0p-20f - 8.0f;
    }
  };
}

ScriptedModel::Script ScriptedModel::answering(std::vector<int32_t> answer, int32_t end) {
  return [answer = std::move(answer), end](std::span<const int32_t> history, std::span<float> logits) {
    size_t n_said = std::min(answer.size(), history.size());
    while (n_said > 0 && !std::ranges::equal(std::span(answer).first(n_said), history.last(n_said))) --n_said;
    const int32_t next = n_said < answer.size() ? answer[n_said] : end;
    std::ranges::fill(logits, 0.0f);
    logits[static_cast<size_t>(next)] = 100.0f;  // certain at any temperature
  };
}

}  // namespace hearth
