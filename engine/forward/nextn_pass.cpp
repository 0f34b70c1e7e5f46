// See the header.
#include "engine/forward/nextn_pass.h"

#include <algorithm>
#include <array>

#include "engine/forward/layer_call.h"

namespace hearth {
namespace {

/// A prediction gives logits for one token of each slot.
PassBounds bounds_of(PassBounds bounds, const NextnWeights& weights) {
  bounds.max_logit_rows = bounds.n_states;
  bounds.n_snapshots = 0;
  return bounds_with_nextn(bounds, weights);
}

}  // namespace

PassBounds bounds_with_nextn(PassBounds bounds, const NextnWeights& weights) {
  bounds.other_cols = 2 * weights.spec.d_model;
  return bounds;
}

NextnPass::NextnPass(Backend& cpu, const NextnWeights& weights, const KvBlockCounts& counts,
                     const PassBounds& bounds)
    : cpu_(cpu),
      weights_(weights),
      bounds_(bounds_of(bounds, weights)),
      kv_(weights.spec, {.n_blocks = counts.n_blocks, .type = counts.type}, Devices(cpu)),
      pass_(Devices(cpu), weights.spec, weights.weights, kv_, bounds_),
      embedded_(floats(cpu, bounds.max_tokens, weights.spec.d_model)),
      joined_(floats(cpu, bounds.max_tokens, 2 * int64_t{weights.spec.d_model})),
      input_(floats(cpu, bounds.max_tokens, weights.spec.d_model)),
      nothing_(static_cast<size_t>(weights.spec.d_model), 0.0f),
      slots_(static_cast<size_t>(bounds.n_states)) {}

double NextnPass::kv_position_bytes(const NextnWeights& weights, KvType type) {
  return hearth::kv_position_bytes(weights.spec, 0, type);
}

double NextnPass::bytes_needed(const NextnWeights& weights, const PassBounds& bounds) {
  const double d_model = weights.spec.d_model;
  const double of_rows = 5.0 * bounds.max_tokens * d_model;  // the buffers, and given_
  const double of_slots = (1.0 * bounds.max_tokens + kMostWaiting) * bounds.n_states * d_model;
  return ForwardPass::bytes_needed(weights.spec, bounds.max_tokens, bounds.n_states) +
         sizeof(float) * (of_rows + of_slots);
}

/// Makes the slot's waiting tokens end before `position`: later ones were rejected drafts. If the slot does
/// not contain what comes before this position of the sequence, everything before counts as done.
void NextnPass::go_to(Slot& slot, uint64_t sequence, int position) const {
  const bool goes_on = slot.sequence == sequence && position >= slot.first && position <= slot.end() &&
                       slot.n_done <= position + 1 && position > 0;
  if (!goes_on) {
    slot.sequence = sequence;
    slot.n_done = slot.first = position;
    slot.tokens.clear();
    slot.hidden.clear();
    return;
  }
  const auto n = static_cast<size_t>(position - slot.first);
  slot.tokens.resize(n);
  slot.hidden.resize(n * nothing_.size());
}

/// Removes the tokens that no later position needs.
void NextnPass::forget_done(Slot& slot) const {
  const int n = std::min(slot.n_done - 1, slot.end()) - slot.first;
  if (n <= 0) return;
  slot.tokens.erase(slot.tokens.begin(), slot.tokens.begin() + n);
  slot.hidden.erase(slot.hidden.begin(),
                    slot.hidden.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(n) * nothing_.size()));
  slot.first += n;
}

const float* NextnPass::hidden_before(const Slot& slot, int position) const {
  const int at = position - 1 - slot.first;
  if (at < 0 || at >= static_cast<int>(slot.tokens.size())) return nothing_.data();
  return slot.hidden.data() + static_cast<size_t>(at) * nothing_.size();
}

void NextnPass::add_row(const Batch& batch, size_t token, int32_t id, int position, const float* hidden) {
  rows_.tokens.push_back(id);
  rows_.positions.push_back(position);
  rows_.slots.push_back(batch.slots[token]);
  given_.insert(given_.end(), hidden, hidden + nothing_.size());
}

/// Adds the waiting tokens before the position `end` of the token's slot, and runs the layer whenever a pass
/// is full.
void NextnPass::add_waiting(const Batch& batch, size_t token, int end) {
  Slot& slot = slot_of(batch, token);
  for (; slot.n_done < end; ++slot.n_done) {
    const int32_t id = slot.tokens[static_cast<size_t>(slot.n_done - slot.first)];
    if (rows_.n_tokens() == bounds_.max_tokens) {
      run(batch);
      rows_.clear();
    }
    add_row(batch, token, id, slot.n_done, hidden_before(slot, slot.n_done));
  }
}

/// Runs the layer on the collected rows. Returns the logits of those in logit_rows.
std::span<const float> NextnPass::run(const Batch& batch) {
  const int n = rows_.n_tokens();
  if (n == 0) return {};
  rows_.block_tables = batch.block_tables;
  rows_.max_blocks = batch.max_blocks;
  const int64_t d = weights_.spec.d_model;
  const float eps = weights_.spec.norm_eps;
  float *embedded = embedded_.floats(), *joined = joined_.floats();
  cpu_.embed(weights_.weights.token_embedding, rows_.tokens, embedded);
  cpu_.rms_norm(embedded, weights_.embedding_norm.scale, eps, n, d, embedded);
  cpu_.copy_rows(embedded, d, n, d, joined, 2 * d);
  cpu_.rms_norm(given_.data(), weights_.hidden_norm.scale, eps, n, d, embedded);
  cpu_.copy_rows(embedded, d, n, d, joined + d, 2 * d);
  cpu_.matmul(joined, n, std::array{product(weights_.join, input_.floats())});
  const std::span<const float> logits = pass_.run(rows_, input_.floats()).logits;
  given_.clear();
  return logits;
}

void NextnPass::after_step(const Batch& batch, const float* hidden) {
  rows_.clear();
  const size_t n_tokens = batch.tokens.size(), d = nothing_.size();
  for (size_t begin = 0, end = 0; begin < n_tokens; begin = end) {
    end = begin + 1;
    while (end < n_tokens && batch.slots[end] == batch.slots[begin]) ++end;
    Slot& slot = slot_of(batch, begin);
    go_to(slot, batch.sequences.empty() ? 0 : batch.sequences[begin], batch.positions[begin]);
    for (size_t t = begin; t < end; ++t) slot.tokens.push_back(batch.tokens[t]);
    slot.hidden.insert(slot.hidden.end(), hidden + begin * d, hidden + end * d);
    const auto is_in = [&](std::span<const int32_t> rows) {
      const auto at = std::ranges::lower_bound(rows, static_cast<int32_t>(begin));
      return std::ranges::lower_bound(rows, static_cast<int32_t>(end)) - at;
    };
    const int certain_end = slot.end() - static_cast<int>(is_in(batch.draft_rows));
    if (is_in(batch.prompt_rows) == 0 && certain_end - slot.n_done <= kMostWaiting) continue;
    add_waiting(batch, begin, certain_end);
  }
  run(batch);
  for (Slot& slot : slots_) forget_done(slot);
}

std::span<const float> NextnPass::predict(const Batch& batch, bool first) {
  rows_.clear();
  if (first) {
    // The tokens that wait, except those that go through the layer together with the sequences' next tokens.
    const int room = bounds_.max_tokens - batch.n_tokens();
    for (size_t t = 0; t < batch.tokens.size(); ++t)
      go_to(slot_of(batch, t), batch.sequences.empty() ? 0 : batch.sequences[t], batch.positions[t]);
    int n_waiting = 0;
    for (size_t t = 0; t < batch.tokens.size(); ++t)
      n_waiting += std::max(0, batch.positions[t] - slot_of(batch, t).n_done);
    if (n_waiting > room) {
      for (size_t t = 0; t < batch.tokens.size(); ++t) add_waiting(batch, t, batch.positions[t]);
      run(batch);
      rows_.clear();
    }
  }
  for (size_t t = 0; t < batch.tokens.size(); ++t) {
    Slot& slot = slot_of(batch, t);
    if (first) add_waiting(batch, t, batch.positions[t]);
    rows_.logit_rows.push_back(rows_.n_tokens());
    add_row(batch, t, batch.tokens[t], batch.positions[t],
            first ? hidden_before(slot, batch.positions[t]) : slot.guessed.data());
    if (first) slot.n_done = batch.positions[t] + 1;
  }
  const int n_rows = rows_.n_tokens();
  const std::span<const float> logits = run(batch);
  const float* const hidden = pass_.all_hidden_states(n_rows);
  for (size_t t = 0; t < batch.tokens.size(); ++t) {
    Slot& slot = slot_of(batch, t);
    const float* const h = hidden + static_cast<size_t>(rows_.logit_rows[t]) * nothing_.size();
    slot.guessed.assign(h, h + nothing_.size());
    if (first) forget_done(slot);
  }
  return logits;
}

}  // namespace hearth
