// In layers with an indexer (kernels/indexer.h), chooses the positions that attention reads, and attends to
// them.
//
// A layer with an indexer of its own chooses for its step's tokens; later layers without one attend to the
// same positions. Owned by ForwardPass; engine thread, on the CPU.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/forward/kv_memory.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"
#include "kernels/indexer.h"

namespace hearth {

class IndexerPass {
 public:
  /// Allocates memory for steps of max_tokens tokens, here and in the backend, if kv has keys of indexers.
  /// The references must outlive this object. Throws std::logic_error if the backend then has no IndexerOps.
  IndexerPass(Backend& cpu, const ModelSpec& spec, const KvMemory& kv, int max_tokens, int max_context);

  /// Bytes that the constructor allocates. A double, so that absurd sizes do not overflow.
  static double bytes_needed(const ModelSpec& spec, int max_tokens, int max_context);

  /// Whether tokens attend only to chosen positions.
  explicit operator bool() const { return ops_ != nullptr; }

  /// Writes the layer's keys and chooses positions. normed [n_tokens, d_model]: the input of the layer's
  /// attention. q_latent [n_tokens, q_rank]: the queries' latent. rope: the rotary embedding of the layer's
  /// attention. Does nothing in layers without an indexer of their own.
  void choose(int layer, const IndexerWeights& weights, const float* normed, const float* q_latent,
              const Rope& rope, const KvPlaces& places);

  /// See Backend::attention(). REQUIRES: choose() was called for this layer and this step.
  void attend(int layer, const ChosenQueries& queries, const KvPlaces& places, float* out) {
    ops_->attend_to_chosen(queries, places, kv_.shape(layer), kv_.layer(layer), chosen_.data(), out);
  }

 private:
  Backend& cpu_;
  const ModelSpec& spec_;
  const KvMemory& kv_;
  IndexerOps* ops_ = nullptr;    // null: attention reads all positions
  Buffer q_, k_, head_weights_;  // [max_tokens, n_heads * head_dim | head_dim | n_heads]
  std::vector<int32_t> chosen_;  // [max_tokens, top_k]
};

}  // namespace hearth
