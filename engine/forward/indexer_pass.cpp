// See the header.
#include "engine/forward/indexer_pass.h"

#include <array>
#include <stdexcept>

#include "engine/forward/layer_call.h"
#include "kernels/cpu/indexer_cpu.h"

namespace hearth {
namespace {

// The epsilon of the norm of keys is not in files.
constexpr float kKeyNormEps = 1e-6f;

IndexerBounds bounds_of(const ModelSpec& spec, int max_tokens, int max_context) {
  return {.shape = spec.indexer,
          .max_tokens = max_tokens,
          .max_context = max_context,
          .value_dim = spec.head_dim};
}

}  // namespace

IndexerPass::IndexerPass(Backend& cpu, const ModelSpec& spec, const KvMemory& kv, int max_tokens,
                         int max_context)
    : cpu_(cpu), spec_(spec), kv_(kv) {
  if (!kv.counts().indexed) return;
  ops_ = dynamic_cast<IndexerOps*>(&cpu);
  if (ops_ == nullptr) throw std::logic_error("This backend cannot compute layers with an indexer.");
  ops_->reserve_indexer(bounds_of(spec, max_tokens, max_context));
  const IndexerShape& shape = spec.indexer;
  q_ = floats(cpu, max_tokens, int64_t{shape.n_heads} * shape.head_dim);
  k_ = floats(cpu, max_tokens, shape.head_dim);
  head_weights_ = floats(cpu, max_tokens, shape.n_heads);
  chosen_.resize(static_cast<size_t>(max_tokens) * static_cast<size_t>(shape.top_k));
}

double IndexerPass::bytes_needed(const ModelSpec& spec, int max_tokens, int max_context) {
  if (!spec.needs_indexer(max_context)) return 0;
  const IndexerShape& shape = spec.indexer;
  const double of_heads = 1.0 * shape.n_heads * (shape.head_dim + 1.0);
  return max_tokens * (sizeof(float) * (of_heads + shape.head_dim) + sizeof(int32_t) * 1.0 * shape.top_k) +
         IndexerCpu::bytes_needed(bounds_of(spec, max_tokens, max_context));
}

void IndexerPass::choose(int layer, const IndexerWeights& weights, const float* normed, const float* q_latent,
                         const Rope& rope, const KvPlaces& places) {
  if (!spec_.layer(layer).indexes) return;
  const IndexerShape& shape = spec_.indexer;
  const int n_tokens = places.n_tokens, dim = shape.head_dim;
  const std::span<const int32_t> positions(places.positions, static_cast<size_t>(n_tokens));
  float *q = q_.floats(), *k = k_.floats(), *head_weights = head_weights_.floats();
  cpu_.matmul(normed, n_tokens, std::array{product(weights.k, k), product(weights.heads, head_weights)});
  cpu_.matmul(q_latent, n_tokens, std::array{product(weights.q, q)});
  cpu_.layer_norm(k, weights.k_norm.scale, weights.k_norm.bias, kKeyNormEps, n_tokens, dim, k);
  Rope own = rope;
  own.kind = spec_.arch.indexer_rope;
  cpu_.rope(q, int64_t{shape.n_heads} * dim, shape.n_heads, dim, positions, own);
  cpu_.rope(k, dim, 1, dim, positions, own);
  uint16_t* const keys = kv_.index_keys(layer);
  ops_->append_index(k, places, kKvBlockTokens, keys);
  ops_->choose_positions({.q = q, .weights = head_weights}, places, kKvBlockTokens, keys, chosen_.data());
}

}  // namespace hearth
