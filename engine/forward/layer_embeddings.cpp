// See the header.
#include "engine/forward/layer_embeddings.h"

#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "engine/forward/layer_call.h"

namespace hearth {

LayerEmbeddingsWorkspace::LayerEmbeddingsWorkspace(Memory& memory, const ModelSpec& spec, int max_tokens) {
  const int64_t size = spec.d_layer_embedding;
  if (size == 0) return;
  rows = floats(memory, max_tokens, spec.n_layers * size);
  projected = floats(memory, max_tokens, spec.n_layers * size);
  gate = floats(memory, max_tokens, size);
  part = floats(memory, max_tokens, size);
  branch = floats(memory, max_tokens, spec.d_model);
}

LayerEmbeddings::LayerEmbeddings(Backend& cpu, Backend& backend, const ModelSpec& spec,
                                 const Weights& weights, int max_tokens)
    : cpu_(cpu),
      backend_(backend),
      weights_(weights),
      size_(spec.d_layer_embedding),
      n_layers_(spec.n_layers),
      d_model_(spec.d_model),
      eps_(spec.norm_eps),
      work_(backend, spec, max_tokens) {
  if (&backend != &cpu) host_rows_ = floats(cpu, size_ > 0 ? max_tokens : 0, int64_t{n_layers_} * size_);
}

double LayerEmbeddings::bytes_needed(const ModelSpec& spec, int max_tokens) {
  if (spec.d_layer_embedding == 0) return 0.0;
  const double per_token =
      2.0 * spec.n_layers * spec.d_layer_embedding + 2.0 * spec.d_layer_embedding + spec.d_model;
  return sizeof(float) * per_token * max_tokens;
}

void LayerEmbeddings::begin_step(std::span<const int32_t> tokens, const float* x) {
  const auto n_tokens = static_cast<int>(tokens.size());
  const int64_t n_rows = int64_t{n_tokens} * n_layers_, n = n_rows * size_;
  float *rows = work_.rows.floats(), *projected = work_.projected.floats();
  if (&backend_ == &cpu_) {
    cpu_.embed(weights_.layer_embeddings, tokens, rows);
  } else {
    cpu_.embed(weights_.layer_embeddings, tokens, host_rows_.floats());
    backend_.from_host(host_rows_.floats(), static_cast<size_t>(n), rows);
  }
  backend_.scale(std::sqrt(static_cast<float>(size_)), n, rows);
  backend_.matmul(x, n_tokens, std::array{product(weights_.layer_projection.linear, projected)});
  backend_.scale(1.0f / std::sqrt(static_cast<float>(d_model_)), n, projected);
  backend_.rms_norm(projected, weights_.layer_projection.norm, eps_, n_rows, size_, projected);
  backend_.add(projected, n, rows);
  backend_.scale(std::numbers::sqrt2_v<float> / 2.0f, n, rows);
}

void LayerEmbeddings::keep(std::span<const int32_t> rows) {
  backend_.gather_rows(work_.rows.floats(), int64_t{n_layers_} * size_, rows, work_.projected.floats());
  std::swap(work_.rows, work_.projected);
}

const float* LayerEmbeddings::weighted(int layer, const LayerWeights& weights, int n_tokens, const float* x) {
  const int64_t n = int64_t{n_tokens} * size_;
  float *gate = work_.gate.floats(), *part = work_.part.floats(), *branch = work_.branch.floats();
  backend_.matmul(x, n_tokens, std::array{product(weights.embedding_gate, gate)});
  backend_.copy_rows(work_.rows.floats() + int64_t{layer} * size_, int64_t{n_layers_} * size_, n_tokens,
                     size_, part, size_);
  backend_.gated_activation({Activation::kGelu}, gate, part, n, gate);
  backend_.matmul(gate, n_tokens, std::array{product(weights.embedding_projection, branch)});
  backend_.rms_norm(branch, weights.embedding_post_norm.scale, eps_, n_tokens, d_model_, branch);
  return branch;
}

void LayerEmbeddings::add(int layer, const LayerWeights& weights, int n_tokens, float* x) {
  backend_.add(weighted(layer, weights, n_tokens, x), int64_t{n_tokens} * d_model_, x);
}

}  // namespace hearth
