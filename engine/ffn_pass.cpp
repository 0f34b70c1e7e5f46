// The modes of the FFN as sequences of backend operations. See the header.
#include "engine/ffn_pass.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

namespace hearth {
namespace {

Buffer floats(Backend& backend, int64_t rows, int64_t cols) {
  return backend.allocate(static_cast<size_t>(rows) * static_cast<size_t>(cols) * sizeof(float));
}

Product product(const Matrix& weight, const float* bias, float* out, bool accumulate = false) {
  return {.weight = weight, .bias = bias, .out = out, .out_stride = weight.n_rows, .accumulate = accumulate};
}

int64_t max_rank(const Weights& weights) {
  int64_t rank = 0;
  for (const LayerWeights& layer : weights.layers) rank = std::max(rank, layer.predictor_in.n_rows);
  return rank;
}

/// The least gate that act() does not turn into zero.
float least_passing_gate(const FfnActivation& activation) {
  return std::nextafter(activation.threshold, std::numeric_limits<float>::infinity());
}

int64_t count_common(const NeuronSet& a, const NeuronSet& b) {
  int64_t n = 0;
  for (int t = 0; t < a.n_tokens(); ++t) {
    for (size_t w = 0; w < a.words(); ++w) n += std::popcount(a.wanted(t)[w] & b.wanted(t)[w]);
  }
  return n;
}

}  // namespace

FfnPass::FfnPass(Backend& backend, const ModelSpec& spec, const Weights& weights, int max_tokens)
    : backend_(backend),
      spec_(spec),
      weights_(weights),
      in_file_(NeuronLayout::in_file(spec, weights)),
      layout_(&in_file_),
      gate_(floats(backend, max_tokens, spec.d_ff)),
      up_(floats(backend, spec.gated ? max_tokens : 0, spec.d_ff)),
      hidden_(floats(backend, max_tokens, max_rank(weights))),
      logits_(floats(backend, max_rank(weights) > 0 ? max_tokens : 0, spec.d_ff)) {
  wanted_.reserve(max_tokens, spec.d_ff);
  truly_active_.reserve(max_tokens, spec.d_ff);
}

double FfnPass::bytes_needed(const ModelSpec& spec, int max_tokens) {
  const int n_buffers = (spec.gated ? 2 : 1) + (spec.powerinfer ? 2 : 0);
  return sizeof(float) * static_cast<double>(n_buffers) * max_tokens * spec.d_ff;
}

void FfnPass::use(const FfnMode& mode, const NeuronLayout& layout) {
  mode_ = mode;
  layout_ = &layout;
  reset_counts();
}

void FfnPass::reset_counts() { counts_ = {}; }

void FfnPass::set_thresholds(std::span<const float> thresholds) {
  assert(thresholds.size() == mode_.thresholds.size());
  std::ranges::copy(thresholds, mode_.thresholds.begin());
}

void FfnPass::before_attention(int layer, const float* x, int n_tokens) {
  if (mode_.sparsity == Sparsity::kPredicted && spec_.arch.predictor_input == PredictorInput::kLayerInput) {
    propose(layer, x, n_tokens);
  }
}

void FfnPass::run(int layer, const float* normed, float* x, int n_tokens) {
  counts_.neurons.hits = hits_ == nullptr ? nullptr : hits_ + int64_t{layer} * spec_.d_ff;
  const NeuronLayer& neurons = layout_->layer(layer);
  if (mode_.sparsity == Sparsity::kDense && neurons.dense_down.weight)
    return run_dense(layer, normed, x, n_tokens);
  counts_.n_token_layers += n_tokens;
  if (mode_.sparsity == Sparsity::kDense && neurons.ffn.residency != nullptr)
    return run_shared(neurons.ffn, normed, x, n_tokens);
  switch (mode_.sparsity) {
    case Sparsity::kDense:
      return run_all_neurons(layer, normed, x, n_tokens);
    case Sparsity::kExact:
      return run_exact(layer, normed, x, n_tokens);
    case Sparsity::kPredicted:
      return run_predicted(layer, normed, x, n_tokens);
    case Sparsity::kCalibrated:
      return run_calibrated(layer, normed, x, n_tokens);
  }
}

/// values of all neurons -> gate_.
void FfnPass::compute_values(const FfnNeurons& ffn, const float* normed, int n_tokens) {
  if (ffn.up) {
    backend_.matmul(normed, n_tokens,
                    std::array{product(ffn.gate, ffn.gate_bias, gate_.floats()),
                               product(ffn.up, ffn.up_bias, up_.floats())});
  } else {
    backend_.matmul(normed, n_tokens, std::array{product(ffn.gate, ffn.gate_bias, gate_.floats())});
  }
  backend_.gated_activation(spec_.activation, gate_.floats(), ffn.up ? up_.floats() : nullptr,
                            int64_t{n_tokens} * spec_.d_ff, gate_.floats());
}

/// With the file's own down projection: three matrix products.
void FfnPass::run_dense(int layer, const float* normed, float* x, int n_tokens) {
  compute_values(layout_->layer(layer).ffn, normed, n_tokens);
  const Linear& down = layout_->layer(layer).dense_down;
  backend_.matmul(gate_.floats(), n_tokens, std::array{product(down.weight, down.bias, x, true)});
}

/// Every neuron, where the down projection has one row per neuron. (Rows of those whose value is zero are not
/// read: they would add nothing.)
void FfnPass::run_all_neurons(int layer, const float* normed, float* x, int n_tokens) {
  const FfnNeurons& ffn = layout_->layer(layer).ffn;
  compute_values(ffn, normed, n_tokens);
  backend_.select_neurons(gate_.floats(), nullptr, n_tokens, spec_.d_ff,
                          -std::numeric_limits<float>::infinity(), wanted_);
  backend_.down_neurons(ffn.down, gate_.floats(), n_tokens, wanted_, x, counts_.neurons);
}

/// Every neuron is wanted, whoever has it: gates, and then up and down of what they let through.
void FfnPass::run_shared(const FfnNeurons& ffn, const float* normed, float* x, int n_tokens) {
  backend_.select_neurons(gate_.floats(), nullptr, n_tokens, spec_.d_ff,
                          -std::numeric_limits<float>::infinity(), wanted_);
  backend_.ffn_neurons(ffn, normed, n_tokens, wanted_, nullptr, x, counts_.neurons);
}

/// Gates first; up and down only of the neurons that their gate lets through.
void FfnPass::run_exact(int layer, const float* normed, float* x, int n_tokens) {
  const FfnNeurons& ffn = layout_->layer(layer).ffn;
  if (ffn.residency != nullptr && !ffn.residency->all_gates) return run_shared(ffn, normed, x, n_tokens);
  backend_.matmul(normed, n_tokens, std::array{product(ffn.gate, ffn.gate_bias, gate_.floats())});
  backend_.select_neurons(gate_.floats(), nullptr, n_tokens, spec_.d_ff, least_passing_gate(spec_.activation),
                          wanted_);
  backend_.ffn_neurons(ffn, normed, n_tokens, wanted_, gate_.floats(), x, counts_.neurons);
}

/// wanted_ = neurons whose predictor's logit, fc2 relu(fc1 input), reaches the threshold.
void FfnPass::propose(int layer, const float* input, int n_tokens) {
  const Matrix& in = weights_.layers[static_cast<size_t>(layer)].predictor_in;
  const Matrix& out = layout_->layer(layer).predictor_out;
  backend_.matmul(input, n_tokens, std::array{product(in, nullptr, hidden_.floats())});
  backend_.gated_activation({Activation::kRelu}, hidden_.floats(), nullptr, n_tokens * in.n_rows,
                            hidden_.floats());
  backend_.matmul(hidden_.floats(), n_tokens, std::array{product(out, nullptr, logits_.floats())});
  backend_.select_neurons(logits_.floats(), nullptr, n_tokens, spec_.d_ff, mode_.predictor_threshold,
                          wanted_);
}

/// The predictor proposes, the gate verifies what was proposed.
void FfnPass::run_predicted(int layer, const float* normed, float* x, int n_tokens) {
  if (spec_.arch.predictor_input == PredictorInput::kResidual) propose(layer, x, n_tokens);
  if (mode_.verify_predictor) verify(layer, normed, n_tokens);
  backend_.ffn_neurons(layout_->layer(layer).ffn, normed, n_tokens, wanted_, nullptr, x, counts_.neurons);
}

/// Counts what the predictor missed, against the gates of all neurons.
void FfnPass::verify(int layer, const float* normed, int n_tokens) {
  const FfnNeurons& ffn = layout_->layer(layer).ffn;
  backend_.matmul(normed, n_tokens, std::array{product(ffn.gate, ffn.gate_bias, gate_.floats())});
  backend_.select_neurons(gate_.floats(), nullptr, n_tokens, spec_.d_ff, least_passing_gate(spec_.activation),
                          truly_active_);
  backend_.to_host(truly_active_);
  backend_.to_host(wanted_);
  counts_.n_verified += n_tokens;
  counts_.truly_active += truly_active_.count();
  counts_.truly_active_proposed += count_common(truly_active_, wanted_);
}

/// All values; down only of the neurons whose contribution, |value| times the norm of the down column,
/// counts.
void FfnPass::run_calibrated(int layer, const float* normed, float* x, int n_tokens) {
  const NeuronLayer& neurons = layout_->layer(layer);
  compute_values(neurons.ffn, normed, n_tokens);
  if (observer_) observer_(layer, gate_.floats(), neurons.down_sizes, n_tokens);
  backend_.select_neurons(gate_.floats(), neurons.down_sizes, n_tokens, spec_.d_ff,
                          mode_.thresholds[static_cast<size_t>(layer)], wanted_);
  backend_.down_neurons(neurons.ffn.down, gate_.floats(), n_tokens, wanted_, x, counts_.neurons);
}

}  // namespace hearth
