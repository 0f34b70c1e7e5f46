// Embeddings of a step's tokens for each layer (Gemma 4 E4B; per-layer embeddings). A token has a row of
// n_layers * d_layer_embedding numbers in a table of its own. A projection of its token embedding is added to
// this row. After its FFN, each layer adds its part of the row to the residual stream, weighted by a gate
// that reads the stream.
//
// ForwardPass owns it; engine thread. Runs on the CPU.
#pragma once

#include <cstdint>
#include <span>

#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"

namespace hearth {

class LayerEmbeddings {
 public:
  /// Allocates nothing if the model has no such embeddings. All references must outlive this object.
  LayerEmbeddings(Backend& backend, const ModelSpec& spec, const Weights& weights, int max_tokens);

  /// Bytes that the constructor allocates. A double, so that absurd sizes do not overflow.
  static double bytes_needed(const ModelSpec& spec, int max_tokens);

  explicit operator bool() const { return size_ > 0; }

  /// Computes the embeddings of a step's tokens. x: the tokens' scaled embeddings [n_tokens, d_model].
  void begin_step(std::span<const int32_t> tokens, const float* x);

  /// Keeps the embeddings of these tokens of the step only; rows: ascending indices of tokens.
  void keep(std::span<const int32_t> rows);

  /// Returns what the embeddings for a layer give [n_tokens, d_model] if x [n_tokens, d_model] weights them.
  /// Valid until the next call.
  const float* weighted(int layer, const LayerWeights& weights, int n_tokens, const float* x);

  /// Adds the embeddings for a layer to the residual stream x [n_tokens, d_model].
  void add(int layer, const LayerWeights& weights, int n_tokens, float* x);

 private:
  Backend& backend_;
  const Weights& weights_;
  int size_, n_layers_, d_model_;  // size_: numbers of a token for one layer
  float eps_;
  Buffer rows_;         // [max_tokens, n_layers, size_]
  Buffer projected_;    // [max_tokens, n_layers, size_]; also for keep()
  Buffer gate_, part_;  // [max_tokens, size_]
  Buffer branch_;       // [max_tokens, d_model]
};

}  // namespace hearth
