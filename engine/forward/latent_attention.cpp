// See the header.
#include "engine/forward/latent_attention.h"

#include <array>

#include "engine/forward/layer_call.h"

namespace hearth {

void project_latent(Backend& backend, const ModelSpec& spec, const LayerWeights& layer,
                    std::span<const int32_t> positions, const Rope* rope, const LatentBuffers& buffers) {
  const LatentWeights& weights = layer.latent;
  const LatentSpec& latent = spec.latent;
  const int n_tokens = static_cast<int>(positions.size());
  const int rank = latent.kv_rank, d_key = latent.d_nope + latent.d_rope, cached = spec.head_dim;
  const float eps = spec.arch.latent_norm_eps;
  float *q = buffers.q, *k = buffers.k, *queries = buffers.q_projected;

  // 1. Multiply by the projections. If the model has a latent for queries, compute the latent first, then the
  //    queries from it.
  if (latent.q_rank > 0) {
    float* q_latent = buffers.q_latent;
    backend.matmul(buffers.normed, n_tokens,
                   std::array{product(weights.q_a, q_latent), product(weights.kv_a, k)});
    backend.rms_norm(q_latent, weights.q_a_norm, eps, n_tokens, latent.q_rank, q_latent);
    backend.matmul(q_latent, n_tokens, std::array{product(layer.q, queries)});
  } else {
    backend.matmul(buffers.normed, n_tokens, std::array{product(layer.q, queries), product(weights.kv_a, k)});
  }

  // 2. Norm the latent; rotate the rotary parts. The scratch holds the latent without the rotary key.
  float* alone = buffers.scratch;
  backend.copy_rows(k, cached, n_tokens, rank, alone, rank);
  backend.rms_norm(alone, weights.kv_a_norm, eps, n_tokens, rank, alone);
  backend.copy_rows(alone, rank, n_tokens, rank, k, cached);
  if (rope != nullptr) {
    backend.rope(queries + latent.d_nope, spec.projected_q_dim(), spec.n_heads, d_key, positions, *rope);
    backend.rope(k + rank, cached, 1, cached, positions, *rope);
  }

  // 3. Project each head's query to the latent's space, except the query's rotary part.
  backend.multiply_heads({.weight = {weights.keys.data, weights.keys.dtype, rank, latent.d_nope},
                          .rows_apart = rank,
                          .n_heads = spec.n_heads,
                          .x = queries,
                          .x_stride = spec.projected_q_dim(),
                          .x_head_stride = d_key,
                          .out = q,
                          .out_stride = spec.q_dim(),
                          .out_head_stride = cached},
                         n_tokens);
  backend.copy_rows(queries + latent.d_nope, d_key, int64_t{n_tokens} * spec.n_heads, latent.d_rope, q + rank,
                    cached);
}

void unfold_values(Backend& backend, const ModelSpec& spec, const LatentWeights& weights, int n_tokens,
                   const float* attended, float* values) {
  const LatentSpec& latent = spec.latent;
  backend.multiply_heads({.weight = {weights.values.row(weights.first_value), weights.values.dtype,
                                     latent.d_value, latent.kv_rank},
                          .rows_apart = weights.rows_apart,
                          .n_heads = spec.n_heads,
                          .x = attended,
                          .x_stride = spec.q_dim(),
                          .x_head_stride = spec.head_dim,
                          .out = values,
                          .out_stride = spec.attended_dim(),
                          .out_head_stride = latent.d_value},
                         n_tokens);
}

}  // namespace hearth
