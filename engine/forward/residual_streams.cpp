// See the header. Plain loops mix the streams, because Backend has no operation for this, and matrix products
// take most of the time anyway.
#include "engine/forward/residual_streams.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "engine/forward/layer_call.h"

namespace hearth {
namespace {

/// Returns the mean of the squares of a row.
float mean_square(const float* row, int64_t n) {
  double sum = 0.0;
  for (int64_t i = 0; i < n; ++i) sum += double{row[i]} * double{row[i]};
  return static_cast<float>(sum / static_cast<double>(n));
}

}  // namespace

ResidualStreams::ResidualStreams(Backend& cpu, const ModelSpec& spec, const Weights& weights, int max_tokens)
    : cpu_(cpu),
      weights_(weights),
      n_(spec.n_streams),
      active_(spec.active_stream),
      d_model_(spec.d_model),
      stride_(int64_t{max_tokens} * spec.d_model),
      eps_(spec.norm_eps) {
  if (n_ == 1) return;
  for (Buffer* const buffer : {&streams_, &predicted_})
    *buffer = floats(cpu, int64_t{n_} * max_tokens, d_model_);
  for (Buffer* const buffer : {&rows_, &branch_}) *buffer = floats(cpu, max_tokens, d_model_);
  routes_ = floats(cpu, max_tokens, n_);
}

double ResidualStreams::bytes_needed(const ModelSpec& spec, int max_tokens) {
  if (spec.n_streams == 1) return 0.0;
  const double per_token = (2.0 * spec.n_streams + 2.0) * spec.d_model + spec.n_streams;
  return sizeof(float) * per_token * max_tokens;
}

void ResidualStreams::begin_step(const float* x, int n_tokens) {
  cpu_.copy(x, int64_t{n_tokens} * d_model_, stream(streams_, 0));
  for (int i = 1; i < n_; ++i) {
    float* const to = stream(streams_, i);
    cpu_.matmul(x, n_tokens, std::array{product(weights_.stream_starts[static_cast<size_t>(i - 1)], to)});
    lengthen(x, n_tokens, to);
  }
}

/// Gives each row of x the length of that row of `to`.
void ResidualStreams::lengthen(const float* to, int n_tokens, float* x) const {
  constexpr float kLeast = 1e-5f;  // of a row's mean square
  for (int64_t t = 0; t < n_tokens; ++t) {
    float* const row = x + t * d_model_;
    const float target = std::sqrt(mean_square(to + t * d_model_, d_model_));
    const float factor = target / std::sqrt(std::max(mean_square(row, d_model_), kLeast));
    for (int64_t i = 0; i < d_model_; ++i) row[i] *= factor;
  }
}

/// routes_ = the tanh of the router's products with the normed x / d_model.
void ResidualStreams::route(const StreamWeights& weights, int n_tokens, const float* x) {
  float *rows = rows_.floats(), *routes = routes_.floats();
  cpu_.rms_norm(x, weights.router_norm, eps_, n_tokens, d_model_, rows);
  cpu_.scale(1.0f / static_cast<float>(d_model_), n_tokens * d_model_, rows);
  cpu_.matmul(rows, n_tokens, std::array{product(weights.router, routes)});
  cpu_.soft_cap(1.0f, int64_t{n_tokens} * n_, routes);
}

void ResidualStreams::predict(const StreamWeights& weights, int n_tokens, float* x) {
  route(weights, n_tokens, stream(streams_, active_));
  for (int64_t t = 0; t < n_tokens; ++t) {
    const float* const routes = routes_.floats() + t * n_;
    for (int to = 0; to < n_; ++to) {
      float* const out = stream(predicted_, to) + t * d_model_;
      std::copy_n(stream(streams_, to) + t * d_model_, d_model_, out);
      for (int from = 0; from < n_; ++from) {
        const float* const row = weights.predict + (int64_t{to} * n_ + from) * n_;
        float weight = 0.0f;
        for (int i = 0; i < n_; ++i) weight += row[i] * routes[i];
        const float* const in = stream(streams_, from) + t * d_model_;
        for (int64_t i = 0; i < d_model_; ++i) out[i] += weight * in[i];
      }
    }
  }
  cpu_.copy(stream(predicted_, active_), n_tokens * d_model_, x);
}

void ResidualStreams::add_laurel(const LaurelWeights& weights, const float* normed, int n_tokens, float* x) {
  const int64_t n = n_tokens * d_model_;
  float *low = rows_.floats(), *branch = branch_.floats();
  cpu_.matmul(normed, n_tokens, std::array{product(weights.left, low)});
  cpu_.matmul(low, n_tokens, std::array{product(weights.right, branch)});
  cpu_.rms_norm(branch, weights.norm, eps_, n_tokens, d_model_, branch);
  cpu_.add(normed, n, branch);
  cpu_.add(branch, n, x);
  cpu_.scale(std::numbers::sqrt2_v<float> / 2.0f, n, x);
}

void ResidualStreams::correct(const LayerWeights& weights, LayerEmbeddings& embeddings, int layer,
                              int n_tokens, const float* x) {
  route(weights.streams, n_tokens, x);
  for (int64_t t = 0; t < n_tokens; ++t) {
    const float* const routes = routes_.floats() + t * n_;
    const float* const result = x + t * d_model_;
    const float* const active = stream(predicted_, active_) + t * d_model_;
    for (int to = 0; to < n_; ++to) {
      const float* const row = weights.streams.correct + int64_t{to} * n_;
      float weight = 1.0f;
      for (int i = 0; i < n_; ++i) weight += row[i] * routes[i];
      const float* const in = stream(predicted_, to) + t * d_model_;
      float* const out = stream(streams_, to) + t * d_model_;
      for (int64_t i = 0; i < d_model_; ++i) out[i] = in[i] + weight * (result[i] - active[i]);
    }
    float* const scaled = rows_.floats() + t * d_model_;
    const float* const corrected = stream(streams_, active_) + t * d_model_;
    for (int64_t i = 0; i < d_model_; ++i) scaled[i] = corrected[i] * weights.streams.correct_scale[i];
  }
  const float* const added = embeddings.weighted(layer, weights, n_tokens, rows_.floats());
  for (int i = 1; i < n_; ++i) cpu_.add(added, n_tokens * d_model_, stream(streams_, i));
}

void ResidualStreams::end_step(int n_tokens, float* x) {
  const int64_t n = n_tokens * d_model_;
  float *first = stream(streams_, 0), *branch = branch_.floats();
  cpu_.copy(first, n, x);
  for (int i = 1; i < n_; ++i) {
    cpu_.matmul(stream(streams_, i), n_tokens,
                std::array{product(weights_.stream_ends[static_cast<size_t>(i - 1)], branch)});
    lengthen(first, n_tokens, branch);
    cpu_.add(branch, n, x);
  }
  cpu_.scale(1.0f / static_cast<float>(n_), n, x);
}

}  // namespace hearth
