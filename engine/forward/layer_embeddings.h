// Embeddings of a step's tokens for each layer (Gemma 4 E4B; per-layer embeddings). A separate table has a
// row of n_layers * d_layer_embedding numbers for each token. A projection of the token's embedding is added
// to this row. After its FFN, each layer adds its part of the row to the residual stream, weighted by a gate
// that reads the stream.
//
// The table stays in host memory, because it is large and a step reads few of its rows. The device that has
// the model's layers computes everything else.
//
// ForwardPass owns it; engine thread.
#pragma once

#include <cstdint>
#include <span>

#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"

namespace hearth {

/// Buffers in one device's memory; empty if the model has no such embeddings. size: d_layer_embedding.
struct LayerEmbeddingsWorkspace {
  LayerEmbeddingsWorkspace() = default;
  LayerEmbeddingsWorkspace(Memory& memory, const ModelSpec& spec, int max_tokens);

  Buffer rows;        // [max_tokens, n_layers, size]
  Buffer projected;   // [max_tokens, n_layers, size]; also for keep()
  Buffer gate, part;  // [max_tokens, size]
  Buffer branch;      // [max_tokens, d_model]
};

class LayerEmbeddings {
 public:
  /// backend: computes all layers, and has the weights that they read in its memory. Allocates nothing if the
  /// model has no such embeddings. All references must outlive this object.
  LayerEmbeddings(Backend& cpu, Backend& backend, const ModelSpec& spec, const Weights& weights,
                  int max_tokens);

  /// Bytes of host memory that the constructor allocates. A double, so that absurd sizes do not overflow.
  static double bytes_needed(const ModelSpec& spec, int max_tokens);

  explicit operator bool() const { return size_ > 0; }

  /// Computes the embeddings of a step's tokens. x: the tokens' scaled embeddings [n_tokens, d_model].
  /// Vectors here and below are in the backend's memory.
  void begin_step(std::span<const int32_t> tokens, const float* x);

  /// Keeps the embeddings of these tokens of the step only; rows: ascending indices of tokens.
  void keep(std::span<const int32_t> rows);

  /// Returns the vectors [n_tokens, d_model] that the layer adds to the residual stream x [n_tokens,
  /// d_model]: its part of the embeddings, weighted by the gate that reads x. Valid until the next call.
  const float* weighted(int layer, const LayerWeights& weights, int n_tokens, const float* x);

  /// Adds the embeddings for a layer to the residual stream x [n_tokens, d_model].
  void add(int layer, const LayerWeights& weights, int n_tokens, float* x);

 private:
  Backend &cpu_, &backend_;
  const Weights& weights_;
  int size_, n_layers_, d_model_;  // size_: numbers of a token for one layer
  float eps_;
  Buffer host_rows_;  // [max_tokens, n_layers, size_] rows of the table, if the backend is not the CPU
  LayerEmbeddingsWorkspace work_;
};

}  // namespace hearth
