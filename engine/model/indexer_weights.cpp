// See the header.
#include "engine/model/indexer_weights.h"

namespace hearth {

IndexerWeights bind_indexer(Binder& bind, const ModelSpec& spec, bool indexes, const std::string& prefix) {
  const std::string own = prefix + "indexer.";
  if (!indexes) {
    bind.pass_over(own, {"k_norm.", "proj.", "attn_k.", "attn_q_b."});
    return {};
  }
  const IndexerShape& shape = spec.indexer;
  IndexerWeights w;
  w.q = bind.linear(own + "attn_q_b", int64_t{shape.n_heads} * shape.head_dim, spec.latent.q_rank);
  w.k = bind.linear(own + "attn_k", shape.head_dim, spec.d_model);
  w.heads = bind.linear(own + "proj", shape.n_heads, spec.d_model);
  w.k_norm = {bind.vector(own + "k_norm.weight", shape.head_dim),
              bind.vector(own + "k_norm.bias", shape.head_dim)};
  return w;
}

}  // namespace hearth
