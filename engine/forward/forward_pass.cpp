// The forward pass. See the header. The stages of run() show how a transformer is computed.
#include "engine/forward/forward_pass.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "engine/forward/latent_attention.h"
#include "engine/forward/mamba_pass.h"

namespace hearth {
namespace {

int n_tables(const Batch& batch) {
  return static_cast<int>(batch.block_tables.size()) / std::max(1, batch.max_blocks);
}

/// Tokens without logits that a recorded step of NextnPass may have: those that waited for the prediction.
constexpr int kMostBefore = 3;

StepShape shape_of(const Batch& batch, int predictor) {
  StepShape shape{.n_tokens = batch.n_tokens(), .n_logit_rows = static_cast<int>(batch.logit_rows.size())};
  shape.n_tables = n_tables(batch);
  for (const int32_t position : batch.positions) shape.longest = std::max(shape.longest, position + 1);
  // A step of only prompt tokens may have the shape of a decode step. The device then records the step's
  // operations for replay, as it does for decode steps. The recording is wasted work, but harmless.
  shape.decoding = shape.n_logit_rows == shape.n_tokens && batch.hidden_rows.empty();
  shape.predictor = predictor;
  if (predictor > 0)
    shape.decoding = shape.n_logit_rows > 0 && shape.n_tokens <= shape.n_logit_rows + kMostBefore;
  return shape;
}

/// Returns the frequency divisors for contexts of up to max_context positions. They depend on the longest
/// context of the pass, not on the prompt. Otherwise keys would change as the text grows.
std::span<const float> divisors_of(const ModelSpec& spec, const Weights& weights, int max_context) {
  const bool is_long = max_context > spec.rope.original_context && !weights.long_rope_divisors.empty();
  return is_long ? weights.long_rope_divisors : weights.rope_divisors;
}

/// Reserves scratch memory in the devices' backends and returns the devices.
const Devices& reserved(const Devices& devices, const ModelSpec& spec, const PassBounds& bounds) {
  if (bounds.of_nextn > 0) return devices;
  StepBounds steps = step_bounds(spec, bounds);
  if (devices.device() != nullptr) devices.device()->reserve(steps);
  if (!devices.cpu_has_layers() && !bounds.nextn_on_cpu) steps.max_context = 1;  // no attention
  devices.cpu().reserve(steps);
  return devices;
}

}  // namespace

ForwardPass::ForwardPass(const Devices& devices, const ModelSpec& spec, const Weights& weights,
                         const KvMemory& kv, const PassBounds& bounds, const ForwardPass* lender)
    : devices_(reserved(devices, spec, bounds)),
      spec_(spec),
      weights_(weights),
      kv_(kv),
      frequencies_(rope_frequencies(spec.rope, divisors_of(spec, weights, bounds.max_context))),
      local_frequencies_(rope_frequencies(spec.local_rope, {})),
      rope_(rope_of(frequencies_, spec.rope)),
      local_rope_(rope_of(local_frequencies_, spec.local_rope)),
      branches_apart_(spec.changes_branches()),
      drops_at_(spec.first_layer_without_kv()),
      bounds_(bounds),
      ffn_(devices, spec, weights, bounds.max_tokens, lender != nullptr ? &lender->ffn_ : nullptr),
      on_cpu_(lender != nullptr ? lender->on_cpu_.view() : Workspace(devices.cpu(), spec, bounds.max_tokens)),
      states_(spec, bounds.n_states, bounds.n_snapshots, devices),
      output_(devices.of_output(), spec, bounds, devices.device() != nullptr),
      indexer_(devices.cpu(), spec, kv, bounds.max_tokens, bounds.max_context),
      layer_embeddings_(devices.cpu(), devices.of_layer(0), spec, weights, bounds.max_tokens),
      residual_streams_(devices.of_layer(0), spec, weights, bounds.max_tokens) {
  if (spec.arch.position_offset || spec.arch.token_types)
    table_rows_.reserve(static_cast<size_t>(bounds.max_tokens));
  if (drops_at_ < spec.n_layers) {
    for (std::vector<int32_t>* one : {&wanted_rows_, &wanted_.tokens, &wanted_.positions, &wanted_.slots,
                                      &wanted_.logit_rows, &wanted_.hidden_rows}) {
      one->reserve(static_cast<size_t>(bounds.max_tokens));
    }
  }
  if (spec.arch.assists) places_before_.reserve(static_cast<size_t>(bounds.max_tokens));
  if (bounds.beside_nextn) host_rows_.reserve(static_cast<size_t>(bounds.max_tokens));
  // The lender's own has its hidden_rows().
  if (lender != nullptr) on_cpu_.normed = floats(devices.cpu(), bounds.max_tokens, spec.d_model);
  if (spec.arch.looks_ahead) n_seen_.reserve(static_cast<size_t>(bounds.max_tokens));
  hidden_.reserve(static_cast<size_t>(bounds.max_tokens) * static_cast<size_t>(spec.d_model));
  if (devices.device() != nullptr) {
    on_device_ = lender != nullptr ? lender->on_device_.view()
                                   : Workspace(devices.device()->backend(), spec, bounds.max_tokens);
    has_library_ = !devices.device()->prompt_library().empty();
  }
  if (!spec.recurrent || spec.recurrent.kind != RecurrentKind::kGatedDelta) return;
  on_cpu_.delta.fill_scales(devices.cpu(), spec.recurrent);
  if (devices.device() != nullptr) on_device_.delta.fill_scales(devices.device()->backend(), spec.recurrent);
}

Rope ForwardPass::rope_of(const RopeFrequencies& frequencies, const RopeSpec& spec) const {
  return {.kind = spec_.arch.rope,
          .n_rot = spec.n_rot,
          .inv_freq = frequencies.inv_freq.data(),
          .magnitude = frequencies.magnitude};
}

ForwardPass::Side ForwardPass::side_of(int layer) {
  if (streams_ || devices_.on_device(layer)) return {&devices_.device()->backend(), &on_device_};
  return {&devices_.cpu(), &on_cpu_};
}

/// The layer's weights, in the memory of the backend that computes the layer in this step.
const LayerWeights& ForwardPass::layer_weights(int layer) const {
  const bool streamed = streams_ && !devices_.on_device(layer);
  return (streamed ? weights_.streamed : weights_.layers)[static_cast<size_t>(layer)];
}

StepOutput ForwardPass::run(const Batch& batch, const Start* start) {
  int n_tokens = batch.n_tokens();
  assert(n_tokens > 0 && n_tokens <= bounds_.max_tokens &&
         static_cast<int>(batch.logit_rows.size()) <= bounds_.max_logit_rows);
  assert(static_cast<int>(batch.hidden_rows.size()) <= n_tokens);
  const TraceBlock whole(trace_, "engine", "step");
  KvPlaces places{.n_tokens = n_tokens,
                  .positions = batch.positions.data(),
                  .table_of = batch.slots.data(),
                  .block_tables = batch.block_tables.data(),
                  .max_blocks = batch.max_blocks,
                  .n_seen = seen_ahead(batch),
                  .n_tables = n_tables(batch)};
  if (spec_.arch.assists) {
    // The other model has no key of the token at p yet, so the token sees what the one before it sees.
    places_before_.clear();
    for (const int32_t position : batch.positions) places_before_.push_back(position - 1);
    places.positions = places_before_.data();
  }
  KvPlaces window_places = places;
  window_places.block_tables = batch.window_tables.data();
  assert(!kv_.counts().window || batch.window_tables.size() == batch.block_tables.size());
  if (devices_.device() != nullptr) {
    StepShape shape = shape_of(batch, bounds_.of_nextn);
    shape.notes = ffn_.observers().counts_step() || ffn_.observers().wants_choices();
    // The device must not record a step for replay if a library multiplies prompt tokens in it, or if the
    // host reads results between layers to verify them. The library's bits differ from the CPU's.
    const bool by_library = has_library_ && !batch.prompt_rows.empty();
    const bool verified = verifier_ != nullptr && verifier_->begin_step(/*comparable=*/!by_library);
    // Nor if it makes snapshots of states, for which a recorded step has no operations.
    if (by_library || verified || !batch.state_copies.empty()) shape.decoding = false;
    if (bounds_.beside_nextn) {
      choose_host_rows(batch);
      if (host_rows_.size() < batch.tokens.size())
        shape.decoding = false;  // their number is not in the shape
    }
    devices_.device()->begin_step(shape);
    devices_.device()->set_prompt_rows(batch.prompt_rows);
    // In a long step, the device also computes the layers that are in host memory.
    streams_ = bounds_.stream_kv_bytes > 0 && !shape.decoding && !ffn_.observers().observes_neurons() &&
               devices_.device()->streams_layers(n_tokens);
  }
  ffn_.begin_step(streams_);
  runs_ = states_.begin_step(batch);

  // 1. The residual stream starts as the caller says, or with token embeddings, plus learned positions and
  //    token types if the model has them.
  const bool starts_on_device = start != nullptr ? devices_.on_device(0) : weights_.embeds_on_device;
  Side side =
      starts_on_device ? Side{&devices_.device()->backend(), &on_device_} : Side{&devices_.cpu(), &on_cpu_};
  if (start != nullptr) {
    (*start)(*side.backend, side.work->residual.floats());
  } else {
    embed(side, batch);
  }
  if (layer_embeddings_) {
    side = moved(side, side_of(0), n_tokens);
    layer_embeddings_.begin_step(batch.tokens, side.work->residual.floats());
  }
  if (residual_streams_) residual_streams_.begin_step(side.work->residual.floats(), n_tokens);

  // 2. Each layer adds its attention and its FFN to the stream.
  const bool norms_sums = spec_.arch.norms == NormPlace::kSum;
  const Batch* rest = &batch;  // the tokens that the layers from here on compute
  for (int i = 0; i < spec_.n_layers; ++i) {
    if (i == drops_at_ && can_drop_rows()) {
      rest = &drop_unwanted_rows(side, batch);
      n_tokens = rest->n_tokens();
      for (KvPlaces* one : {&places, &window_places}) {
        one->n_tokens = n_tokens;
        one->positions = rest->positions.data();
        one->table_of = rest->slots.data();
      }
      if (n_tokens == 0) break;
    }
    side = moved(side, side_of(i), n_tokens);
    Backend& backend = *side.backend;
    const Workspace& work = *side.work;
    float* x = work.residual.floats();
    const LayerWeights& layer = layer_weights(i);
    Trace* const trace = streams_ || devices_.on_device(i) ? nullptr : trace_;
    std::optional<TraceBlock> stage(std::in_place, trace, "CPU", "attention", i);
    if (residual_streams_) residual_streams_.predict(layer.streams, n_tokens, x);
    ffn_.before_attention(i, x, n_tokens);
    // In parallel architectures, the FFN reads the layer's input; in all others, it reads the residual stream
    // after attention. Attention or an FFN without a norm reads its input directly.
    const bool parallel = spec_.arch.parallel_attention;
    const bool ffn_norm_first = parallel && layer.ffn_norm.scale != nullptr;
    if (ffn_norm_first) norm(backend, x, layer.ffn_norm, n_tokens, work.ffn_input.floats());
    float* const branch = branches_apart_ ? work.branch.floats() : x;
    const LayerSpec facts = spec_.layer(i);
    if (facts.mixes) {
      norm(backend, x, layer.attention_norm, n_tokens, work.normed.floats());
      if (facts.recurrent) recurrent_block(side, i, n_tokens, branch);
      if (spec_.attends(i)) {
        attention_block(side, i, *rest, kv_.is_window(i) ? window_places : places, branch,
                        /*accumulate=*/facts.recurrent || !branches_apart_);
      }
      if (branches_apart_) add_branch(side, layer.attention_post_norm, n_tokens);
      if (norms_sums) norm(backend, x, layer.attention_post_norm, n_tokens, x);
      if (residual_streams_) residual_streams_.add_laurel(layer.laurel, work.normed.floats(), n_tokens, x);
    }
    if (facts.has_ffn) {
      stage.emplace(trace, "CPU", "FFN", i);
      if (!parallel) norm(backend, x, layer.ffn_norm, n_tokens, work.normed.floats());
      if (branches_apart_) backend.zero(int64_t{n_tokens} * spec_.d_model, branch);
      ffn_.run(i, (ffn_norm_first ? work.ffn_input : work.normed).floats(), x, n_tokens, branch);
      if (branches_apart_) add_branch(side, layer.ffn_post_norm, n_tokens);
      if (norms_sums) norm(backend, x, layer.ffn_post_norm, n_tokens, x);
    }
    if (residual_streams_) {
      residual_streams_.correct(layer, layer_embeddings_, i, n_tokens, x);
    } else if (layer_embeddings_) {
      layer_embeddings_.add(i, layer, n_tokens, x);
    }
    if (layer.output_scale != 1.0f) backend.scale(layer.output_scale, int64_t{n_tokens} * spec_.d_model, x);
  }

  if (residual_streams_) residual_streams_.end_step(n_tokens, side.work->residual.floats());

  // 3. Compute hidden states and logits for the tokens that need them.
  side =
      moved(side, {&devices_.of_output(), devices_.device() == nullptr ? &on_cpu_ : &on_device_}, n_tokens);
  StepOutput out;
  out.hidden = hidden_states(side, *rest);
  out.logits = logits(side, *rest);
  ffn_.end_step();
  return out;
}

/// Moves the residual stream to the other device's memory.
ForwardPass::Side ForwardPass::moved(const Side& from, const Side& to, int n_tokens) {
  if (from.work == to.work) return to;
  const size_t n = static_cast<size_t>(n_tokens) * static_cast<size_t>(spec_.d_model);
  to.backend->from_host(from.backend->to_host(from.work->residual.floats(), n), n,
                        to.work->residual.floats());
  return to;
}

void ForwardPass::embed(const Side& side, const Batch& batch) {
  float* x = side.work->residual.floats();
  const int64_t n = int64_t{batch.n_tokens()} * spec_.d_model;
  side.backend->embed(weights_.token_embedding, batch.tokens, x);
  if (spec_.embedding_scale != 1.0f) side.backend->scale(spec_.embedding_scale, n, x);
  if (spec_.arch.token_types) {
    const auto last_type = static_cast<int32_t>(weights_.token_types.n_rows - 1);
    table_rows_.assign(batch.tokens.size(), 0);
    for (size_t t = 0; t < batch.token_types.size(); ++t)
      table_rows_[t] = std::min(batch.token_types[t], last_type);
    add_rows(side, weights_.token_types, table_rows_);
  }
  if (spec_.arch.position_offset) {
    table_rows_.clear();
    for (const int32_t position : batch.positions) {
      table_rows_.push_back(position + *spec_.arch.position_offset);
    }
    add_rows(side, weights_.position_embedding, table_rows_);
  }
  if (spec_.arch.embedding_norm) norm(*side.backend, x, weights_.embedding_norm, batch.n_tokens(), x);
}

/// Adds one row of a table to each token's residual stream: rows[t] for token t.
void ForwardPass::add_rows(const Side& side, const Matrix& table, std::span<const int32_t> rows) {
  float* added = side.work->normed.floats();
  side.backend->embed(table, rows, added);
  side.backend->add(added, static_cast<int64_t>(rows.size()) * spec_.d_model, side.work->residual.floats());
}

/// Whether tokens that nobody wants may be left out of the layers that have no keys and values of their own.
bool ForwardPass::can_drop_rows() const {
  const FfnObservers& observers = ffn_.observers();
  return devices_.device() == nullptr && !residual_streams_ && !spec_.arch.assists &&
         !observers.observes_neurons() && !observers.observes_values() && !observers.counts_step() &&
         !observers.wants_choices();
}

/// Keeps the tokens whose logits or hidden states are wanted: moves their rows of the residual stream and of
/// the layers' embeddings to the front, and returns a batch of these tokens, which is valid until the next
/// step.
const Batch& ForwardPass::drop_unwanted_rows(const Side& side, const Batch& batch) {
  wanted_rows_.clear();
  std::ranges::set_union(batch.logit_rows, batch.hidden_rows, std::back_inserter(wanted_rows_));
  if (wanted_rows_.size() == batch.tokens.size()) return batch;
  wanted_.clear();
  wanted_.block_tables = batch.block_tables;
  wanted_.window_tables = batch.window_tables;
  wanted_.max_blocks = batch.max_blocks;
  wanted_.scored_rows = batch.scored_rows;
  for (const int32_t row : wanted_rows_) {
    const auto at = static_cast<size_t>(row);
    wanted_.tokens.push_back(batch.tokens[at]);
    wanted_.positions.push_back(batch.positions[at]);
    wanted_.slots.push_back(batch.slots[at]);
  }
  const auto place_of = [this](int32_t row) {
    return static_cast<int32_t>(std::ranges::lower_bound(wanted_rows_, row) - wanted_rows_.begin());
  };
  for (const int32_t row : batch.logit_rows) wanted_.logit_rows.push_back(place_of(row));
  for (const int32_t row : batch.hidden_rows) wanted_.hidden_rows.push_back(place_of(row));
  if (wanted_rows_.empty()) return wanted_;
  float *x = side.work->residual.floats(), *kept = side.work->normed.floats();
  side.backend->gather_rows(x, spec_.d_model, wanted_rows_, kept);
  side.backend->copy(kept, static_cast<int64_t>(wanted_rows_.size()) * spec_.d_model, x);
  if (layer_embeddings_) layer_embeddings_.keep(wanted_rows_);
  return wanted_;
}

/// Computes KvPlaces::n_seen, how many positions each token sees, for models whose tokens look ahead. Such a
/// token sees its whole sequence, and the step contains the whole sequence. Returns null for all other
/// models.
const int32_t* ForwardPass::seen_ahead(const Batch& batch) {
  if (!spec_.arch.looks_ahead) return nullptr;
  n_seen_.resize(batch.tokens.size());
  for (size_t t = n_seen_.size(); t-- > 0;) {
    const bool last = t + 1 == n_seen_.size() || batch.slots[t + 1] != batch.slots[t];
    n_seen_[t] = last ? batch.positions[t] + 1 : n_seen_[t + 1];
  }
  return n_seen_.data();
}

std::span<const float> ForwardPass::hidden_states(const Side& side, const Batch& batch) {
  hidden_.clear();
  const int n_rows = static_cast<int>(batch.hidden_rows.size());
  if (n_rows == 0) return {};
  float* rows = side.work->normed.floats();  // the last layer no longer needs this buffer
  side.backend->gather_rows(side.work->residual.floats(), spec_.d_model, batch.hidden_rows, rows);
  if (weights_.output_norm.scale != nullptr) norm(*side.backend, rows, weights_.output_norm, n_rows, rows);
  const size_t n = static_cast<size_t>(n_rows) * static_cast<size_t>(spec_.d_model);
  const float* values = side.backend->to_host(rows, n);
  hidden_.assign(values, values + n);
  return hidden_;
}

HiddenRows ForwardPass::hidden_rows(int n_tokens) {
  if (devices_.device() != nullptr) return hidden_of_step_;
  if (bounds_.of_nextn > 0 || bounds_.keeps_last) return {.host = output_.last.floats(), .rows = {}};
  assert(spec_.all_have_own_kv());
  float* const rows = on_cpu_.normed.floats();
  write_hidden({&devices_.cpu(), &on_cpu_}, n_tokens, rows);
  return {.host = rows, .rows = {}};
}

/// Writes the hidden states that NextnPass reads, of the step's first n_rows tokens, to `to`.
void ForwardPass::write_hidden(const Side& side, int n_rows, float* to) {
  const float* const x = side.work->residual.floats();
  if (spec_.arch.nextn_heads) return side.backend->copy(x, int64_t{n_rows} * spec_.d_model, to);
  norm(*side.backend, x, weights_.output_norm, n_rows, to);
}

/// Lists the tokens whose hidden states a step copies to host memory for NextnPass: HiddenRows::rows, or all.
void ForwardPass::choose_host_rows(const Batch& batch) {
  host_rows_.clear();
  size_t next = 0;  // in prompt_rows
  for (size_t t = 0; t < batch.tokens.size(); ++t) {
    const bool of_prompt =
        next < batch.prompt_rows.size() && batch.prompt_rows[next] == static_cast<int32_t>(t);
    next += of_prompt ? 1 : 0;
    const size_t reader = t + static_cast<size_t>(bounds_.n_nextn_heads);
    const bool last = reader >= batch.tokens.size() || batch.slots[reader] != batch.slots[t];
    if (bounds_.nextn_on_cpu || !of_prompt || last) host_rows_.push_back(static_cast<int32_t>(t));
  }
}

/// Writes the hidden states that NextnPass reads in host memory to `to`, and sets hidden_of_step_ except the
/// address `host`, to which the caller copies them. Returns their number.
int ForwardPass::keep_hidden(const Side& side, const Batch& batch, float* to) {
  const int n_tokens = batch.n_tokens();
  hidden_of_step_ = {};
  if (bounds_.of_nextn > 0 || bounds_.keeps_last) {
    const int n_logits = static_cast<int>(batch.logit_rows.size());
    if (n_logits > 0) side.backend->copy(output_.last.floats(), int64_t{n_logits} * spec_.d_model, to);
    return n_logits;
  }
  float* const all = output_.hidden.floats();
  const auto n_rows = static_cast<int>(host_rows_.size());
  write_hidden(side, n_tokens, n_rows == n_tokens ? to : all);
  if (n_rows == n_tokens) return n_rows;
  side.backend->gather_rows(all, spec_.d_model, host_rows_, to);
  hidden_of_step_ = {.rows = host_rows_, .device = all};
  return n_rows;
}

std::span<const float> ForwardPass::logits(const Side& side, const Batch& batch) {
  const int64_t n = static_cast<int64_t>(batch.logit_rows.size()) * spec_.n_vocab;
  float* values = output_.logits.floats();
  if (n > 0) compute_logits(side, batch, values);
  // NextnPass's hidden states follow the logits, so that one copy brings both to the host.
  const int64_t from = OutputWorkspace::kept_from(n);
  const bool keeps = devices_.device() != nullptr && kept_rows(bounds_) > 0;
  const int n_kept = keeps ? keep_hidden(side, batch, values + from) : 0;
  const int64_t n_read = n_kept > 0 ? from + int64_t{n_kept} * spec_.d_model : n;
  if (n_read == 0) {
    side.backend->finish();
    return {};
  }
  const float* const read = side.backend->to_host(values, static_cast<size_t>(n_read));
  if (n_kept > 0) hidden_of_step_.host = read + from;
  return {read, static_cast<size_t>(n)};
}

void ForwardPass::compute_logits(const Side& side, const Batch& batch, float* values) {
  const int n_logits = static_cast<int>(batch.logit_rows.size());
  assert(spec_.arch.has_output);
  float* last = output_.last.floats();
  side.backend->gather_rows(side.work->residual.floats(), spec_.d_model, batch.logit_rows, last);
  norm(*side.backend, last, weights_.output_norm, n_logits, last);
  if (devices_.device() != nullptr) devices_.device()->set_prompt_rows(batch.scored_rows);
  side.backend->matmul(last, n_logits, std::array{product(weights_.output, values)});
  const int64_t n = int64_t{n_logits} * spec_.n_vocab;
  if (spec_.logit_scale != 1.0f) side.backend->scale(spec_.logit_scale, n, values);
  if (spec_.logit_cap > 0.0f) side.backend->soft_cap(spec_.logit_cap, n, values);
}

/// Computes a recurrent layer in the place of attention, or beside it.
void ForwardPass::recurrent_block(const Side& side, int index, int n_tokens, float* out) {
  const StateMemory::Copies copies = states_.copies(index);
  const RecurrentLayer layer{.weights = layer_weights(index),
                             .memory = states_.layer(index),
                             .runs = runs_,
                             .state_copies = copies.states,
                             .tail_copies = copies.tails,
                             .n_tokens = n_tokens,
                             .normed = side.work->normed.floats(),
                             .out = out,
                             .accumulate = !branches_apart_};
  switch (spec_.recurrent.kind) {
    case RecurrentKind::kGatedDelta:
      run_delta_layer(*side.backend, spec_, side.work->delta, layer);
      break;
    case RecurrentKind::kMamba2:
      run_mamba_layer(*side.backend, spec_, side.work->delta, layer);
      break;
    case RecurrentKind::kShortConv:
      run_short_conv(*side.backend, spec_, side.work->short_conv, layer);
      break;
  }
  states_.take_copies(index);
}

/// The attention part of a layer: projections, optional q/k norms, RoPE, KV cache, softmax, output
/// projection. Adds the result to `out`, or overwrites it with the result.
void ForwardPass::attention_block(const Side& side, int index, const Batch& batch, const KvPlaces& places,
                                  float* out, bool accumulate) {
  Backend& backend = *side.backend;
  const Workspace& work = *side.work;
  const LayerWeights& layer = layer_weights(index);
  const LayerSpec facts = spec_.layer(index);
  const KvLayer kv_layer = kv_.layer(index);
  const KvShape kv_shape = kv_.shape(index);
  const int n_tokens = batch.n_tokens();
  float *q = work.q.floats(), *k = work.k.floats();
  const bool chooses = static_cast<bool>(indexer_);
  if (spec_.latent) {
    const LatentBuffers buffers{.normed = work.normed.floats(),
                                .q_latent = work.q_latent.floats(),
                                .q_projected = work.q_projected.floats(),
                                .q = q,
                                .k = k,
                                .scratch = work.v.floats()};
    project_latent(backend, spec_, layer, batch.positions, facts.turns ? &rope_ : nullptr, buffers);
    backend.kv_append(k, k, spec_.kv_dim(index), places, kv_shape,
                      kv_layer);  // the latent is both key and value
    if (chooses) indexer_.choose(index, layer.indexer, buffers.normed, buffers.q_latent, rope_, places);
  } else {
    project(side, index, batch, places);
  }
  const AttentionScores scores{.scale = spec_.score_scale(),
                               .window = facts.window,
                               .soft_cap = spec_.attention_cap,
                               .sinks = layer.sinks,
                               .growth = layer.query_growth,
                               .growth_span = spec_.growth_span,
                               .growth_from = spec_.arch.growth_from,
                               .sectioned = spec_.arch.window.sections,
                               .slopes = layer.slopes};
  if (chooses) {
    indexer_.attend(index, {q, spec_.q_dim(index), spec_.heads_of(index), scores.scale}, places,
                    work.attended.floats());
  } else {
    backend.attention(q, spec_.q_dim(index), spec_.heads_of(index), scores, places, kv_shape, kv_layer,
                      work.attended.floats());
  }
  if (spec_.latent) {
    unfold_values(backend, spec_, layer.latent, n_tokens, work.attended.floats(), work.values.floats());
  }
  if (spec_.arch.gated_attention) {
    float* const attended = work.attended.floats();
    backend.gated_activation({Activation::kSigmoid}, work.values.floats(), attended,
                             int64_t{n_tokens} * spec_.attended_dim(index), attended);
  }
  if (layer.attention_gate.weight) apply_gate(side, index, n_tokens);
  if (spec_.d_value > 0) {
    backend.copy_rows(work.attended.floats(), spec_.head_dim, int64_t{n_tokens} * spec_.heads_of(index),
                      spec_.d_value, work.values.floats(), spec_.d_value);
  }
  backend.matmul((spec_.latent || spec_.d_value > 0 ? work.values : work.attended).floats(), n_tokens,
                 std::array{product(layer.attention_out, out, accumulate)});
}

/// Computes q, k and v of a layer without a latent: projections, optional norms, RoPE, KV cache.
void ForwardPass::project(const Side& side, int index, const Batch& batch, const KvPlaces& places) {
  Backend& backend = *side.backend;
  const LayerWeights& layer = layer_weights(index);
  const LayerSpec facts = spec_.layer(index);
  const int n_tokens = batch.n_tokens();
  float *q = side.work->q.floats(), *k = side.work->k.floats(), *v = side.work->v.floats();
  const bool gated = spec_.arch.gated_attention;
  std::array<Product, 4> products{product(layer.q, gated ? side.work->q_projected.floats() : q),
                                  product(layer.k, k),
                                  product(layer.v, spec_.d_value > 0 ? side.work->values.floats() : v)};
  size_t n_products = layer.v.weight ? 3 : layer.k.weight ? 2 : 1;
  if (layer.attention_gate.weight) {
    products[n_products++] = product(layer.attention_gate, side.work->values.floats());
  }
  backend.matmul(side.work->normed.floats(), n_tokens, std::span(products).first(n_products));
  if (gated) separate_gates(side, index, n_tokens);
  if (!layer.k.weight) return turn_queries(side, index, batch);  // its keys are in another layer's cache
  if (spec_.d_value > 0) fill_up_values(side, index, n_tokens);
  if (spec_.value_scale != 1.0f) backend.scale(spec_.value_scale, int64_t{n_tokens} * spec_.kv_dim(index), v);
  if (!layer.v.weight) backend.copy(k, int64_t{n_tokens} * spec_.kv_dim(index), v);
  if (layer.v_norm != nullptr) {
    const int64_t n_rows = int64_t{n_tokens} * spec_.kv_heads_of(index);
    backend.rms_norm(v, layer.v_norm, spec_.norm_eps, n_rows, spec_.head_dim_of(index), v);
  }
  const bool norms = layer.q_norm != nullptr, norms_last = spec_.arch.qk_norm_after_rope;
  if (norms && !norms_last) norm_qk(backend, index, n_tokens, q, k);
  const KvLayer cache = kv_.layer(index);
  const KvShape shape = kv_.shape(index);
  const Rope& rope = facts.local_rope ? local_rope_ : rope_;
  if (norms && norms_last) {
    if (facts.turns) {
      backend.rope(q, spec_.q_dim(index), spec_.heads_of(index), shape.head_dim, batch.positions, rope);
      backend.rope(k, spec_.kv_dim(index), shape.n_kv_heads, shape.head_dim, batch.positions, rope);
    }
    norm_qk(backend, index, n_tokens, q, k);
  } else if (facts.turns) {
    return backend.rope_append({q, spec_.q_dim(index), spec_.heads_of(index), k, v, spec_.kv_dim(index)},
                               rope, places, shape, cache);
  }
  backend.kv_append(k, v, spec_.kv_dim(index), places, shape, cache);
}

/// Copies the projected values to rows as long as the keys, which end with zeros.
void ForwardPass::fill_up_values(const Side& side, int index, int n_tokens) {
  float* const v = side.work->v.floats();
  const int64_t n_rows = int64_t{n_tokens} * spec_.kv_heads_of(index);
  side.backend->zero(n_rows * spec_.head_dim, v);
  side.backend->copy_rows(side.work->values.floats(), spec_.d_value, n_rows, spec_.d_value, v,
                          spec_.head_dim);
}

/// Separates the queries from their gates, which follow each other head by head.
void ForwardPass::separate_gates(const Side& side, int index, int n_tokens) {
  const Workspace& work = *side.work;
  const int64_t n_rows = int64_t{n_tokens} * spec_.heads_of(index), n_cols = spec_.head_dim_of(index);
  const float* const both = work.q_projected.floats();
  side.backend->copy_rows(both, 2 * n_cols, n_rows, n_cols, work.q.floats(), n_cols);
  side.backend->copy_rows(both + n_cols, 2 * n_cols, n_rows, n_cols, work.values.floats(), n_cols);
}

/// Multiplies attention's output by the activated gate, which has a number for each element or for each head.
void ForwardPass::apply_gate(const Side& side, int index, int n_tokens) {
  Backend& backend = *side.backend;
  const FfnActivation activation{*spec_.arch.attention_gate};
  const int64_t n_gates = layer_weights(index).attention_gate.weight.n_rows;
  float *gates = side.work->values.floats(), *attended = side.work->attended.floats();
  if (n_gates == spec_.attended_dim(index)) {
    return backend.gated_activation(activation, gates, attended, n_tokens * n_gates, attended);
  }
  backend.gated_activation(activation, gates, nullptr, n_tokens * n_gates, gates);
  backend.scale_rows(gates, n_tokens * n_gates, spec_.head_dim_of(index), attended);
}

/// Norms and rotates the queries of a layer that reads the keys and values of another layer.
void ForwardPass::turn_queries(const Side& side, int index, const Batch& batch) {
  Backend& backend = *side.backend;
  const LayerSpec facts = spec_.layer(index);
  float* q = side.work->q.floats();
  norm_qk(backend, index, batch.n_tokens(), q, nullptr);
  if (!facts.turns) return;
  backend.rope(q, spec_.q_dim(index), spec_.heads_of(index), spec_.head_dim_of(index), batch.positions,
               facts.local_rope ? local_rope_ : rope_);
}

/// Norms q and k, each head separately or all heads as a whole. k is null in layers without keys.
void ForwardPass::norm_qk(Backend& backend, int index, int n_tokens, float* q, float* k) {
  const LayerWeights& layer = layer_weights(index);
  const auto norm_rows = [&](float* x, const float* weight, int n_heads) {
    const NormShape shape = spec_.qk_norm_shape(n_heads, index);
    const int64_t n_rows = int64_t{n_tokens} * n_heads * spec_.head_dim_of(index) / shape.n_cols;
    if (spec_.arch.norm == NormKind::kLayer) {
      backend.layer_norm(x, weight, nullptr, spec_.norm_eps, n_rows, shape.n_cols, x, shape.n_rows);
    } else {
      backend.rms_norm(x, weight, spec_.norm_eps, n_rows, shape.n_cols, x, shape.n_rows);
    }
  };
  norm_rows(q, layer.q_norm, spec_.heads_of(index));
  if (k != nullptr) norm_rows(k, layer.k_norm, spec_.kv_heads_of(index));
}

/// x += residual_scale * norm(branch), where x is the residual stream; the norm is optional.
void ForwardPass::add_branch(const Side& side, const NormWeights& post_norm, int n_tokens) {
  const int64_t n = int64_t{n_tokens} * spec_.d_model;
  float* branch = side.work->branch.floats();
  if (post_norm.scale != nullptr) norm(*side.backend, branch, post_norm, n_tokens, branch);
  if (spec_.residual_scale != 1.0f) side.backend->scale(spec_.residual_scale, n, branch);
  side.backend->add(branch, n, side.work->residual.floats());
}

/// out = norm(x), or x if there is no norm.
void ForwardPass::norm(Backend& backend, const float* x, const NormWeights& weights, int64_t n_rows,
                       float* out) {
  if (weights.scale == nullptr) {
    backend.copy(x, n_rows * spec_.d_model, out);
  } else if (spec_.arch.norm == NormKind::kLayer) {
    backend.layer_norm(x, weights.scale, weights.bias, spec_.norm_eps, n_rows, spec_.d_model, out);
  } else {
    backend.rms_norm(x, weights.scale, spec_.norm_eps, n_rows, spec_.d_model, out);
  }
}

}  // namespace hearth
