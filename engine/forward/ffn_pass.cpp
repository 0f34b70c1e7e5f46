// The modes of the FFN as sequences of backend operations. See the header.
#include "engine/forward/ffn_pass.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

namespace hearth {
namespace {

Buffer floats(Memory& memory, int64_t rows, int64_t cols) {
  return memory.allocate(static_cast<size_t>(rows) * static_cast<size_t>(cols) * sizeof(float));
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

FfnWorkspace::FfnWorkspace(Memory& memory, const ModelSpec& spec, const Weights& weights, int max_tokens)
    : gate(floats(memory, max_tokens, spec.d_ff)),
      up(floats(memory, spec.gated ? max_tokens : 0, spec.d_ff)),
      hidden(floats(memory, max_tokens, max_rank(weights))),
      logits(floats(memory, max_rank(weights) > 0 ? max_tokens : 0, spec.d_ff)) {}

void FfnWorkspace::make_sets(Backend& backend) {
  for (NeuronSetId* set : {&wanted, &wanted_next, &truly_active}) *set = backend.make_set();
}

FfnPass::FfnPass(const Devices& devices, const ModelSpec& spec, const Weights& weights, int max_tokens)
    : devices_(devices),
      spec_(spec),
      weights_(weights),
      in_file_(NeuronLayout::in_file(spec, weights)),
      layout_(&in_file_) {
  const auto take = [&](Backend& backend, FfnWorkspace& work) {
    work = FfnWorkspace(backend, spec, weights, max_tokens);
    work.make_sets(backend);
  };
  if (devices.cpu_has_layers()) take(devices.cpu(), on_cpu_);
  if (devices.device() != nullptr) take(devices.device()->backend(), on_device_);
  found_later_.reserve(static_cast<size_t>(spec.n_layers));
}

double FfnPass::bytes_needed(const ModelSpec& spec, int max_tokens) {
  const int n_buffers = (spec.gated ? 2 : 1) + (spec.predictors ? 2 : 0);
  return sizeof(float) * static_cast<double>(n_buffers) * max_tokens * spec.d_ff;
}

void FfnPass::use(const FfnMode& mode, const NeuronLayout& layout) {
  mode_ = mode;
  layout_ = &layout;
  if (devices_.device() != nullptr) devices_.device()->forget_recorded();
  reset_counts();
}

void FfnPass::reset_counts() { counts_ = {}; }

void FfnPass::set_thresholds(std::span<const float> thresholds) {
  assert(thresholds.size() == mode_.thresholds.size());
  std::ranges::copy(thresholds, mode_.thresholds.begin());
  if (devices_.device() != nullptr) devices_.device()->forget_recorded();
}

FfnPass::Step FfnPass::step_of(int layer, const float* normed, float* x, int n_tokens) const {
  return {devices_.of_layer(layer),
          devices_.on_device(layer) ? on_device_ : on_cpu_,
          layer,
          layout_->layer(layer),
          normed,
          x,
          n_tokens};
}

void FfnPass::before_attention(int layer, const float* x, int n_tokens) {
  if (mode_.sparsity == Sparsity::kPredicted && spec_.arch.predictor_input == PredictorInput::kLayerInput) {
    propose(step_of(layer, nullptr, nullptr, n_tokens), x);
  }
  if (neuron_observer_ != nullptr && spec_.arch.predictor_input == PredictorInput::kLayerInput) {
    neuron_observer_->input(layer, x, n_tokens);
  }
}

void FfnPass::run(int layer, const float* normed, float* x, int n_tokens) {
  const Step step = step_of(layer, normed, x, n_tokens);
  if (mode_.sparsity == Sparsity::kDense && step.neurons.dense_down.weight) return run_dense(step);
  counts_.n_token_layers += n_tokens;
  counts_.neurons.found = counts_step() ? counter_->found() : nullptr;
  run_sparse(step);
  if (counts_.neurons.found == nullptr) return;
  if (devices_.on_device(layer)) {
    found_later_.push_back(layer);
  } else {
    counter_->add(layer);
  }
}

void FfnPass::end_step() {
  int call = 0;
  for (const int layer : found_later_) {
    devices_.device()->found(call++, *counter_->found());
    counter_->add(layer);
  }
}

void FfnPass::run_sparse(const Step& step) {
  switch (mode_.sparsity) {
    case Sparsity::kDense:
      return step.neurons.hybrid != nullptr ? run_hybrid(step) : run_all_neurons(step);
    case Sparsity::kExact:
      return run_exact(step);
    case Sparsity::kPredicted:
      return run_predicted(step);
    case Sparsity::kCalibrated:
      return run_calibrated(step);
  }
}

/// values of all neurons -> work.gate.
void FfnPass::compute_values(const Step& step) {
  const FfnNeurons& ffn = step.neurons.ffn;
  float *gate = step.work.gate.floats(), *up = step.work.up.floats();
  if (ffn.up) {
    step.backend.matmul(step.normed, step.n_tokens,
                        std::array{product(ffn.gate, ffn.gate_bias, gate), product(ffn.up, ffn.up_bias, up)});
  } else {
    step.backend.matmul(step.normed, step.n_tokens, std::array{product(ffn.gate, ffn.gate_bias, gate)});
  }
  step.backend.gated_activation(spec_.activation, gate, ffn.up ? up : nullptr,
                                int64_t{step.n_tokens} * spec_.d_ff, gate);
}

/// Values of all neurons that the observer, if there is one, leaves in the pass -> work.gate.
void FfnPass::compute_observed_values(const Step& step) {
  if (neuron_observer_ != nullptr && spec_.arch.predictor_input == PredictorInput::kResidual) {
    neuron_observer_->input(step.layer, step.x, step.n_tokens);
  }
  compute_values(step);
  if (neuron_observer_ != nullptr) {
    neuron_observer_->values(step.layer, step.work.gate.floats(), step.n_tokens);
  }
}

/// With the file's own down projection: three matrix products.
void FfnPass::run_dense(const Step& step) {
  compute_observed_values(step);
  const Linear& down = step.neurons.dense_down;
  step.backend.matmul(step.work.gate.floats(), step.n_tokens,
                      std::array{product(down.weight, down.bias, step.x, true)});
}

/// work.wanted = every neuron.
void FfnPass::want_all(const Step& step) {
  step.backend.select_neurons(step.work.gate.floats(), nullptr, step.n_tokens, spec_.d_ff,
                              -std::numeric_limits<float>::infinity(), step.work.wanted);
}

/// Every neuron, where the down projection has one row per neuron. (Rows of those whose value is zero are not
/// read: they would add nothing.)
void FfnPass::run_all_neurons(const Step& step) {
  compute_observed_values(step);
  want_all(step);
  step.backend.down_neurons(step.neurons.ffn.down, step.work.gate.floats(), step.n_tokens, step.work.wanted,
                            step.x, counts_.neurons);
}

/// x += the FFN of the neurons in work.wanted, by the layer's backend or by both devices. gates: of all
/// neurons, or null.
void FfnPass::add_wanted(const Step& step, const float* gates) {
  const NeuronLayer& neurons = step.neurons;
  if (neurons.hybrid == nullptr) {
    return step.backend.ffn_neurons(neurons.ffn, step.normed, step.n_tokens, step.work.wanted, gates, step.x,
                                    counts_.neurons);
  }
  HybridCall call{.x = step.normed,
                  .n_tokens = step.n_tokens,
                  .wanted = step.work.wanted,
                  .wanted_next = {},
                  .gates = gates,
                  .out = step.x};
  if (std::exchange(proposes_next_, false)) call.wanted_next = step.work.wanted_next;
  devices_.device()->hybrid_ffn().run(*neurons.hybrid, call, counts_.neurons);
}

/// Every neuron is wanted, whoever has it: gates, and then up and down of what they let through.
void FfnPass::run_hybrid(const Step& step) {
  want_all(step);
  add_wanted(step, nullptr);
}

/// Gates first; up and down only of the neurons that their gate lets through.
void FfnPass::run_exact(const Step& step) {
  const FfnNeurons& ffn = step.neurons.ffn;
  const HybridLayer* hybrid = step.neurons.hybrid;
  if (hybrid != nullptr && !hybrid->all_gates) return run_hybrid(step);
  float* gate = step.work.gate.floats();
  step.backend.matmul(step.normed, step.n_tokens, std::array{product(ffn.gate, ffn.gate_bias, gate)});
  step.backend.select_neurons(gate, nullptr, step.n_tokens, spec_.d_ff, least_passing_gate(spec_.activation),
                              step.work.wanted);
  add_wanted(step, gate);
}

/// set = neurons of `layer` whose predictor's logit, fc2 relu(fc1 input), reaches the threshold.
void FfnPass::predict(const Step& step, int layer, const float* input, NeuronSetId set) {
  const Matrix &in = weights_.layers[static_cast<size_t>(layer)].predictor_in,
               &out = layout_->layer(layer).predictor_out;
  float *hidden = step.work.hidden.floats(), *logits = step.work.logits.floats();
  step.backend.matmul(input, step.n_tokens, std::array{product(in, nullptr, hidden)});
  step.backend.gated_activation({Activation::kRelu}, hidden, nullptr, step.n_tokens * in.n_rows, hidden);
  step.backend.matmul(hidden, step.n_tokens, std::array{product(out, nullptr, logits)});
  step.backend.select_neurons(logits, nullptr, step.n_tokens, spec_.d_ff, mode_.predictor_threshold, set);
}

/// work.wanted = what the layer's predictor proposes; work.wanted_next = what that of the next hybrid layer
/// proposes for the same input. That is nearly what it will propose for its own input, because the residual
/// stream changes slowly from layer to layer.
void FfnPass::propose(const Step& step, const float* input) {
  predict(step, step.layer, input, step.work.wanted);
  if (!looks_ahead_ || step.neurons.hybrid == nullptr) return;
  const HybridLayer* next = layout_->next_hybrid(step.layer);
  if (next == nullptr || !next->has_cache()) return;
  predict(step, next->layer, input, step.work.wanted_next);
  proposes_next_ = true;
}

/// The predictor proposes, the gate verifies what was proposed.
void FfnPass::run_predicted(const Step& step) {
  if (spec_.arch.predictor_input == PredictorInput::kResidual) propose(step, step.x);
  if (mode_.verify_predictor) verify(step);
  add_wanted(step, nullptr);
}

/// Counts what the predictor missed, against the gates of all neurons.
void FfnPass::verify(const Step& step) {
  const FfnNeurons& ffn = step.neurons.ffn;
  float* gate = step.work.gate.floats();
  step.backend.matmul(step.normed, step.n_tokens, std::array{product(ffn.gate, ffn.gate_bias, gate)});
  step.backend.select_neurons(gate, nullptr, step.n_tokens, spec_.d_ff, least_passing_gate(spec_.activation),
                              step.work.truly_active);
  const NeuronSet& truly_active = step.backend.to_host(step.work.truly_active);
  const NeuronSet& wanted = step.backend.to_host(step.work.wanted);
  counts_.n_verified += step.n_tokens;
  counts_.truly_active += truly_active.count();
  counts_.truly_active_proposed += count_common(truly_active, wanted);
}

/// All values; down only of the neurons whose contribution, |value| times the norm of the down column,
/// counts.
void FfnPass::run_calibrated(const Step& step) {
  compute_values(step);
  const float *values = step.work.gate.floats(), *sizes = step.neurons.down_sizes;
  if (observer_) observer_(step.layer, values, sizes, step.n_tokens);
  step.backend.select_neurons(values, sizes, step.n_tokens, spec_.d_ff,
                              mode_.thresholds[static_cast<size_t>(step.layer)], step.work.wanted);
  step.backend.down_neurons(step.neurons.ffn.down, values, step.n_tokens, step.work.wanted, step.x,
                            counts_.neurons);
}

}  // namespace hearth
