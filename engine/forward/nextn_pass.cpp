// See the header.
#include "engine/forward/nextn_pass.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "engine/forward/layer_call.h"

namespace hearth {
namespace {

/// A prediction gives logits for one token of each slot.
PassBounds bounds_of(PassBounds bounds, const NextnWeights& weights, int head) {
  bounds.max_logit_rows = bounds.n_states;
  bounds.n_snapshots = 0;
  bounds.stream_bytes = bounds.stream_kv_bytes = 0;
  bounds = bounds_with_nextn(bounds, weights);
  bounds.beside_nextn = false;
  bounds.of_nextn = 1 + head;
  return bounds;
}

Devices devices_of(const Devices& model, NextnShare share) {
  return share == NextnShare::kNone ? Devices(model.cpu()) : Devices(model.cpu(), *model.device(), {true});
}

std::optional<NextnOnDevice> placed(const Devices& devices, const ModelSpec& spec, const NextnHead& head,
                                    NextnShare share, const ModelWeights& model) {
  if (share == NextnShare::kNone) return std::nullopt;
  std::optional<NextnOnDevice> out(std::in_place, spec, head, model, share, devices.device()->backend());
  out->fill(head, *devices.device());
  return out;
}

}  // namespace

PassBounds bounds_with_nextn(PassBounds bounds, const NextnWeights& weights) {
  bounds.other_cols = 2 * weights.spec.d_model;
  bounds.beside_nextn = true;
  bounds.n_nextn_heads = weights.n_heads();
  return bounds;
}

NextnPass::Head::Head(const NextnPass& owner, int index, NextnShare share, const ModelWeights& model,
                      const ForwardPass& model_pass, const KvBlockCounts& counts)
    : weights(owner.weights_.heads[static_cast<size_t>(index)]),
      on_device(placed(owner.devices_, owner.weights_.spec, weights, share, model)),
      kv(owner.weights_.spec, {.n_blocks = counts.n_blocks, .type = counts.type}, owner.devices_),
      pass(owner.devices_, owner.weights_.spec, on_device ? on_device->weights : weights.weights, kv,
           bounds_of(owner.bounds_, owner.weights_, index), &model_pass) {
  if (!on_device) return;
  pass.ffn().use({}, on_device->neurons);
  if (!on_device->experts.experts().empty())
    pass.ffn().share_experts(std::span(&on_device->experts.view(), 1), /*host_pinned=*/false);
}

NextnPass::NextnPass(const Devices& devices, const NextnWeights& weights, NextnShare share,
                     const ModelWeights& model, const ForwardPass& model_pass, const KvBlockCounts& counts,
                     const PassBounds& bounds)
    : cpu_(devices.cpu()),
      weights_(weights),
      bounds_(bounds),
      devices_(devices_of(devices, share)),
      embedded_(floats(cpu_, bounds.max_tokens, weights.spec.d_model)),
      joined_(floats(cpu_, bounds.max_tokens, 2 * int64_t{weights.spec.d_model})),
      nothing_(static_cast<size_t>(weights.spec.d_model), 0.0f),
      slots_(static_cast<size_t>(bounds.n_states)) {
  for (int i = 0; i < weights.n_heads(); ++i)
    heads_.push_back(std::make_unique<Head>(*this, i, share, model, model_pass, counts));
  for (Slot& slot : slots_) slot.n_done.assign(heads_.size(), 0);
  if (share == NextnShare::kNone) return;
  joined_on_device_ =
      floats(devices_.device()->backend(), bounds.max_tokens, 2 * int64_t{weights.spec.d_model});
}

double NextnPass::kv_position_bytes(const NextnWeights& weights, KvType type) {
  return weights.n_heads() * hearth::kv_position_bytes(weights.spec, 0, type);
}

double NextnPass::bytes_needed(const NextnWeights& weights, const PassBounds& bounds) {
  const double d_model = weights.spec.d_model, n_heads = weights.n_heads();
  const double of_rows = (4.0 + n_heads) * bounds.max_tokens * d_model;  // buffers, those of passes, given_
  const double of_slots = (1.0 * bounds.max_tokens + kMostWaiting + n_heads) * bounds.n_states * d_model;
  const double of_output = n_heads * bounds.n_states * (d_model + weights.spec.n_vocab);
  return n_heads * FfnPass::bytes_needed(weights.spec, bounds.max_tokens) +
         sizeof(float) * (of_rows + of_slots + of_output);
}

size_t NextnPass::device_bytes(const NextnWeights& weights, NextnShare share, const Weights& model,
                               const PassBounds& bounds) {
  if (share == NextnShare::kNone) return 0;
  MemoryMeter meter;
  for (const NextnHead& head : weights.heads)
    const NextnOnDevice placed(weights.spec, head, {model, model}, share, meter);
  return meter.bytes() + step_bytes(weights, bounds);
}

size_t NextnPass::step_bytes(const NextnWeights& weights, const PassBounds& bounds) {
  MemoryMeter meter;
  for (int i = 0; i < weights.n_heads(); ++i)
    const OutputWorkspace of_output(meter, weights.spec, bounds_of(bounds, weights, i), /*on_device=*/true);
  meter.allocate(sizeof(float) * 2 * static_cast<size_t>(bounds.max_tokens) *
                 static_cast<size_t>(weights.spec.d_model));
  return meter.bytes();
}

size_t NextnPass::kv_bytes() const {
  size_t bytes = 0;
  for (const auto& head : heads_) bytes += head->kv.bytes();
  return bytes;
}

size_t NextnPass::block_bytes() const { return heads_.size() * heads_.front()->kv.block_bytes(); }

void NextnPass::copy_out(int32_t block, std::span<std::byte> out) const {
  for (const auto& head : heads_) out = head->kv.copy_out(block, -1, out);
}

void NextnPass::copy_in(int32_t block, std::span<const std::byte> in) const {
  for (const auto& head : heads_) in = head->kv.copy_in(block, -1, in);
}

/// Makes the slot's waiting tokens end before `position`: later ones were rejected drafts. If the slot does
/// not contain what comes before this position of the sequence, everything before counts as done.
void NextnPass::go_to(Slot& slot, uint64_t sequence, int position) const {
  const bool goes_on = slot.sequence == sequence && position >= slot.first && position <= slot.end() &&
                       std::ranges::max(slot.n_done) <= position + 1 && position > 0;
  if (!goes_on) {
    slot.sequence = sequence;
    slot.n_done.assign(heads_.size(), position);
    slot.first = position;
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
  int needed = slot.end();
  for (int head = 0; head < weights_.n_heads(); ++head)
    needed = std::min(needed, slot.n_done[static_cast<size_t>(head)] - 1 - head);
  const int n = needed - slot.first;
  if (n <= 0) return;
  slot.tokens.erase(slot.tokens.begin(), slot.tokens.begin() + n);
  slot.hidden.erase(slot.hidden.begin(),
                    slot.hidden.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(n) * nothing_.size()));
  slot.first += n;
}

/// Makes the tokens of the piece whose hidden states are in host memory those of its slot.
void NextnPass::keep(Slot& slot, const Batch& batch, const Piece& piece) const {
  const size_t first = piece.end - static_cast<size_t>(piece.n_host);
  slot.first = batch.positions[first];
  slot.tokens.assign(batch.tokens.begin() + static_cast<ptrdiff_t>(first),
                     batch.tokens.begin() + static_cast<ptrdiff_t>(piece.end));
  const float* const hidden = kept_.data() + piece.kept;
  slot.hidden.assign(hidden, hidden + static_cast<size_t>(piece.n_host) * nothing_.size());
}

const float* NextnPass::hidden_before(const Slot& slot, int position) const {
  const int at = position - 1 - slot.first;
  if (at < 0 || at >= static_cast<int>(slot.tokens.size())) return nothing_.data();
  return slot.hidden.data() + static_cast<size_t>(at) * nothing_.size();
}

/// Adds a token whose hidden state is in host memory.
void NextnPass::add_row(const Batch& batch, size_t token, int32_t id, int position, const float* hidden) {
  rows_.tokens.push_back(id);
  rows_.positions.push_back(position);
  rows_.slots.push_back(batch.slots[token]);
  given_rows_.push_back(-1);
  given_.insert(given_.end(), hidden, hidden + nothing_.size());
}

/// Adds a token of the step whose hidden state is that of token `row` of the step, on the device.
void NextnPass::add_row_on_device(const Batch& batch, size_t token, int32_t row) {
  rows_.tokens.push_back(batch.tokens[token]);
  rows_.positions.push_back(batch.positions[token]);
  rows_.slots.push_back(batch.slots[token]);
  given_rows_.push_back(row);
}

/// Runs the head if no further row fits.
void NextnPass::run_if_full(int head, const Batch& batch) {
  if (rows_.n_tokens() < bounds_.max_tokens) return;
  run(head, batch);
  rows_.clear();
}

/// Adds the tokens before the position `end` of the token's slot that wait for the head, and runs it whenever
/// a pass is full.
void NextnPass::add_waiting(int head, const Batch& batch, size_t token, int end) {
  Slot& slot = slot_of(batch, token);
  for (int& position = slot.n_done[static_cast<size_t>(head)]; position < end; ++position) {
    const int32_t id = slot.tokens[static_cast<size_t>(position - slot.first)];
    run_if_full(head, batch);
    add_row(batch, token, id, position, hidden_before(slot, position - head));
  }
}

/// Adds the tokens of a piece, whose hidden states are on the device, and those that wait before them.
void NextnPass::add_prompt(int head, const Batch& batch, const Piece& piece) {
  Slot& slot = slot_of(batch, piece.begin);
  add_waiting(head, batch, piece.begin, batch.positions[piece.begin]);
  int& n_done = slot.n_done[static_cast<size_t>(head)];
  for (size_t t = piece.begin; t < piece.end; ++t) {
    const int position = batch.positions[t];
    if (position < n_done) continue;  // a prediction has computed it
    run_if_full(head, batch);
    const size_t back = static_cast<size_t>(head) + 1;
    if (t >= piece.begin + back) {
      add_row_on_device(batch, t, static_cast<int32_t>(t - back));
    } else {
      add_row(batch, t, batch.tokens[t], position, hidden_before(slot, position - head));
    }
  }
  n_done = batch.positions[piece.end - 1] + 1;
}

/// Runs a head on the collected rows. Returns the logits of those in logit_rows.
std::span<const float> NextnPass::run(int head, const Batch& batch) {
  const int n = rows_.n_tokens();
  if (n == 0) return {};
  Head& one = *heads_[static_cast<size_t>(head)];
  const NextnHead& weights = one.weights;
  rows_.block_tables = batch.block_tables;
  rows_.max_blocks = batch.max_blocks;
  const int64_t d = weights_.spec.d_model;
  const float eps = weights_.spec.norm_eps;
  float *embedded = embedded_.floats(), *joined = joined_.floats();
  cpu_.embed(weights.weights.token_embedding, rows_.tokens, embedded);
  cpu_.rms_norm(embedded, weights.embedding_norm.scale, eps, n, d, embedded);
  const bool all_given = given_.size() == static_cast<size_t>(n) * nothing_.size();
  if (all_given) {
    cpu_.copy_rows(embedded, d, n, d, joined, 2 * d);
    cpu_.rms_norm(given_.data(), weights.hidden_norm.scale, eps, n, d, embedded);
    cpu_.copy_rows(embedded, d, n, d, joined + d, 2 * d);
  }
  const ForwardPass::Start start = [&](Backend& backend, float* x) {
    if (!one.on_device) return backend.matmul(joined, n, std::array{product(weights.join, x)});
    if (all_given) {
      join_on_device(backend, n);
    } else {
      fill_on_device(backend, *one.on_device, n, x);
    }
    backend.matmul(joined_on_device_.floats(), n, std::array{product(one.on_device->join, x)});
  };
  const std::span<const float> logits = one.pass.run(rows_, &start).logits;
  given_.clear();
  given_rows_.clear();
  return logits;
}

/// Copies joined_ to the device, in pieces as large as the pinned memory of a step's residual stream.
void NextnPass::join_on_device(Backend& device, int n) {
  const int64_t n_cols = 2 * int64_t{weights_.spec.d_model};
  const int most = std::max(1, bounds_.max_tokens / 2);
  for (int row = 0; row < n; row += most) {
    const auto n_floats = static_cast<size_t>(std::min(most, n - row)) * static_cast<size_t>(n_cols);
    device.from_host(joined_.floats() + row * n_cols, n_floats, joined_on_device_.floats() + row * n_cols);
  }
}

/// Joins embedded_ and the rows' hidden states, some of which are on the device. x: scratch
/// [n, d_model].
void NextnPass::fill_on_device(Backend& device, const NextnOnDevice& head, int n, float* x) {
  const int64_t d = weights_.spec.d_model;
  float* const joined = joined_on_device_.floats();
  device.from_host(embedded_.floats(), static_cast<size_t>(n * d), x);
  device.copy_rows(x, d, n, d, joined, 2 * d);
  gathered_.assign(given_rows_.begin(), given_rows_.end());
  for (int32_t& row : gathered_) row = std::max(row, 0);
  device.gather_rows(hidden_on_device_, d, gathered_, x);
  const float* given = given_.data();
  for (int begin = 0, end = 0; begin < n; begin = std::max(end, begin + 1)) {
    for (end = begin; end < n && given_rows_[static_cast<size_t>(end)] < 0;) ++end;
    const int64_t n_floats = (end - begin) * d;
    if (n_floats == 0) continue;
    device.from_host(given, static_cast<size_t>(n_floats), x + begin * d);
    given += n_floats;
  }
  device.rms_norm(x, head.hidden_norm, weights_.spec.norm_eps, n, d, x);
  device.copy_rows(x, d, n, d, joined + d, 2 * d);
}

/// Lists the pieces of a step. Adds the tokens of each to its slot if all their hidden states are in host
/// memory.
void NextnPass::list_pieces(const Batch& batch, const HiddenRows& hidden) {
  pieces_.clear();
  kept_.clear();
  const float* next = hidden.host;  // of the next token in hidden.rows, or of the next token
  const size_t n_tokens = batch.tokens.size();
  for (size_t begin = 0, end = 0; begin < n_tokens; begin = end) {
    end = begin + 1;
    while (end < n_tokens && batch.slots[end] == batch.slots[begin]) ++end;
    Slot& slot = slot_of(batch, begin);
    go_to(slot, batch.sequences.empty() ? 0 : batch.sequences[begin], batch.positions[begin]);
    const auto is_in = [&](std::span<const int32_t> rows) {
      const auto at = std::ranges::lower_bound(rows, static_cast<int32_t>(begin));
      return static_cast<int>(std::ranges::lower_bound(rows, static_cast<int32_t>(end)) - at);
    };
    const int n_here = static_cast<int>(end - begin);
    const int n_host = hidden.device == nullptr ? n_here : is_in(hidden.rows);
    const size_t n_floats = static_cast<size_t>(n_host) * nothing_.size();
    const float* const host = std::exchange(next, next + n_floats);
    pieces_.push_back({.begin = begin,
                       .end = end,
                       .certain_end = batch.positions[end - 1] + 1 - is_in(batch.draft_rows),
                       .of_prompt = is_in(batch.prompt_rows) > 0,
                       .on_device = n_host < n_here,
                       .kept = kept_.size(),
                       .n_host = n_host});
    if (pieces_.back().on_device) {
      kept_.insert(kept_.end(), host, host + n_floats);
      continue;
    }
    for (size_t t = begin; t < end; ++t) slot.tokens.push_back(batch.tokens[t]);
    slot.hidden.insert(slot.hidden.end(), host, host + n_floats);
  }
}

void NextnPass::after_step(const Batch& batch, const HiddenRows& hidden) {
  hidden_on_device_ = hidden.device;
  list_pieces(batch, hidden);
  for (int head = 0; head < weights_.n_heads(); ++head) {
    rows_.clear();
    for (const Piece& piece : pieces_) {
      const int n_waiting = piece.certain_end - slot_of(batch, piece.begin).n_done[static_cast<size_t>(head)];
      if (piece.on_device) {
        add_prompt(head, batch, piece);
      } else if (piece.of_prompt || n_waiting > kMostWaiting) {
        add_waiting(head, batch, piece.begin, piece.certain_end);
      }
    }
    run(head, batch);
  }
  for (const Piece& piece : pieces_) {
    if (piece.on_device) keep(slot_of(batch, piece.begin), batch, piece);
  }
  for (Slot& slot : slots_) forget_done(slot);
}

void NextnPass::begin_draft(const Batch& batch) {
  n_guessed_ = 0;
  for (size_t t = 0; t < batch.tokens.size(); ++t) {
    Slot& slot = slot_of(batch, t);
    go_to(slot, batch.sequences.empty() ? 0 : batch.sequences[t], batch.positions[t]);
    slot.guesses.clear();
  }
}

/// Adds what the head needs before the last guess of the token's slot: waiting tokens, the sequence's next
/// token, and the guesses after it.
void NextnPass::add_before(int head, const Batch& batch, size_t token) {
  Slot& slot = slot_of(batch, token);
  const int end = batch.positions[token];
  const int next = end - head;  // the position of the sequence's next token
  add_waiting(head, batch, token, next);
  for (int position = next; position < end; ++position) {
    run_if_full(head, batch);
    add_row(batch, token, slot.guesses[static_cast<size_t>(position - next)], position,
            hidden_before(slot, position - head));
  }
}

std::span<const float> NextnPass::predict(const Batch& batch, bool first) {
  rows_.clear();
  if (first) begin_draft(batch);
  const bool heads = weights_.spec.arch.nextn_heads;
  const int head = heads ? n_guessed_ : 0;
  assert(head < weights_.n_heads());
  ++n_guessed_;
  const size_t n_tokens = batch.tokens.size();
  // 1. Tokens go through the layer together with those that need it before them, if all fit in one pass.
  int n_before = 0;
  for (size_t t = 0; t < n_tokens; ++t) {
    Slot& slot = slot_of(batch, t);
    slot.guesses.push_back(batch.tokens[t]);
    n_before += std::max(0, batch.positions[t] - slot.n_done[static_cast<size_t>(head)]);
  }
  const bool needs_others = first || heads;
  const bool fits = n_before <= bounds_.max_tokens - batch.n_tokens();
  if (needs_others && !fits) {
    for (size_t t = 0; t < n_tokens; ++t) add_before(head, batch, t);
    run(head, batch);
    rows_.clear();
  }
  // 2. The logits after each of the tokens.
  for (size_t t = 0; t < n_tokens; ++t) {
    Slot& slot = slot_of(batch, t);
    const int position = batch.positions[t];
    if (needs_others && fits) add_before(head, batch, t);
    rows_.logit_rows.push_back(rows_.n_tokens());
    add_row(batch, t, batch.tokens[t], position,
            needs_others ? hidden_before(slot, position - head) : slot.guessed.data());
    if (needs_others) slot.n_done[static_cast<size_t>(head)] = position - head + 1;
  }
  const std::span<const float> logits = run(head, batch);
  // 3. What the next prediction needs.
  const float* const hidden = heads ? nullptr : heads_.front()->pass.hidden_rows(rows_.n_tokens()).host;
  for (size_t t = 0; t < n_tokens; ++t) {
    Slot& slot = slot_of(batch, t);
    if (!heads) slot.guessed.assign(hidden + t * nothing_.size(), hidden + (t + 1) * nothing_.size());
    if (first) forget_done(slot);
  }
  return logits;
}

}  // namespace hearth
