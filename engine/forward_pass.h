// The forward pass of every architecture: a table of a layer's stages over a Backend.
//
// Owned by ModelRuntime, run by the engine thread. All memory is taken when it is built.
#pragma once

#include <span>
#include <vector>

#include "engine/batch.h"
#include "engine/ffn_pass.h"
#include "engine/kv_memory.h"
#include "engine/model_spec.h"
#include "engine/rope.h"
#include "engine/weights.h"
#include "kernels/backend.h"

namespace hearth {

class ForwardPass {
 public:
  /// All references must outlive the pass. max_context: positions a sequence may reach.
  ForwardPass(Backend& backend, const ModelSpec& spec, const Weights& weights, const KvMemory& kv,
              int max_tokens, int max_logit_rows, int max_context);

  /// Bytes of the buffers below. A double, which absurd sizes do not wrap.
  static double bytes_needed(const ModelSpec& spec, int max_tokens, int max_logit_rows);

  /// One step; see ForwardModel::forward. Returns logits [n_logit_rows, n_vocab].
  std::span<const float> run(const Batch& batch);

  int max_logit_rows() const { return max_logit_rows_; }
  FfnPass& ffn() { return ffn_; }
  const FfnPass& ffn() const { return ffn_; }

 private:
  void attention_block(const LayerWeights& layer, KvLayer kv_layer, const Batch& batch,
                       const KvPlaces& places);
  void add_positions(const Batch& batch, float* x);
  void norm(const float* x, const NormWeights& weights, int64_t n_rows, float* out);

  Backend& backend_;
  const ModelSpec& spec_;
  const Weights& weights_;
  const KvMemory& kv_;
  RopeFrequencies frequencies_;
  Rope rope_;
  FfnPass ffn_;
  int max_tokens_;
  int max_logit_rows_;

  Buffer residual_;                     // x       [max_tokens, d_model]
  Buffer normed_;                       //         [max_tokens, d_model]
  Buffer ffn_input_;                    //         [max_tokens, d_model], parallel architectures
  Buffer q_, k_, v_;                    //         [max_tokens, q_dim | kv_dim]
  Buffer attended_;                     //         [max_tokens, q_dim]
  Buffer last_;                         //         [max_logit_rows, d_model]
  Buffer logits_;                       //         [max_logit_rows, n_vocab]
  std::vector<int32_t> position_rows_;  // [max_tokens] at most, architectures with learned positions
};

}  // namespace hearth
