// See the header.
#include "engine/forward/residual_streams.h"

#include <array>
#include <numbers>

#include "engine/forward/layer_call.h"

namespace hearth {

ResidualStreamsWorkspace::ResidualStreamsWorkspace(Memory& memory, const ModelSpec& spec, int max_tokens) {
  const int64_t n = spec.n_streams;
  if (n == 1) return;
  for (Buffer* const buffer : {&streams, &predicted}) *buffer = floats(memory, n * max_tokens, spec.d_model);
  for (Buffer* const buffer : {&rows, &branch}) *buffer = floats(memory, max_tokens, spec.d_model);
  routes = floats(memory, max_tokens, n);
  weights = floats(memory, max_tokens, n * n);
}

ResidualStreams::ResidualStreams(Backend& backend, const ModelSpec& spec, const Weights& weights,
                                 int max_tokens)
    : backend_(backend),
      weights_(weights),
      n_(spec.n_streams),
      active_(spec.active_stream),
      d_model_(spec.d_model),
      stride_(int64_t{max_tokens} * spec.d_model),
      eps_(spec.norm_eps),
      work_(backend, spec, max_tokens) {}

double ResidualStreams::bytes_needed(const ModelSpec& spec, int max_tokens) {
  if (spec.n_streams == 1) return 0.0;
  const double n = spec.n_streams;
  return sizeof(float) * ((2.0 * n + 2.0) * spec.d_model + n + n * n) * max_tokens;
}

void ResidualStreams::begin_step(const float* x, int n_tokens) {
  backend_.copy(x, int64_t{n_tokens} * d_model_, stream(work_.streams, 0));
  for (int i = 1; i < n_; ++i) {
    float* const to = stream(work_.streams, i);
    const Linear& start = weights_.stream_matrices.starts[static_cast<size_t>(i - 1)];
    backend_.matmul(x, n_tokens, std::array{product(start, to)});
    lengthen(x, n_tokens, to);
  }
}

/// Gives each row of x the length of that row of `to`.
void ResidualStreams::lengthen(const float* to, int n_tokens, float* x) const {
  constexpr float kLeast = 1e-5f;  // of a row's mean square
  backend_.match_rows(to, kLeast, n_tokens, d_model_, x);
}

/// work_.routes = the tanh of the router's products with the normed x / d_model.
void ResidualStreams::route(const StreamWeights& weights, int n_tokens, const float* x) {
  float *rows = work_.rows.floats(), *routes = work_.routes.floats();
  backend_.rms_norm(x, weights.router_norm, eps_, n_tokens, d_model_, rows);
  backend_.scale(1.0f / static_cast<float>(d_model_), n_tokens * d_model_, rows);
  backend_.matmul(rows, n_tokens, std::array{product(weights.router, routes)});
  backend_.soft_cap(1.0f, int64_t{n_tokens} * n_, routes);
}

void ResidualStreams::predict(const StreamWeights& weights, int n_tokens, float* x) {
  float *streams = work_.streams.floats(), *predicted = work_.predicted.floats();
  route(weights, n_tokens, stream(work_.streams, active_));
  backend_.matmul(work_.routes.floats(), n_tokens,
                  std::array{product(weights.predict, work_.weights.floats())});
  backend_.mix_rows({.x = streams,
                     .added = streams,
                     .weights = work_.weights.floats(),
                     .out = predicted,
                     .n_sums = n_,
                     .n_added = n_,
                     .stride = stride_,
                     .n_rows = n_tokens,
                     .n_cols = d_model_});
  backend_.copy(stream(work_.predicted, active_), n_tokens * d_model_, x);
}

void ResidualStreams::add_laurel(const LaurelWeights& weights, const float* normed, int n_tokens, float* x) {
  const int64_t n = n_tokens * d_model_;
  float *low = work_.rows.floats(), *branch = work_.branch.floats();
  backend_.matmul(normed, n_tokens, std::array{product(weights.left, low)});
  backend_.matmul(low, n_tokens, std::array{product(weights.right, branch)});
  backend_.rms_norm(branch, weights.norm, eps_, n_tokens, d_model_, branch);
  backend_.add(normed, n, branch);
  backend_.add(branch, n, x);
  backend_.scale(std::numbers::sqrt2_v<float> / 2.0f, n, x);
}

void ResidualStreams::correct(const LayerWeights& weights, LayerEmbeddings& embeddings, int layer,
                              int n_tokens, const float* x) {
  const int64_t n = n_tokens * d_model_;
  float* const rows = work_.rows.floats();
  route(weights.streams, n_tokens, x);
  backend_.matmul(work_.routes.floats(), n_tokens,
                  std::array{product(weights.streams.correct, work_.weights.floats())});
  backend_.copy(stream(work_.predicted, active_), n, rows);
  backend_.scale(-1.0f, n, rows);
  backend_.add(x, n, rows);
  backend_.mix_rows({.x = work_.predicted.floats(),
                     .added = rows,
                     .weights = work_.weights.floats(),
                     .out = work_.streams.floats(),
                     .n_sums = n_,
                     .n_added = 1,
                     .stride = stride_,
                     .n_rows = n_tokens,
                     .n_cols = d_model_});
  backend_.copy(stream(work_.streams, active_), n, rows);
  backend_.scale_columns(weights.streams.correct_scale, n_tokens, d_model_, rows);
  const float* const added = embeddings.weighted(layer, weights, n_tokens, rows);
  for (int i = 1; i < n_; ++i) backend_.add(added, n, stream(work_.streams, i));
}

void ResidualStreams::end_step(int n_tokens, float* x) {
  const int64_t n = n_tokens * d_model_;
  float *first = stream(work_.streams, 0), *branch = work_.branch.floats();
  backend_.copy(first, n, x);
  for (int i = 1; i < n_; ++i) {
    const Linear& end = weights_.stream_matrices.ends[static_cast<size_t>(i - 1)];
    backend_.matmul(stream(work_.streams, i), n_tokens, std::array{product(end, branch)});
    lengthen(first, n_tokens, branch);
    backend_.add(branch, n, x);
  }
  backend_.scale(1.0f / static_cast<float>(n_), n, x);
}

}  // namespace hearth
