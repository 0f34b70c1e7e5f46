// See the header.
#include "engine/forward/nextn_pass.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/forward/layer_call.h"

namespace hearth {
namespace {

/// A prediction gives logits for one token of each slot.
PassBounds bounds_of(PassBounds bounds, const NextnWeights& weights) {
  bounds.max_logit_rows = bounds.n_states;
  bounds.n_snapshots = 0;
  bounds.stream_bytes = bounds.stream_kv_bytes = 0;
  bounds = bounds_with_nextn(bounds, weights);
  bounds.beside_nextn = false;
  bounds.of_nextn = true;
  return bounds;
}

Devices devices_of(const Devices& model, NextnShare share) {
  return share == NextnShare::kNone ? Devices(model.cpu()) : Devices(model.cpu(), *model.device(), {true});
}

std::optional<NextnOnDevice> placed(const Devices& devices, const NextnWeights& weights, NextnShare share,
                                    const ModelWeights& model) {
  if (share == NextnShare::kNone) return std::nullopt;
  std::optional<NextnOnDevice> out(std::in_place, weights, model, share, devices.device()->backend());
  out->fill(weights, *devices.device());
  return out;
}

}  // namespace

PassBounds bounds_with_nextn(PassBounds bounds, const NextnWeights& weights) {
  bounds.other_cols = 2 * weights.spec.d_model;
  bounds.beside_nextn = true;
  return bounds;
}

NextnPass::NextnPass(const Devices& devices, const NextnWeights& weights, NextnShare share,
                     const ModelWeights& model, const ForwardPass& model_pass, const KvBlockCounts& counts,
                     const PassBounds& bounds)
    : cpu_(devices.cpu()),
      weights_(weights),
      bounds_(bounds_of(bounds, weights)),
      devices_(devices_of(devices, share)),
      on_device_(placed(devices, weights, share, model)),
      kv_(weights.spec, {.n_blocks = counts.n_blocks, .type = counts.type}, devices_),
      pass_(devices_, weights.spec, on_device_ ? on_device_->weights : weights.weights, kv_, bounds_,
            &model_pass),
      embedded_(floats(cpu_, bounds.max_tokens, weights.spec.d_model)),
      joined_(floats(cpu_, bounds.max_tokens, 2 * int64_t{weights.spec.d_model})),
      nothing_(static_cast<size_t>(weights.spec.d_model), 0.0f),
      slots_(static_cast<size_t>(bounds.n_states)) {
  if (!on_device_) return;
  joined_on_device_ =
      floats(devices_.device()->backend(), bounds.max_tokens, 2 * int64_t{weights.spec.d_model});
  pass_.ffn().use({}, on_device_->neurons);
  if (!on_device_->experts.experts().empty())
    pass_.ffn().share_experts(std::span(&on_device_->experts.view(), 1), /*host_pinned=*/false);
}

double NextnPass::kv_position_bytes(const NextnWeights& weights, KvType type) {
  return hearth::kv_position_bytes(weights.spec, 0, type);
}

double NextnPass::bytes_needed(const NextnWeights& weights, const PassBounds& bounds) {
  const double d_model = weights.spec.d_model;
  const double of_rows = 5.0 * bounds.max_tokens * d_model;  // the buffers, those of pass_, and given_
  const double of_slots = (1.0 * bounds.max_tokens + kMostWaiting) * bounds.n_states * d_model;
  const double of_output = bounds.n_states * (d_model + weights.spec.n_vocab);
  return FfnPass::bytes_needed(weights.spec, bounds.max_tokens) +
         sizeof(float) * (of_rows + of_slots + of_output);
}

size_t NextnPass::device_bytes(const NextnWeights& weights, NextnShare share, const Weights& model,
                               const PassBounds& bounds) {
  if (share == NextnShare::kNone) return 0;
  const PassBounds own = bounds_of(bounds, weights);
  MemoryMeter meter;
  const NextnOnDevice placed(weights, {model, model}, share, meter);
  const OutputWorkspace of_output(meter, weights.spec, own, /*on_device=*/true);
  meter.allocate(sizeof(float) * 2 * static_cast<size_t>(own.max_tokens) *
                 static_cast<size_t>(weights.spec.d_model));
  return meter.bytes();
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
  given_rows_.push_back(hidden != nullptr ? -1 : static_cast<int32_t>(token) - 1);
  if (hidden != nullptr) given_.insert(given_.end(), hidden, hidden + nothing_.size());
}

/// Runs the layer if no further row fits.
void NextnPass::run_if_full(const Batch& batch) {
  if (rows_.n_tokens() < bounds_.max_tokens) return;
  run(batch);
  rows_.clear();
}

/// Adds the waiting tokens before the position `end` of the token's slot, and runs the layer whenever a pass
/// is full.
void NextnPass::add_waiting(const Batch& batch, size_t token, int end) {
  Slot& slot = slot_of(batch, token);
  for (; slot.n_done < end; ++slot.n_done) {
    const int32_t id = slot.tokens[static_cast<size_t>(slot.n_done - slot.first)];
    run_if_full(batch);
    add_row(batch, token, id, slot.n_done, hidden_before(slot, slot.n_done));
  }
}

/// Adds the tokens [begin, end) of a sequence, whose hidden states are on the device, and what waits before
/// them.
void NextnPass::add_prompt(const Batch& batch, size_t begin, size_t end, const HiddenRows& hidden) {
  Slot& slot = slot_of(batch, begin);
  add_waiting(batch, begin, batch.positions[begin]);
  for (size_t t = begin; t < end; ++t) {
    const int position = batch.positions[t];
    if (position < slot.n_done) continue;  // a prediction has computed it
    run_if_full(batch);
    add_row(batch, t, batch.tokens[t], position, t == begin ? hidden_before(slot, position) : nullptr);
  }
  const auto at = std::ranges::lower_bound(hidden.rows, static_cast<int32_t>(end - 1)) - hidden.rows.begin();
  const float* const last = hidden.host + static_cast<size_t>(at) * nothing_.size();
  slot.first = batch.positions[end - 1];
  slot.n_done = slot.first + 1;
  slot.tokens.assign(1, batch.tokens[end - 1]);
  slot.hidden.assign(last, last + nothing_.size());
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
  const bool all_given = given_.size() == static_cast<size_t>(n) * nothing_.size();
  if (all_given) {
    cpu_.copy_rows(embedded, d, n, d, joined, 2 * d);
    cpu_.rms_norm(given_.data(), weights_.hidden_norm.scale, eps, n, d, embedded);
    cpu_.copy_rows(embedded, d, n, d, joined + d, 2 * d);
  }
  const ForwardPass::Start start = [&](Backend& backend, float* x) {
    if (!on_device_) return backend.matmul(joined, n, std::array{product(weights_.join, x)});
    if (all_given) {
      join_on_device(backend, n);
    } else {
      fill_on_device(backend, n, x);
    }
    backend.matmul(joined_on_device_.floats(), n, std::array{product(on_device_->join, x)});
  };
  const std::span<const float> logits = pass_.run(rows_, &start).logits;
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

/// Joins embedded_ and the hidden states before the rows, some of which are on the device. x: scratch
/// [n, d_model].
void NextnPass::fill_on_device(Backend& device, int n, float* x) {
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
  device.rms_norm(x, on_device_->hidden_norm, weights_.spec.norm_eps, n, d, x);
  device.copy_rows(x, d, n, d, joined + d, 2 * d);
}

void NextnPass::after_step(const Batch& batch, const HiddenRows& hidden) {
  rows_.clear();
  hidden_on_device_ = hidden.device;
  const float* next = hidden.host;  // of the next token in hidden.rows, or of the next token
  const size_t n_tokens = batch.tokens.size(), d = nothing_.size();
  for (size_t begin = 0, end = 0; begin < n_tokens; begin = end) {
    end = begin + 1;
    while (end < n_tokens && batch.slots[end] == batch.slots[begin]) ++end;
    Slot& slot = slot_of(batch, begin);
    go_to(slot, batch.sequences.empty() ? 0 : batch.sequences[begin], batch.positions[begin]);
    const auto is_in = [&](std::span<const int32_t> rows) {
      const auto at = std::ranges::lower_bound(rows, static_cast<int32_t>(begin));
      return std::ranges::lower_bound(rows, static_cast<int32_t>(end)) - at;
    };
    const auto n_tokens_here = static_cast<ptrdiff_t>(end - begin);
    const ptrdiff_t n_given = hidden.device == nullptr ? n_tokens_here : is_in(hidden.rows);
    const float* const given = std::exchange(next, next + n_given * static_cast<ptrdiff_t>(d));
    if (n_given < n_tokens_here) {
      add_prompt(batch, begin, end, hidden);
      continue;
    }
    for (size_t t = begin; t < end; ++t) slot.tokens.push_back(batch.tokens[t]);
    slot.hidden.insert(slot.hidden.end(), given, given + n_given * static_cast<ptrdiff_t>(d));
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
  const std::span<const float> logits = run(batch);
  const float* const hidden = pass_.hidden_rows(rows_.n_tokens()).host;
  for (size_t t = 0; t < batch.tokens.size(); ++t) {
    Slot& slot = slot_of(batch, t);
    const float* const h = hidden + t * nothing_.size();
    slot.guessed.assign(h, h + nothing_.size());
    if (first) forget_done(slot);
  }
  return logits;
}

}  // namespace hearth
