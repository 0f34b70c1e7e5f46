// See the header.
#include "engine/forward/assistant_pass.h"

#include <algorithm>
#include <array>

#include "engine/forward/layer_call.h"

namespace hearth {
namespace {

/// A prediction gives logits for one token of each slot.
PassBounds assistant_bounds(PassBounds bounds) {
  bounds.max_tokens = bounds.max_logit_rows = bounds.n_states;
  bounds.n_snapshots = 0;
  bounds.stream_bytes = bounds.stream_kv_bytes = 0;
  bounds.keeps_last = false;
  bounds.of_nextn = 1;
  return bounds;
}

}  // namespace

PassBounds bounds_with_assistant(PassBounds bounds, const AssistantWeights& weights) {
  const ModelSpec& spec = weights.spec;
  bounds.other_cols = std::max({2 * weights.d_of_model, spec.d_model, spec.widest_ffn(), spec.q_dim()});
  bounds.other_heads = spec.n_heads;
  bounds.keeps_last = true;
  return bounds;
}

std::string why_not_assisted(const AssistantWeights& weights, const Devices& devices) {
  for (const int source : weights.sources) {
    if (!devices.on_device(source)) continue;
    return "it reads the keys of layer " + std::to_string(source) +
           ", which the GPU computes, and it runs on the CPU only";
  }
  return {};
}

AssistantPass::AssistantPass(Backend& cpu, const AssistantWeights& weights, const KvMemory& kv,
                             const PassBounds& bounds)
    : cpu_(cpu),
      weights_(weights),
      devices_(cpu),
      bounds_(assistant_bounds(bounds)),
      kv_(kv, weights.spec, weights.sources),
      pass_(devices_, weights.spec, weights.weights, kv_, bounds_),
      joined_(floats(cpu, bounds.n_states, 2 * int64_t{weights.d_of_model})),
      after_(floats(cpu, bounds.n_states, weights.d_of_model)),
      slots_(static_cast<size_t>(bounds.n_states)) {}

double AssistantPass::bytes_needed(const AssistantWeights& weights, const PassBounds& bounds) {
  const PassBounds own = assistant_bounds(bounds);
  const double rows = 4.0 * own.n_states + bounds.max_logit_rows;  // joined_, after_, Slot::next and hidden
  return ForwardPass::bytes_needed(weights.spec, own.max_tokens, own.max_logit_rows) +
         weights.weights.copied_bytes() + sizeof(float) * rows * weights.d_of_model;
}

void AssistantPass::after_step(const Batch& batch, const float* last) {
  const auto d = static_cast<size_t>(weights_.d_of_model);
  size_t scored = 0;  // in scored_rows
  int before = -1;    // slot of the row before
  for (size_t r = 0; r < batch.logit_rows.size(); ++r) {
    // Rows that only score a prompt do not end a sequence.
    if (scored < batch.scored_rows.size() && batch.scored_rows[scored] == static_cast<int32_t>(r)) {
      ++scored;
      continue;
    }
    const auto token = static_cast<size_t>(batch.logit_rows[r]);
    Slot& slot = slots_[static_cast<size_t>(batch.slots[token])];
    if (batch.slots[token] != before) {
      slot.sequence = batch.sequences.empty() ? 0 : batch.sequences[token];
      slot.positions.clear();
      slot.hidden.clear();
      before = batch.slots[token];
    }
    slot.positions.push_back(batch.positions[token]);
    slot.hidden.insert(slot.hidden.end(), last + r * d, last + (r + 1) * d);
  }
}

/// Sets what enters the first guess after a sequence's next token. The hidden state is missing, and zeros
/// replace it, if the last step did not compute the token before.
void AssistantPass::begin_draft(const Batch& batch, size_t token) {
  Slot& slot = slots_[static_cast<size_t>(batch.slots[token])];
  slot.position = batch.positions[token];
  const auto d = static_cast<ptrdiff_t>(weights_.d_of_model);
  slot.next.assign(static_cast<size_t>(d), 0.0f);
  if (slot.sequence != (batch.sequences.empty() ? 0 : batch.sequences[token])) return;
  const auto found = std::ranges::find(slot.positions, slot.position - 1);
  if (found == slot.positions.end()) return;
  std::copy_n(slot.hidden.begin() + (found - slot.positions.begin()) * d, d, slot.next.begin());
}

std::span<const float> AssistantPass::predict(const Batch& batch, bool first) {
  const int n = batch.n_tokens();
  const int64_t d = weights_.d_of_model;
  rows_.clear();
  rows_.block_tables = batch.block_tables;
  rows_.window_tables = batch.window_tables;
  rows_.max_blocks = batch.max_blocks;
  float* const joined = joined_.floats();
  // 1. The embeddings of the tokens in the model, and the hidden states.
  float* const embedded = after_.floats();
  cpu_.embed(weights_.embedding, batch.tokens, embedded);
  if (weights_.embedding_scale != 1.0f) cpu_.scale(weights_.embedding_scale, n * d, embedded);
  cpu_.copy_rows(embedded, d, n, d, joined, 2 * d);
  for (int t = 0; t < n; ++t) {
    const auto token = static_cast<size_t>(t);
    if (first) begin_draft(batch, token);
    const Slot& slot = slots_[static_cast<size_t>(batch.slots[token])];
    std::ranges::copy(slot.next, joined + (2 * t + 1) * d);
    rows_.tokens.push_back(batch.tokens[token]);
    rows_.positions.push_back(slot.position);
    rows_.slots.push_back(batch.slots[token]);
    rows_.logit_rows.push_back(t);
  }
  // 2. The layers.
  const ForwardPass::Start start = [&](Backend& backend, float* x) {
    backend.matmul(joined, n, std::array{product(weights_.before, x)});
  };
  const std::span<const float> logits = pass_.run(rows_, &start).logits;
  // 3. What enters the next guess.
  float* const after = after_.floats();
  cpu_.matmul(pass_.hidden_rows(n).host, n, std::array{product(weights_.after, after)});
  for (int t = 0; t < n; ++t) {
    const float* const row = after + t * d;
    slots_[static_cast<size_t>(batch.slots[static_cast<size_t>(t)])].next.assign(row, row + d);
  }
  return logits;
}

}  // namespace hearth
