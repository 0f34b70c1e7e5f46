// The forward pass. See the header; the stages of run() are the architecture.
#include "engine/forward_pass.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>

namespace hearth {
namespace {

Buffer floats(Backend& backend, int64_t n_rows, int64_t n_cols) {
  return backend.allocate(static_cast<size_t>(n_rows * n_cols) * sizeof(float));
}

Product product(const Linear& linear, float* out, bool accumulate = false) {
  return {.weight = linear.weight,
          .bias = linear.bias,
          .out = out,
          .out_stride = linear.weight.n_rows,
          .accumulate = accumulate};
}

}  // namespace

ForwardPass::ForwardPass(Backend& backend, const ModelSpec& spec, const Weights& weights, const KvMemory& kv,
                         int max_tokens, int max_logit_rows, int max_context)
    : backend_(backend),
      spec_(spec),
      weights_(weights),
      kv_(kv),
      frequencies_(rope_frequencies(spec.rope, weights.rope_divisors)),
      rope_{.kind = spec.arch.rope,
            .n_rot = spec.rope.n_rot,
            .inv_freq = frequencies_.inv_freq.data(),
            .magnitude = frequencies_.magnitude},
      ffn_(backend, spec, weights, max_tokens),
      max_tokens_(max_tokens),
      max_logit_rows_(max_logit_rows),
      residual_(floats(backend, max_tokens, spec.d_model)),
      normed_(floats(backend, max_tokens, spec.d_model)),
      ffn_input_(floats(backend, spec.arch.parallel_attention ? max_tokens : 0, spec.d_model)),
      q_(floats(backend, max_tokens, spec.q_dim())),
      k_(floats(backend, max_tokens, spec.kv_dim())),
      v_(floats(backend, max_tokens, spec.kv_dim())),
      attended_(floats(backend, max_tokens, spec.q_dim())),
      last_(floats(backend, max_logit_rows, spec.d_model)),
      logits_(floats(backend, max_logit_rows, spec.n_vocab)) {
  if (spec.arch.position_offset) position_rows_.reserve(static_cast<size_t>(max_tokens));
  const int64_t widest = std::max({spec.d_model, spec.d_ff, spec.q_dim()});
  backend.reserve({.max_tokens = std::max(max_tokens, max_logit_rows),
                   .max_cols = widest,
                   .n_heads = spec.n_heads,
                   .max_context = max_context,
                   .d_model = spec.d_model,
                   .head_dim = spec.head_dim,
                   .shares = true});
}

double ForwardPass::bytes_needed(const ModelSpec& spec, int max_tokens, int max_logit_rows) {
  const double per_token = 3.0 * spec.d_model + 2.0 * spec.q_dim() + 2.0 * spec.kv_dim();
  const double per_logit_row = static_cast<double>(spec.d_model) + spec.n_vocab;
  return sizeof(float) * (max_tokens * per_token + max_logit_rows * per_logit_row) +
         FfnPass::bytes_needed(spec, max_tokens);
}

std::span<const float> ForwardPass::run(const Batch& batch) {
  const int n_tokens = batch.n_tokens();
  const int n_logits = static_cast<int>(batch.logit_rows.size());
  assert(n_tokens > 0 && n_tokens <= max_tokens_ && n_logits <= max_logit_rows_);
  const KvPlaces places{.n_tokens = n_tokens,
                        .positions = batch.positions.data(),
                        .table_of = batch.slots.data(),
                        .block_tables = batch.block_tables.data(),
                        .max_blocks = batch.max_blocks};
  float* x = residual_.floats();
  backend_.begin_step({});

  // 1. Token embeddings, and where positions are learned theirs, begin the residual stream.
  backend_.embed(weights_.token_embedding, batch.tokens, x);
  if (spec_.arch.position_offset) add_positions(batch, x);

  // 2. Each layer adds its attention and its FFN to the stream.
  for (int i = 0; i < spec_.n_layers; ++i) {
    const LayerWeights& layer = weights_.layers[static_cast<size_t>(i)];
    ffn_.before_attention(i, x, n_tokens);
    // Parallel architectures feed the FFN the layer's input; the others what attention wrote.
    const bool ffn_norm_first = spec_.arch.parallel_attention && layer.ffn_norm.scale != nullptr;
    if (ffn_norm_first) norm(x, layer.ffn_norm, n_tokens, ffn_input_.floats());
    norm(x, layer.attention_norm, n_tokens, normed_.floats());
    attention_block(layer, kv_.layer(i), batch, places);
    if (!spec_.arch.parallel_attention) norm(x, layer.ffn_norm, n_tokens, normed_.floats());
    ffn_.run(i, ffn_norm_first ? ffn_input_.floats() : normed_.floats(), x, n_tokens);
  }

  // 3. Logits, for the tokens that want them.
  if (n_logits == 0) {
    backend_.finish();
    return {};
  }
  backend_.gather_rows(x, spec_.d_model, batch.logit_rows, last_.floats());
  norm(last_.floats(), weights_.output_norm, n_logits, last_.floats());
  backend_.matmul(last_.floats(), n_logits, std::array{product(weights_.output, logits_.floats())});
  const size_t n = static_cast<size_t>(n_logits) * static_cast<size_t>(spec_.n_vocab);
  return {backend_.to_host(logits_.floats(), n), n};
}

/// x += the learned embedding of each token's position.
void ForwardPass::add_positions(const Batch& batch, float* x) {
  position_rows_.clear();
  for (const int32_t position : batch.positions) {
    position_rows_.push_back(position + *spec_.arch.position_offset);
  }
  backend_.embed(weights_.position_embedding, position_rows_, normed_.floats());
  backend_.add(normed_.floats(), int64_t{batch.n_tokens()} * spec_.d_model, x);
}

/// x += attention(normed): projections, optional q/k norms, RoPE, cache, softmax, output projection.
void ForwardPass::attention_block(const LayerWeights& layer, KvLayer kv_layer, const Batch& batch,
                                  const KvPlaces& places) {
  const int n_tokens = batch.n_tokens();
  float* q = q_.floats();
  float* k = k_.floats();
  float* v = v_.floats();
  backend_.matmul(normed_.floats(), n_tokens,
                  std::array{product(layer.q, q), product(layer.k, k), product(layer.v, v)});
  if (spec_.arch.qk_norm) {
    backend_.rms_norm(q, layer.q_norm, spec_.norm_eps, int64_t{n_tokens} * spec_.n_heads, spec_.head_dim, q);
    backend_.rms_norm(k, layer.k_norm, spec_.norm_eps, int64_t{n_tokens} * spec_.n_kv_heads, spec_.head_dim,
                      k);
  }
  backend_.rope(q, spec_.q_dim(), spec_.n_heads, spec_.head_dim, batch.positions, rope_);
  backend_.rope(k, spec_.kv_dim(), spec_.n_kv_heads, spec_.head_dim, batch.positions, rope_);
  backend_.kv_append(k, v, spec_.kv_dim(), places, kv_.shape(), kv_layer);
  const float scale = 1.0f / std::sqrt(static_cast<float>(spec_.head_dim));
  backend_.attention(q, spec_.q_dim(), spec_.n_heads, scale, places, kv_.shape(), kv_layer,
                     attended_.floats());
  backend_.matmul(attended_.floats(), n_tokens,
                  std::array{product(layer.attention_out, residual_.floats(), /*accumulate=*/true)});
}

void ForwardPass::norm(const float* x, const NormWeights& weights, int64_t n_rows, float* out) {
  if (spec_.arch.norm == NormKind::kLayer) {
    backend_.layer_norm(x, weights.scale, weights.bias, spec_.norm_eps, n_rows, spec_.d_model, out);
  } else {
    backend_.rms_norm(x, weights.scale, spec_.norm_eps, n_rows, spec_.d_model, out);
  }
}

}  // namespace hearth
