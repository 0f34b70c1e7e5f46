// The modes of the FFN as sequences of backend operations. See the header.
#include "engine/forward/ffn_pass.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/forward/dense_ffn.h"

namespace hearth {
namespace {

/// The least gate value for which the activation function is not zero.
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

FfnPass::FfnPass(const Devices& devices, const ModelSpec& spec, const Weights& weights, int max_tokens,
                 const FfnPass* lender)
    : devices_(devices),
      spec_(spec),
      weights_(weights),
      in_file_(NeuronLayout::in_file(spec, weights)),
      layout_(&in_file_),
      observers_(spec),
      max_tokens_(max_tokens),
      has_sets_(lender == nullptr),
      mixture_(devices, spec, weights, max_tokens, lender != nullptr ? &lender->mixture_ : nullptr),
      predictor_(spec, weights),
      split_(devices_.cpu(), spec) {
  if (lender != nullptr) on_cpu_ = lender->on_cpu_.view();
  if (devices.cpu_has_layers()) take_cpu_work();
  if (devices.device() != nullptr) {
    on_device_ = lender != nullptr ? lender->on_device_.view()
                                   : FfnWorkspace(devices.device()->backend(), spec, weights, max_tokens);
    if (has_sets_) on_device_.make_sets(devices.device()->backend());
    for (int i = 0; i < spec.n_layers; ++i) {
      if (spec.layer(i).experts) expert_layers_.push_back({.layer = i});
    }
  }
}

/// Allocates the CPU's buffers unless they exist already.
void FfnPass::take_cpu_work() {
  if (!on_cpu_.empty()) return;
  on_cpu_ = FfnWorkspace(devices_.cpu(), spec_, weights_, max_tokens_);
  if (has_sets_) on_cpu_.make_sets(devices_.cpu());
}

/// Allocates the buffers for SplitProduct, which multiplies by whole matrices of layers that the CPU and the
/// device share.
void FfnPass::take_split_work() {
  take_cpu_work();
  if (devices_.device() != nullptr) split_.reserve(max_tokens_);
}

double FfnPass::bytes_needed(const ModelSpec& spec, int max_tokens) {
  const int n_buffers = (spec.gated ? 2 : 1) + (spec.predictors ? 2 : 0);
  const double per_token = static_cast<double>(n_buffers) * spec.widest_ffn();
  return sizeof(float) * per_token * max_tokens + MixturePass::bytes_needed(spec, max_tokens);
}

void FfnPass::use(const FfnMode& mode, const NeuronLayout& layout, const ExpertLayout* experts) {
  mode_ = mode;
  layout_ = &layout;
  predictor_.use(layout, mode.predictor_threshold);
  mixture_.use(experts);
  if (devices_.device() != nullptr) devices_.device()->forget_recorded();
  if (mode.verify_predictor) take_split_work();
  reset_counts();
}

void FfnPass::share_experts(std::span<const DeviceExperts> experts, bool host_pinned) {
  mixture_.share(experts, host_pinned);
  if (devices_.device() != nullptr) devices_.device()->forget_recorded();
}

void FfnPass::reset_counts() {
  counts_ = {};
  for (LayerExpertTotals& layer : expert_layers_) layer = {.layer = layer.layer};
}

void FfnPass::set_thresholds(std::span<const float> thresholds) {
  assert(thresholds.size() == mode_.thresholds.size());
  std::ranges::copy(thresholds, mode_.thresholds.begin());
  if (devices_.device() != nullptr) devices_.device()->forget_recorded();
}

void FfnPass::observe_values(ValueObserver observer) {
  observers_.observe_values(std::move(observer));
  if (devices_.device() == nullptr) return;
  devices_.device()->forget_recorded();  // observed steps run operations that recorded steps do not have
  if (observers_.observes_values()) take_split_work();
}

void FfnPass::begin_step(bool streams) {
  streams_ = streams;
  observers_.begin_step();
}

void FfnPass::end_step() { observers_.end_step(devices_.device()); }

LayerCall FfnPass::call_of(int layer, const float* normed, const float* x, int n_tokens, float* out) const {
  const bool on_device = streams_ || devices_.on_device(layer);
  return {on_device ? devices_.device()->backend() : devices_.cpu(),
          on_device ? on_device_ : on_cpu_,
          layer,
          layout_->layer(layer),
          normed,
          x,
          n_tokens,
          out,
          spec_.layer(layer).gate_cut};
}

void FfnPass::before_attention(int layer, const float* x, int n_tokens) {
  const LayerCall call = call_of(layer, nullptr, nullptr, n_tokens, nullptr);
  if (mode_.sparsity == Sparsity::kPredicted && spec_.arch.predictor_input == PredictorInput::kLayerInput) {
    predictor_.propose(call, x);
  }
  if (spec_.layer(layer).experts) mixture_.before_attention(call, x);
  observers_.before_attention(layer, x, n_tokens);
}

void FfnPass::run(int layer, const float* normed, const float* x, int n_tokens, float* out) {
  const LayerCall call = call_of(layer, normed, x, n_tokens, out);
  if (spec_.layer(layer).experts) return run_mixture(call);
  // Mixtures also have layers without experts. Every mode computes all neurons of such layers.
  const bool whole = mode_.sparsity == Sparsity::kDense || spec_.has_experts();
  if (whole && call.neurons.dense_down.weight) return run_dense_ffn(call, observers_);
  counts_.n_token_layers += n_tokens;
  counts_.neurons.found = observers_.found();
  run_sparse(call);
  if (observers_.counts_step()) observers_.report_found(layer, devices_.on_device(layer));
}

void FfnPass::run_mixture(const LayerCall& call) {
  counts_.n_expert_layers += call.n_tokens;
  const ExpertCounts before = counts_.experts;
  mixture_.run(call, observers_, counts_.experts);
  if (expert_layers_.empty()) return;
  LayerExpertTotals& totals =
      *std::ranges::lower_bound(expert_layers_, call.layer, {}, &LayerExpertTotals::layer);
  // ExpertCounts::chosen may include a shared expert, which tokens do not choose.
  const int64_t chosen = int64_t{call.n_tokens} * spec_.mixture.n_used;
  const int64_t on_device = counts_.experts.resident - before.resident;
  const int64_t streamed = counts_.experts.streamed - before.streamed;
  totals.vram += static_cast<uint64_t>(on_device - streamed);
  totals.ram += static_cast<uint64_t>(chosen - on_device);
  totals.streamed += static_cast<uint64_t>(streamed);
}

void FfnPass::run_sparse(const LayerCall& call) {
  switch (mode_.sparsity) {
    case Sparsity::kDense:
      return call.neurons.hybrid != nullptr ? run_hybrid(call) : run_all_neurons(call);
    case Sparsity::kExact:
      return run_exact(call);
    case Sparsity::kPredicted:
      return run_predicted(call);
    case Sparsity::kCalibrated:
      return run_calibrated(call);
  }
}

/// Puts every neuron into work.wanted.
void FfnPass::want_all(const LayerCall& call) {
  call.backend.select_neurons(call.work.gate.floats(), nullptr, call.n_tokens, spec_.d_ff,
                              -std::numeric_limits<float>::infinity(), call.work.wanted);
}

/// Computes every neuron, for layers that have one down row per neuron. (The down rows of neurons with value
/// zero are not read, because they would add nothing.)
void FfnPass::run_all_neurons(const LayerCall& call) {
  compute_observed_values(call, observers_);
  want_all(call);
  call.backend.down_neurons(call.neurons.ffn.down, call.work.gate.floats(), call.n_tokens, call.work.wanted,
                            call.out, counts_.neurons);
}

/// Adds to `out` the result of the FFN with only the neurons in work.wanted. The layer's backend computes it,
/// or the CPU and the GPU together if they share the layer. gates: the gate values of all neurons, or null.
/// least_contribution: see HybridCall; used only if the layer is shared.
void FfnPass::add_wanted(const LayerCall& call, const float* gates, std::optional<float> least_contribution) {
  const NeuronLayer& neurons = call.neurons;
  if (neurons.hybrid == nullptr) {
    return call.backend.ffn_neurons(neurons.ffn, call.normed, call.n_tokens, call.work.wanted, gates,
                                    call.out, counts_.neurons);
  }
  HybridCall shared{.x = call.normed,
                    .n_tokens = call.n_tokens,
                    .wanted = call.work.wanted,
                    .proposal = looks_ahead_ && mode_.sparsity == Sparsity::kPredicted
                                    ? predictor_.look_ahead(call)
                                    : std::nullopt,
                    .gates = gates,
                    .out = call.out,
                    .least_contribution = least_contribution};
  devices_.device()->hybrid_ffn().run(*neurons.hybrid, shared, counts_.neurons);
}

/// Marks every neuron as wanted, on the GPU and on the CPU. Each processor computes the gates of its neurons,
/// then up and down of the neurons that pass the gate.
void FfnPass::run_hybrid(const LayerCall& call) {
  want_all(call);
  add_wanted(call, nullptr);
}

/// Computes the gates of all neurons first, then up and down only of the neurons that pass the gate.
void FfnPass::run_exact(const LayerCall& call) {
  const FfnNeurons& ffn = call.neurons.ffn;
  const HybridLayer* hybrid = call.neurons.hybrid;
  if (hybrid != nullptr && !hybrid->all_gates) return run_hybrid(call);
  float* gate = call.work.gate.floats();
  call.backend.matmul(call.normed, call.n_tokens, std::array{product({ffn.gate, ffn.gate_bias}, gate)});
  call.backend.select_neurons(gate, nullptr, call.n_tokens, spec_.d_ff, least_passing_gate(spec_.activation),
                              call.work.wanted);
  add_wanted(call, gate);
}

/// The predictor proposes neurons; the gate verifies the proposals.
void FfnPass::run_predicted(const LayerCall& call) {
  if (spec_.arch.predictor_input == PredictorInput::kResidual) predictor_.propose(call, call.x);
  if (mode_.verify_predictor) verify(call);
  add_wanted(call, nullptr);
}

/// Counts the active neurons that the predictor missed, using the gates of all neurons.
void FfnPass::verify(const LayerCall& call) {
  const FfnNeurons& ffn = call.neurons.ffn;
  const bool shared = call.neurons.hybrid != nullptr;
  Backend& backend = shared ? devices_.cpu() : call.backend;
  const FfnWorkspace& work = shared ? on_cpu_ : call.work;
  float* gate = work.gate.floats();
  if (shared) {
    split_.run(call, &FfnNeurons::gate, &FfnNeurons::gate_bias, gate);
  } else {
    backend.matmul(call.normed, call.n_tokens, std::array{product({ffn.gate, ffn.gate_bias}, gate)});
  }
  backend.select_neurons(gate, nullptr, call.n_tokens, spec_.d_ff, least_passing_gate(spec_.activation),
                         work.truly_active);
  const NeuronSet& truly_active = backend.to_host(work.truly_active);
  const NeuronSet& wanted = call.backend.to_host(call.work.wanted);
  counts_.n_verified += call.n_tokens;
  counts_.truly_active += truly_active.count();
  counts_.truly_active_proposed += count_common(truly_active, wanted);
}

/// Computes the values of all neurons, but applies the down projection only for neurons with a contribution
/// (|value| times the norm of the down column) that reaches the threshold.
void FfnPass::run_calibrated(const LayerCall& call) {
  const float least = mode_.thresholds[static_cast<size_t>(call.layer)];
  if (call.neurons.hybrid != nullptr) {
    if (observers_.observes_values()) observe_shared(call);
    want_all(call);
    return add_wanted(call, nullptr, least);
  }
  compute_values(call);
  const float* values = call.work.gate.floats();
  if (observers_.observes_values()) {
    const size_t n = static_cast<size_t>(call.n_tokens) * static_cast<size_t>(spec_.d_ff);
    observers_.report_values(call.layer, call.backend.to_host(values, n), call.neurons.down_sizes,
                             call.n_tokens);
  }
  call.backend.select_neurons(values, call.neurons.ffn.down_sizes, call.n_tokens, spec_.d_ff, least,
                              call.work.wanted);
  call.backend.down_neurons(call.neurons.ffn.down, values, call.n_tokens, call.work.wanted, call.out,
                            counts_.neurons);
}

/// Passes the values of a shared layer to the observer. The weights of its neurons are partly in host memory
/// and partly in device memory.
void FfnPass::observe_shared(const LayerCall& call) {
  const HybridLayer& layer = *call.neurons.hybrid;
  float *gate = on_cpu_.gate.floats(), *up = layer.host.up ? on_cpu_.up.floats() : nullptr;
  split_.run(call, &FfnNeurons::gate, &FfnNeurons::gate_bias, gate);
  if (up != nullptr) split_.run(call, &FfnNeurons::up, &FfnNeurons::up_bias, up);
  devices_.cpu().gated_activation(call.neurons.ffn.activation, gate, up, int64_t{call.n_tokens} * spec_.d_ff,
                                  gate);
  observers_.report_values(call.layer, gate, call.neurons.down_sizes, call.n_tokens);
}

}  // namespace hearth
