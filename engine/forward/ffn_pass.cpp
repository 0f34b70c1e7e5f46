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

Buffer ffn_floats(Memory& memory, int64_t rows, int64_t cols) {
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

/// The least gate value for which act() is not zero.
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
    : gate(ffn_floats(memory, max_tokens, spec.widest_ffn())),
      up(ffn_floats(memory, spec.gated ? max_tokens : 0, spec.widest_ffn())),
      router(ffn_floats(memory, max_tokens, spec.mixture.n_experts)),
      hidden(ffn_floats(memory, max_tokens, max_rank(weights))),
      logits(ffn_floats(memory, max_rank(weights) > 0 ? max_tokens : 0, spec.d_ff)) {}

void FfnWorkspace::make_sets(Backend& backend) {
  for (NeuronSetId* set : {&wanted, &proposed, &truly_active}) *set = backend.make_set();
}

FfnPass::FfnPass(const Devices& devices, const ModelSpec& spec, const Weights& weights, int max_tokens)
    : devices_(devices),
      spec_(spec),
      weights_(weights),
      in_file_(NeuronLayout::in_file(spec, weights)),
      layout_(&in_file_),
      max_tokens_(max_tokens),
      mixed_(ffn_floats(devices_.cpu(), spec.has_experts() ? max_tokens : 0, spec.d_model)) {
  if (devices.cpu_has_layers() || spec.has_experts()) take_cpu_work();
  if (devices.device() != nullptr) {
    on_device_ = FfnWorkspace(devices.device()->backend(), spec, weights, max_tokens);
    on_device_.make_sets(devices.device()->backend());
  }
  found_later_.reserve(static_cast<size_t>(spec.n_layers));
}

/// Allocates the CPU's buffers if that has not happened yet.
void FfnPass::take_cpu_work() {
  if (!on_cpu_.empty()) return;
  on_cpu_ = FfnWorkspace(devices_.cpu(), spec_, weights_, max_tokens_);
  on_cpu_.make_sets(devices_.cpu());
}

double FfnPass::bytes_needed(const ModelSpec& spec, int max_tokens) {
  const int n_buffers = (spec.gated ? 2 : 1) + (spec.predictors ? 2 : 0);
  const double per_token = static_cast<double>(n_buffers) * spec.widest_ffn() + spec.mixture.n_experts +
                           (spec.has_experts() ? spec.d_model : 0);
  return sizeof(float) * per_token * max_tokens;
}

void FfnPass::use(const FfnMode& mode, const NeuronLayout& layout, const ExpertLayout* experts) {
  mode_ = mode;
  layout_ = &layout;
  experts_ = experts == nullptr || experts->empty() ? nullptr : experts;
  if (devices_.device() != nullptr) devices_.device()->forget_recorded();
  if (mode.verify_predictor) take_cpu_work();
  reset_counts();
}

void FfnPass::reset_counts() { counts_ = {}; }

void FfnPass::set_thresholds(std::span<const float> thresholds) {
  assert(thresholds.size() == mode_.thresholds.size());
  std::ranges::copy(thresholds, mode_.thresholds.begin());
  if (devices_.device() != nullptr) devices_.device()->forget_recorded();
}

void FfnPass::observe_values(ValueObserver observer) {
  observer_ = std::move(observer);
  if (devices_.device() == nullptr) return;
  devices_.device()->forget_recorded();  // observed steps do other work
  if (observer_) take_cpu_work();
}

FfnPass::LayerCall FfnPass::call_of(int layer, const float* normed, const float* x, int n_tokens,
                                    float* out) const {
  const bool on_device = streams_ || devices_.on_device(layer);
  return {on_device ? devices_.device()->backend() : devices_.cpu(),
          on_device ? on_device_ : on_cpu_,
          layer,
          layout_->layer(layer),
          normed,
          x,
          n_tokens,
          out};
}

void FfnPass::before_attention(int layer, const float* x, int n_tokens) {
  if (mode_.sparsity == Sparsity::kPredicted && spec_.arch.predictor_input == PredictorInput::kLayerInput) {
    propose(call_of(layer, nullptr, nullptr, n_tokens, nullptr), x);
  }
  if (spec_.layer(layer).experts && spec_.arch.mixture.reads_layer_input) {
    compute_router(call_of(layer, nullptr, nullptr, n_tokens, nullptr), x);
  }
  if (neuron_observer_ != nullptr && spec_.arch.predictor_input == PredictorInput::kLayerInput) {
    neuron_observer_->input(layer, x, n_tokens);
  }
}

void FfnPass::run(int layer, const float* normed, const float* x, int n_tokens, float* out) {
  const LayerCall call = call_of(layer, normed, x, n_tokens, out);
  if (spec_.layer(layer).experts) return run_mixture(call);
  // Layers of a mixture that have no experts are computed whole in every mode.
  const bool whole = mode_.sparsity == Sparsity::kDense || spec_.has_experts();
  if (whole && call.neurons.dense_down.weight) return run_dense(call);
  counts_.n_token_layers += n_tokens;
  counts_.neurons.found = found_of_step();
  run_sparse(call);
  if (counts_.neurons.found == nullptr) return;
  if (devices_.on_device(layer)) {
    found_later_.push_back(layer);
  } else {
    tell_found(layer);
  }
}

/// Passes the layer's active neurons to the counter and the live view.
void FfnPass::tell_found(int layer) {
  if (counter_ != nullptr && counter_->found() != nullptr) counter_->add(layer);
  if (live_ != nullptr && live_->found() != nullptr) live_->add(layer, *found_of_step());
}

void FfnPass::end_step() {
  int call = 0;
  for (const int layer : found_later_) {
    devices_.device()->found(call++, *found_of_step());
    tell_found(layer);
  }
}

/// The parameters by which a layer's router chooses.
Router FfnPass::router_of(int layer) const {
  const MixtureSpec& mixture = spec_.mixture;
  return {.n_experts = mixture.n_experts,
          .n_used = mixture.n_used,
          .score = mixture.score,
          .choice_bias = weights_.layers[static_cast<size_t>(layer)].mixture.choice_bias,
          .n_groups = mixture.n_groups,
          .n_groups_used = mixture.n_groups_used,
          .group_by_best = spec_.arch.mixture.group_by_best && spec_.mixture.score == RouterScore::kSoftmax,
          .renormalise = mixture.renormalise,
          .scale = mixture.scale};
}

/// work.router = the router's logits for x.
void FfnPass::compute_router(const LayerCall& call, const float* x) {
  const Linear& router = weights_.layers[static_cast<size_t>(call.layer)].mixture.router;
  call.backend.matmul(x, call.n_tokens,
                      std::array{product(router.weight, router.bias, call.work.router.floats())});
}

/// Call before the CPU waits for a device: the result will be work for the CPU's threads.
void FfnPass::announce(const LayerCall& call) {
  if (&call.backend != &devices_.cpu()) devices_.cpu().expect_work();
}

/// Counts the experts of choice_ and shows them, if there is a counter or a live view.
void FfnPass::count_choice(int layer) {
  if (live_ != nullptr && live_->shows_experts() && live_->samples_step()) live_->add(layer, choice_);
  if (counter_ == nullptr || !counter_->counts_experts() || counter_->found() == nullptr) return;
  counter_->add(layer, choice_);
}

/// Computes the experts that the router chooses for each token, plus the shared expert if there is one. The
/// CPU chooses and computes the experts. A device hands over the router's logits and the experts' input
/// together, computes the shared expert meanwhile, and adds the CPU's sum.
void FfnPass::run_mixture(const LayerCall& call) {
  const auto n_tokens = static_cast<size_t>(call.n_tokens);
  const size_t n_out = n_tokens * static_cast<size_t>(spec_.d_model);
  const Router router = router_of(call.layer);
  // 1. Logits and input go to the CPU; the device continues with the shared expert.
  if (!spec_.arch.mixture.reads_layer_input) compute_router(call, call.normed);
  announce(call);
  const Backend::HandedOver given = call.backend.hand_over(
      {call.work.router.floats(), n_tokens * static_cast<size_t>(router.n_experts)}, {call.normed, n_out});
  if (call.neurons.dense_down.weight) run_dense(call);
  call.backend.wait_for_hand_over();
  // 2. The CPU chooses and computes experts.
  choice_ = devices_.cpu().route(given.first, call.n_tokens, router);
  count_choice(call.layer);
  counts_.n_expert_layers += call.n_tokens;
  compute_experts(call, given.second);
  // 3. The sum joins the residual stream.
  call.backend.add_from_host(mixed_.floats(), static_cast<int64_t>(n_out), call.out);
}

/// mixed_ = the experts of choice_ for x, plus a shared expert if it is weighted by a gate. On the CPU.
void FfnPass::compute_experts(const LayerCall& call, const float* x) {
  const MixtureWeights& mixture = weights_.layers[static_cast<size_t>(call.layer)].mixture;
  Backend& cpu = devices_.cpu();
  float* mixed = mixed_.floats();
  cpu.zero(int64_t{call.n_tokens} * spec_.d_model, mixed);
  cpu.experts(experts_ != nullptr ? experts_->experts(call.layer) : mixture.experts, spec_.activation, x,
              choice_, mixed, counts_.experts);
  if (mixture.shared.empty()) return;
  // Its gate acts as the router of a mixture with a single expert that every token uses.
  const Router gate{.n_experts = 1, .n_used = 1, .score = RouterScore::kSigmoid};
  float* logits = on_cpu_.router.floats();
  cpu.matmul(x, call.n_tokens,
             std::array{product(mixture.shared_gate.weight, mixture.shared_gate.bias, logits)});
  const ExpertChoice all = cpu.route(logits, call.n_tokens, gate);
  cpu.experts(experts_ != nullptr ? experts_->shared(call.layer) : mixture.shared, spec_.activation, x, all,
              mixed, counts_.experts);
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

/// work.gate = values of all neurons.
void FfnPass::compute_values(const LayerCall& call) {
  const FfnNeurons& ffn = call.neurons.ffn;
  float *gate = call.work.gate.floats(), *up = call.work.up.floats();
  if (ffn.up) {
    call.backend.matmul(call.normed, call.n_tokens,
                        std::array{product(ffn.gate, ffn.gate_bias, gate), product(ffn.up, ffn.up_bias, up)});
  } else {
    call.backend.matmul(call.normed, call.n_tokens, std::array{product(ffn.gate, ffn.gate_bias, gate)});
  }
  call.backend.gated_activation(spec_.activation, gate, ffn.up ? up : nullptr,
                                int64_t{call.n_tokens} * ffn.gate.n_rows, gate);
}

/// work.gate = values of all neurons; the observer, if any, may set some to zero.
void FfnPass::compute_observed_values(const LayerCall& call) {
  if (neuron_observer_ != nullptr && spec_.arch.predictor_input == PredictorInput::kResidual) {
    neuron_observer_->input(call.layer, call.x, call.n_tokens);
  }
  compute_values(call);
  if (neuron_observer_ != nullptr) {
    neuron_observer_->values(call.layer, call.work.gate.floats(), call.n_tokens);
  }
}

/// Uses the file's own down projection: three matrix products.
void FfnPass::run_dense(const LayerCall& call) {
  compute_observed_values(call);
  const Linear& down = call.neurons.dense_down;
  call.backend.matmul(call.work.gate.floats(), call.n_tokens,
                      std::array{product(down.weight, down.bias, call.out, true)});
}

/// work.wanted = every neuron.
void FfnPass::want_all(const LayerCall& call) {
  call.backend.select_neurons(call.work.gate.floats(), nullptr, call.n_tokens, spec_.d_ff,
                              -std::numeric_limits<float>::infinity(), call.work.wanted);
}

/// Computes every neuron if the down projection has one row per neuron. (Rows of neurons with value zero are
/// not read, because they would add nothing.)
void FfnPass::run_all_neurons(const LayerCall& call) {
  compute_observed_values(call);
  want_all(call);
  call.backend.down_neurons(call.neurons.ffn.down, call.work.gate.floats(), call.n_tokens, call.work.wanted,
                            call.out, counts_.neurons);
}

/// x += the FFN of the neurons in work.wanted, computed by the layer's backend or by both devices. gates:
/// those of all neurons, or null. least_contribution: see HybridCall; for shared layers only.
void FfnPass::add_wanted(const LayerCall& call, const float* gates, std::optional<float> least_contribution) {
  const NeuronLayer& neurons = call.neurons;
  if (neurons.hybrid == nullptr) {
    return call.backend.ffn_neurons(neurons.ffn, call.normed, call.n_tokens, call.work.wanted, gates,
                                    call.out, counts_.neurons);
  }
  HybridCall shared{.x = call.normed,
                    .n_tokens = call.n_tokens,
                    .wanted = call.work.wanted,
                    .proposal = look_ahead(call),
                    .gates = gates,
                    .out = call.out,
                    .least_contribution = least_contribution};
  devices_.device()->hybrid_ffn().run(*neurons.hybrid, shared, counts_.neurons);
}

/// Wants every neuron on either device: computes gates, then up and down of the neurons that pass.
void FfnPass::run_hybrid(const LayerCall& call) {
  want_all(call);
  add_wanted(call, nullptr);
}

/// Computes gates first, then up and down only of the neurons that pass.
void FfnPass::run_exact(const LayerCall& call) {
  const FfnNeurons& ffn = call.neurons.ffn;
  const HybridLayer* hybrid = call.neurons.hybrid;
  if (hybrid != nullptr && !hybrid->all_gates) return run_hybrid(call);
  float* gate = call.work.gate.floats();
  call.backend.matmul(call.normed, call.n_tokens, std::array{product(ffn.gate, ffn.gate_bias, gate)});
  call.backend.select_neurons(gate, nullptr, call.n_tokens, spec_.d_ff, least_passing_gate(spec_.activation),
                              call.work.wanted);
  add_wanted(call, gate);
}

/// set = the neurons of `layer` whose predictor's logit, fc2 relu(fc1 input), reaches the threshold.
void FfnPass::predict(const LayerCall& call, int layer, const float* input, NeuronSetId set) {
  const Matrix &in = weights_.layers[static_cast<size_t>(layer)].predictor_in,
               &out = layout_->layer(layer).predictor_out;
  float *hidden = call.work.hidden.floats(), *logits = call.work.logits.floats();
  call.backend.matmul(input, call.n_tokens, std::array{product(in, nullptr, hidden)});
  call.backend.gated_activation({Activation::kRelu}, hidden, nullptr, call.n_tokens * in.n_rows, hidden);
  call.backend.matmul(hidden, call.n_tokens, std::array{product(out, nullptr, logits)});
  call.backend.select_neurons(logits, nullptr, call.n_tokens, spec_.d_ff, mode_.predictor_threshold, set);
}

/// work.wanted = the neurons that the layer's predictor proposes.
void FfnPass::propose(const LayerCall& call, const float* input) {
  predict(call, call.layer, input, call.work.wanted);
}

/// The proposals of the second next hybrid layer's predictor for this layer's input. They are nearly those
/// for its own input, because the residual stream changes slowly from layer to layer. This leaves time to
/// copy the neurons: the CPU's share of the next layer and everything before it.
std::optional<Proposal> FfnPass::look_ahead(const LayerCall& call) {
  if (!looks_ahead_ || mode_.sparsity != Sparsity::kPredicted) return {};
  const HybridLayer* const next = layout_->next_hybrid(call.layer);
  const HybridLayer* const after = next == nullptr ? nullptr : layout_->next_hybrid(next->layer);
  if (after == nullptr || !after->has_cache()) return {};
  return Proposal{after->layer, call.work.proposed,
                  [this, &call] {  // small enough to need no heap allocation
                    const int layer = layout_->next_hybrid(layout_->next_hybrid(call.layer)->layer)->layer;
                    predict(call, layer, call.x, call.work.proposed);
                  }};
}

/// The predictor proposes neurons; the gate verifies the proposals.
void FfnPass::run_predicted(const LayerCall& call) {
  if (spec_.arch.predictor_input == PredictorInput::kResidual) propose(call, call.x);
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
    multiply_split(call, &FfnNeurons::gate, &FfnNeurons::gate_bias, gate);
  } else {
    backend.matmul(call.normed, call.n_tokens, std::array{product(ffn.gate, ffn.gate_bias, gate)});
  }
  backend.select_neurons(gate, nullptr, call.n_tokens, spec_.d_ff, least_passing_gate(spec_.activation),
                         work.truly_active);
  const NeuronSet& truly_active = backend.to_host(work.truly_active);
  const NeuronSet& wanted = call.backend.to_host(call.work.wanted);
  counts_.n_verified += call.n_tokens;
  counts_.truly_active += truly_active.count();
  counts_.truly_active_proposed += count_common(truly_active, wanted);
}

/// out [n_tokens, d_ff], in host memory = the products of a shared layer's input with one matrix of all its
/// neurons. The device multiplies the rows that only it has, the CPU multiplies the others. Waits for the
/// device.
void FfnPass::multiply_split(const LayerCall& call, const Matrix FfnNeurons::*weight,
                             const float* FfnNeurons::*bias, float* out) {
  const HybridLayer& layer = *call.neurons.hybrid;
  const int64_t n_on_device = layer.first_on_host, d_ff = spec_.d_ff, d_model = spec_.d_model;
  const auto n_tokens = static_cast<int64_t>(call.n_tokens);
  const auto n_input = static_cast<size_t>(n_tokens * d_model);
  const float* input = call.backend.to_host(call.normed, n_input);
  shared_input_.assign(input, input + n_input);
  if (n_on_device > 0) {
    // These neurons are hot, and the device rows of hot neurons are in neuron order.
    Matrix rows = layer.device.*weight;
    rows.n_rows = n_on_device;
    float* products = call.work.gate.floats();
    call.backend.matmul(call.normed, call.n_tokens, std::array{product(rows, layer.device.*bias, products)});
    const float* computed = call.backend.to_host(products, static_cast<size_t>(n_tokens * n_on_device));
    for (int64_t t = 0; t < n_tokens; ++t) {
      std::copy_n(computed + t * n_on_device, n_on_device, out + t * d_ff);
    }
  }
  Matrix rows = layer.host.*weight;
  rows.data = rows.row(n_on_device);
  rows.n_rows = d_ff - n_on_device;
  const float* const biases = layer.host.*bias;
  devices_.cpu().matmul(shared_input_.data(), call.n_tokens,
                        std::array{Product{.weight = rows,
                                           .bias = biases == nullptr ? nullptr : biases + n_on_device,
                                           .out = out + n_on_device,
                                           .out_stride = d_ff}});
}

/// Computes all values, and down only for neurons whose contribution, |value| times the norm of the down
/// column, reaches the threshold.
void FfnPass::run_calibrated(const LayerCall& call) {
  const float least = mode_.thresholds[static_cast<size_t>(call.layer)];
  if (call.neurons.hybrid != nullptr) {
    if (observer_) observe_shared(call);
    want_all(call);
    return add_wanted(call, nullptr, least);
  }
  compute_values(call);
  const float* values = call.work.gate.floats();
  if (observer_) {
    const size_t n = static_cast<size_t>(call.n_tokens) * static_cast<size_t>(spec_.d_ff);
    observer_(call.layer, call.backend.to_host(values, n), call.neurons.down_sizes, call.n_tokens);
  }
  call.backend.select_neurons(values, call.neurons.ffn.down_sizes, call.n_tokens, spec_.d_ff, least,
                              call.work.wanted);
  call.backend.down_neurons(call.neurons.ffn.down, values, call.n_tokens, call.work.wanted, call.out,
                            counts_.neurons);
}

/// Passes the values of a shared layer, which are spread over two memories, to the observer.
void FfnPass::observe_shared(const LayerCall& call) {
  const HybridLayer& layer = *call.neurons.hybrid;
  float *gate = on_cpu_.gate.floats(), *up = layer.host.up ? on_cpu_.up.floats() : nullptr;
  multiply_split(call, &FfnNeurons::gate, &FfnNeurons::gate_bias, gate);
  if (up != nullptr) multiply_split(call, &FfnNeurons::up, &FfnNeurons::up_bias, up);
  devices_.cpu().gated_activation(spec_.activation, gate, up, int64_t{call.n_tokens} * spec_.d_ff, gate);
  observer_(call.layer, gate, call.neurons.down_sizes, call.n_tokens);
}

}  // namespace hearth
