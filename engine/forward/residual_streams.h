// A residual stream of several streams (Gemma 3n; alternating updates, Baykal et al. 2023). A layer runs on
// only one of them, the active stream. First, all streams are predicted as mixtures of all streams. Then the
// layer runs on the predicted active stream, and the difference between its result and that prediction
// corrects the other streams. Two small routers compute the weights of both for each token. The first stream
// starts with the embeddings, the others with projections of them, and the output reads the mean of all
// streams after other projections.
//
// ForwardPass owns it; engine thread. Runs on the device that has the model's layers.
#pragma once

#include "engine/forward/layer_embeddings.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"

namespace hearth {

/// Buffers in one device's memory; empty if the model has one stream. n: the number of streams.
struct ResidualStreamsWorkspace {
  ResidualStreamsWorkspace() = default;
  ResidualStreamsWorkspace(Memory& memory, const ModelSpec& spec, int max_tokens);

  Buffer streams, predicted;  // [n, max_tokens, d_model]
  Buffer rows, branch;        // [max_tokens, d_model]
  Buffer routes;              // [max_tokens, n]
  Buffer weights;             // [max_tokens, n * n] of the streams that are mixed
};

class ResidualStreams {
 public:
  /// backend: the one of all layers, with the weights in its memory. Allocates nothing if the model has one
  /// stream. All references must outlive this object.
  ResidualStreams(Backend& backend, const ModelSpec& spec, const Weights& weights, int max_tokens);

  /// Bytes that the constructor allocates. A double, so that absurd sizes do not overflow.
  static double bytes_needed(const ModelSpec& spec, int max_tokens);

  explicit operator bool() const { return n_ > 1; }

  /// Makes the streams of a step's tokens. Vectors here and below are in the backend's memory. x: their
  /// scaled embeddings [n_tokens, d_model].
  void begin_step(const float* x, int n_tokens);

  /// Predicts all streams; x [n_tokens, d_model] becomes the active one.
  void predict(const StreamWeights& weights, int n_tokens, float* x);

  /// Adds a layer's LaurelWeights to x, for the input `normed` of its attention, and divides x by the root of
  /// 2. All are [n_tokens, d_model].
  void add_laurel(const LaurelWeights& weights, const float* normed, int n_tokens, float* x);

  /// Corrects all streams by the layer's result x [n_tokens, d_model], and adds the embeddings for the layer
  /// to all streams but the first.
  void correct(const LayerWeights& weights, LayerEmbeddings& embeddings, int layer, int n_tokens,
               const float* x);

  /// x [n_tokens, d_model] = the mean of the streams.
  void end_step(int n_tokens, float* x);

 private:
  float* stream(const Buffer& streams, int index) const { return streams.floats() + index * stride_; }
  void route(const StreamWeights& weights, int n_tokens, const float* x);
  void lengthen(const float* to, int n_tokens, float* x) const;

  Backend& backend_;
  const Weights& weights_;
  int n_, active_;
  int64_t d_model_, stride_;  // stride_: floats from one stream to the next
  float eps_;
  ResidualStreamsWorkspace work_;
};

}  // namespace hearth
