// The forward pass. See the header; the stages of run() are the architecture.
#include "engine/forward/forward_pass.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace hearth {
namespace {

Buffer floats(Memory& memory, int64_t n_rows, int64_t n_cols) {
  return memory.allocate(static_cast<size_t>(n_rows * n_cols) * sizeof(float));
}

Product product(const Linear& linear, float* out, bool accumulate = false) {
  return {.weight = linear.weight,
          .bias = linear.bias,
          .out = out,
          .out_stride = linear.weight.n_rows,
          .accumulate = accumulate};
}

StepShape shape_of(const Batch& batch) {
  StepShape shape{.n_tokens = batch.n_tokens(), .n_logit_rows = static_cast<int>(batch.logit_rows.size())};
  for (const int32_t slot : batch.slots) shape.n_tables = std::max(shape.n_tables, slot + 1);
  for (const int32_t position : batch.positions) shape.longest = std::max(shape.longest, position + 1);
  // A step of prompts alone may have the same shape; recording it is then wasted, but harmless.
  shape.decoding = shape.n_logit_rows == shape.n_tokens && batch.hidden_rows.empty();
  return shape;
}

}  // namespace

Workspace::Workspace(Memory& memory, const ModelSpec& spec, int max_tokens)
    : residual(floats(memory, max_tokens, spec.d_model)),
      normed(floats(memory, max_tokens, spec.d_model)),
      ffn_input(floats(memory, spec.arch.parallel_attention ? max_tokens : 0, spec.d_model)),
      q(floats(memory, max_tokens, spec.q_dim())),
      k(floats(memory, max_tokens, spec.kv_dim())),
      v(floats(memory, max_tokens, spec.kv_dim())),
      attended(floats(memory, max_tokens, spec.q_dim())) {}

OutputWorkspace::OutputWorkspace(Memory& memory, const ModelSpec& spec, int max_logit_rows)
    : last(floats(memory, max_logit_rows, spec.d_model)),
      logits(floats(memory, max_logit_rows, spec.n_vocab)) {}

namespace {

/// The devices, after their backends have reserved scratch.
const Devices& reserved(const Devices& devices, const ModelSpec& spec, const PassBounds& bounds) {
  StepBounds steps = step_bounds(spec, bounds);
  if (devices.device() != nullptr) devices.device()->reserve(steps);
  if (!devices.cpu_has_layers()) steps.max_context = 1;  // no attention
  devices.cpu().reserve(steps);
  return devices;
}

}  // namespace

StepBounds step_bounds(const ModelSpec& spec, const PassBounds& bounds) {
  return {.max_tokens = std::max(bounds.max_tokens, bounds.max_logit_rows),
          .max_cols = std::max({spec.d_model, spec.d_ff, spec.q_dim()}),
          .n_heads = spec.n_heads,
          .max_context = bounds.max_context,
          .d_model = spec.d_model,
          .head_dim = spec.head_dim,
          .n_sets = FfnWorkspace::kSets,
          .max_outputs = std::max(int64_t{bounds.max_logit_rows} * spec.n_vocab,
                                  int64_t{bounds.max_tokens} * spec.d_model),
          .shares = bounds.shares,
          .stream_bytes = bounds.stream_bytes};
}

ForwardPass::ForwardPass(const Devices& devices, const ModelSpec& spec, const Weights& weights,
                         const KvMemory& kv, const PassBounds& bounds)
    : devices_(reserved(devices, spec, bounds)),
      spec_(spec),
      weights_(weights),
      kv_(kv),
      frequencies_(rope_frequencies(spec.rope, weights.rope_divisors)),
      rope_{.kind = spec.arch.rope,
            .n_rot = spec.rope.n_rot,
            .inv_freq = frequencies_.inv_freq.data(),
            .magnitude = frequencies_.magnitude},
      bounds_(bounds),
      ffn_(devices, spec, weights, bounds.max_tokens),
      on_cpu_(devices.cpu(), spec, bounds.max_tokens),
      output_(devices.of_output(), spec, bounds.max_logit_rows) {
  if (spec.arch.position_offset) position_rows_.reserve(static_cast<size_t>(bounds.max_tokens));
  hidden_.reserve(static_cast<size_t>(bounds.max_tokens) * static_cast<size_t>(spec.d_model));
  if (devices.device() != nullptr) {
    on_device_ = Workspace(devices.device()->backend(), spec, bounds.max_tokens);
  }
}

double ForwardPass::bytes_needed(const ModelSpec& spec, int max_tokens, int max_logit_rows) {
  const double per_token = 4.0 * spec.d_model + 2.0 * spec.q_dim() + 2.0 * spec.kv_dim();
  const double per_logit_row = static_cast<double>(spec.d_model) + spec.n_vocab;
  return sizeof(float) * (max_tokens * per_token + max_logit_rows * per_logit_row) +
         FfnPass::bytes_needed(spec, max_tokens);
}

ForwardPass::Side ForwardPass::side_of(int layer) {
  if (devices_.on_device(layer)) return {&devices_.device()->backend(), &on_device_};
  return {&devices_.cpu(), &on_cpu_};
}

StepOutput ForwardPass::run(const Batch& batch) {
  const int n_tokens = batch.n_tokens();
  assert(n_tokens > 0 && n_tokens <= bounds_.max_tokens &&
         static_cast<int>(batch.logit_rows.size()) <= bounds_.max_logit_rows);
  assert(static_cast<int>(batch.hidden_rows.size()) <= n_tokens);
  const TraceBlock whole(trace_, "engine", "step");
  const KvPlaces places{.n_tokens = n_tokens,
                        .positions = batch.positions.data(),
                        .table_of = batch.slots.data(),
                        .block_tables = batch.block_tables.data(),
                        .max_blocks = batch.max_blocks};
  if (devices_.device() != nullptr) {
    StepShape shape = shape_of(batch);
    shape.notes = ffn_.counts_step();
    devices_.device()->begin_step(shape);
  }
  ffn_.begin_step();

  // 1. Token embeddings, plus learned positions if the model has them, begin the residual stream.
  Side side = weights_.embeds_on_device ? Side{&devices_.device()->backend(), &on_device_}
                                        : Side{&devices_.cpu(), &on_cpu_};
  embed(side, batch);

  // 2. Each layer adds its attention and its FFN to the stream.
  for (int i = 0; i < spec_.n_layers; ++i) {
    side = moved(side, side_of(i), n_tokens);
    Backend& backend = *side.backend;
    const Workspace& work = *side.work;
    float* x = work.residual.floats();
    const LayerWeights& layer = weights_.layers[static_cast<size_t>(i)];
    Trace* const trace = devices_.on_device(i) ? nullptr : trace_;
    std::optional<TraceBlock> stage(std::in_place, trace, "CPU", "attention", i);
    ffn_.before_attention(i, x, n_tokens);
    // Parallel architectures feed the layer's input to the FFN; all others feed it the residual stream after
    // attention.
    const bool ffn_norm_first = spec_.arch.parallel_attention && layer.ffn_norm.scale != nullptr;
    if (ffn_norm_first) norm(backend, x, layer.ffn_norm, n_tokens, work.ffn_input.floats());
    norm(backend, x, layer.attention_norm, n_tokens, work.normed.floats());
    attention_block(side, layer, kv_.layer(i), batch, places);
    stage.emplace(trace, "CPU", "FFN", i);
    if (!spec_.arch.parallel_attention) norm(backend, x, layer.ffn_norm, n_tokens, work.normed.floats());
    ffn_.run(i, (ffn_norm_first ? work.ffn_input : work.normed).floats(), x, n_tokens);
  }

  // 3. Hidden states and logits, for the tokens that need them.
  side =
      moved(side, {&devices_.of_output(), devices_.device() == nullptr ? &on_cpu_ : &on_device_}, n_tokens);
  StepOutput out;
  out.hidden = hidden_states(side, batch);
  out.logits = logits(side, batch);
  ffn_.end_step();
  return out;
}

/// Moves the residual stream to the other device's memory.
ForwardPass::Side ForwardPass::moved(const Side& from, const Side& to, int n_tokens) {
  if (from.backend == to.backend) return to;
  const size_t n = static_cast<size_t>(n_tokens) * static_cast<size_t>(spec_.d_model);
  to.backend->from_host(from.backend->to_host(from.work->residual.floats(), n), n,
                        to.work->residual.floats());
  return to;
}

void ForwardPass::embed(const Side& side, const Batch& batch) {
  float* x = side.work->residual.floats();
  side.backend->embed(weights_.token_embedding, batch.tokens, x);
  if (!spec_.arch.position_offset) return;
  position_rows_.clear();
  for (const int32_t position : batch.positions) {
    position_rows_.push_back(position + *spec_.arch.position_offset);
  }
  float* positions = side.work->normed.floats();
  side.backend->embed(weights_.position_embedding, position_rows_, positions);
  side.backend->add(positions, int64_t{batch.n_tokens()} * spec_.d_model, x);
}

std::span<const float> ForwardPass::hidden_states(const Side& side, const Batch& batch) {
  hidden_.clear();
  const int n_rows = static_cast<int>(batch.hidden_rows.size());
  if (n_rows == 0) return {};
  float* rows = side.work->normed.floats();  // the last layer is done with it
  side.backend->gather_rows(side.work->residual.floats(), spec_.d_model, batch.hidden_rows, rows);
  norm(*side.backend, rows, weights_.output_norm, n_rows, rows);
  const size_t n = static_cast<size_t>(n_rows) * static_cast<size_t>(spec_.d_model);
  const float* values = side.backend->to_host(rows, n);
  hidden_.assign(values, values + n);
  return hidden_;
}

std::span<const float> ForwardPass::logits(const Side& side, const Batch& batch) {
  const int n_logits = static_cast<int>(batch.logit_rows.size());
  if (n_logits == 0) {
    side.backend->finish();
    return {};
  }
  float* last = output_.last.floats();
  side.backend->gather_rows(side.work->residual.floats(), spec_.d_model, batch.logit_rows, last);
  norm(*side.backend, last, weights_.output_norm, n_logits, last);
  side.backend->matmul(last, n_logits, std::array{product(weights_.output, output_.logits.floats())});
  const size_t n = static_cast<size_t>(n_logits) * static_cast<size_t>(spec_.n_vocab);
  return {side.backend->to_host(output_.logits.floats(), n), n};
}

/// x += attention(normed): projections, optional q/k norms, RoPE, cache, softmax, output projection.
void ForwardPass::attention_block(const Side& side, const LayerWeights& layer, KvLayer kv_layer,
                                  const Batch& batch, const KvPlaces& places) {
  Backend& backend = *side.backend;
  const Workspace& work = *side.work;
  const int n_tokens = batch.n_tokens();
  float* q = work.q.floats();
  float* k = work.k.floats();
  float* v = work.v.floats();
  backend.matmul(work.normed.floats(), n_tokens,
                 std::array{product(layer.q, q), product(layer.k, k), product(layer.v, v)});
  if (spec_.arch.qk_norm) {
    backend.rms_norm(q, layer.q_norm, spec_.norm_eps, int64_t{n_tokens} * spec_.n_heads, spec_.head_dim, q);
    backend.rms_norm(k, layer.k_norm, spec_.norm_eps, int64_t{n_tokens} * spec_.n_kv_heads, spec_.head_dim,
                     k);
  }
  backend.rope(q, spec_.q_dim(), spec_.n_heads, spec_.head_dim, batch.positions, rope_);
  backend.rope(k, spec_.kv_dim(), spec_.n_kv_heads, spec_.head_dim, batch.positions, rope_);
  backend.kv_append(k, v, spec_.kv_dim(), places, kv_.shape(), kv_layer);
  const float scale = 1.0f / std::sqrt(static_cast<float>(spec_.head_dim));
  backend.attention(q, spec_.q_dim(), spec_.n_heads, {.scale = scale}, places, kv_.shape(), kv_layer,
                    work.attended.floats());
  backend.matmul(work.attended.floats(), n_tokens,
                 std::array{product(layer.attention_out, work.residual.floats(), /*accumulate=*/true)});
}

void ForwardPass::norm(Backend& backend, const float* x, const NormWeights& weights, int64_t n_rows,
                       float* out) {
  if (spec_.arch.norm == NormKind::kLayer) {
    backend.layer_norm(x, weights.scale, weights.bias, spec_.norm_eps, n_rows, spec_.d_model, out);
  } else {
    backend.rms_norm(x, weights.scale, spec_.norm_eps, n_rows, spec_.d_model, out);
  }
}

}  // namespace hearth
