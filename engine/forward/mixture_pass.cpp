// See the header.
#include "engine/forward/mixture_pass.h"

#include <array>
#include <cmath>

#include "engine/forward/dense_ffn.h"

namespace hearth {
namespace {

/// Whether the experts' sum is changed before it is added to the residual stream.
bool changes_sum(const ModelSpec& spec) {
  return spec.has_experts() && (spec.arch.mixture.beside_dense || spec.mixture.d_latent > 0);
}

/// Whether experts read other vectors than the layer's FFN.
bool has_input(const ModelSpec& spec) {
  return changes_sum(spec) || (spec.has_experts() && spec.arch.mixture.weighs_input);
}

/// The length of the vectors that experts read and write.
int expert_dim(const ModelSpec& spec) {
  return spec.mixture.d_latent > 0 ? spec.mixture.d_latent : spec.d_model;
}

}  // namespace

MixtureWorkspace::MixtureWorkspace(Memory& memory, const ModelSpec& spec, int max_tokens, bool on_device)
    : router(floats(memory, max_tokens, spec.mixture.n_experts)),
      input(floats(memory, has_input(spec) ? max_tokens : 0, spec.d_model)),
      sum(floats(memory, changes_sum(spec) ? max_tokens : 0, spec.d_model)) {
  if (!on_device || !spec.arch.mixture.shared_has_gate) return;
  shared_logits = floats(memory, max_tokens, 1);
  shared_rows = floats(memory, max_tokens, spec.d_model);
}

MixtureWorkspace MixtureWorkspace::view() const {
  MixtureWorkspace out;
  out.router = view_of(router);
  out.input = view_of(input);
  out.sum = view_of(sum);
  out.shared_logits = view_of(shared_logits);
  out.shared_rows = view_of(shared_rows);
  return out;
}

MixturePass::MixturePass(const Devices& devices, const ModelSpec& spec, const Weights& weights,
                         int max_tokens, const MixturePass* lender)
    : devices_(devices),
      spec_(spec),
      weights_(weights),
      on_cpu_(lender != nullptr ? lender->on_cpu_.view()
                                : MixtureWorkspace(devices_.cpu(), spec, max_tokens)),
      mixed_(lender != nullptr ? view_of(lender->mixed_)
                               : floats(devices_.cpu(), spec.has_experts() ? max_tokens : 0, spec.d_model)) {
  if (spec.has_experts() && spec.arch.mixture.weighs_input)
    ones_.assign(static_cast<size_t>(max_tokens) * static_cast<size_t>(spec.mixture.n_used), 1.0f);
  if (devices.device() != nullptr)
    on_device_ = lender != nullptr
                     ? lender->on_device_.view()
                     : MixtureWorkspace(devices.device()->backend(), spec, max_tokens, /*on_device=*/true);
}

double MixturePass::bytes_needed(const ModelSpec& spec, int max_tokens) {
  const int n_rows = (spec.has_experts() ? 1 : 0) + (has_input(spec) ? 1 : 0) + (changes_sum(spec) ? 1 : 0);
  const double per_token = static_cast<double>(spec.mixture.n_experts) + 1.0 * n_rows * spec.d_model;
  return sizeof(float) * per_token * max_tokens;
}

void MixturePass::use(const ExpertLayout* experts) {
  experts_ = experts == nullptr || experts->empty() ? nullptr : experts;
}

void MixturePass::before_attention(const LayerCall& call, const float* x) {
  if (spec_.arch.mixture.reads_layer_input) compute_router(call, x);
}

void MixturePass::run(const LayerCall& call, FfnObservers& observers, ExpertCounts& counts) {
  if (spec_.arch.mixture.beside_dense) return run_beside_dense(call, observers, counts);
  if (spec_.mixture.d_latent > 0) return run_latent(call, observers, counts);
  if (!spec_.arch.mixture.reads_layer_input) compute_router(call, call.normed);
  run_experts(call, call, observers, counts);
}

/// Adds norm(dense FFN) + norm(experts) to call.out. The router and the experts read the residual stream
/// through norms of their own. REQUIRES: call.out is zero and not the residual stream.
void MixturePass::run_beside_dense(const LayerCall& call, FfnObservers& observers, ExpertCounts& counts) {
  const MixtureWeights& mixture = weights_.layers[static_cast<size_t>(call.layer)].mixture;
  const int d = spec_.d_model;
  const int64_t n = int64_t{call.n_tokens} * d;
  float *input = work_of(call).input.floats(), *sum = work_of(call).sum.floats();
  const auto norm = [&](const float* x, const float* weights, float* out) {
    call.backend.rms_norm(x, weights, spec_.norm_eps, call.n_tokens, d, out);
  };
  norm(call.x, mixture.router_norm, input);
  compute_router(call, input);
  call.backend.scale(1.0f / std::sqrt(static_cast<float>(d)),
                     int64_t{call.n_tokens} * spec_.mixture.n_experts, logits_of(call));
  norm(call.x, mixture.experts_norm, input);
  call.backend.zero(n, sum);
  LayerCall experts = call;
  experts.normed = input;
  experts.out = sum;
  run_experts(experts, call, observers, counts);
  norm(sum, mixture.experts_post_norm, sum);
  call.backend.add(sum, n, call.out);
}

/// Adds to call.out the result of experts that read and write shorter vectors. The router and the shared
/// expert read the layer's own.
void MixturePass::run_latent(const LayerCall& call, FfnObservers& observers, ExpertCounts& counts) {
  const MixtureWeights& mixture = weights_.layers[static_cast<size_t>(call.layer)].mixture;
  float *input = work_of(call).input.floats(), *sum = work_of(call).sum.floats();
  compute_router(call, call.normed);
  call.backend.matmul(call.normed, call.n_tokens, std::array{product(mixture.latent_in, input)});
  call.backend.zero(int64_t{call.n_tokens} * spec_.mixture.d_latent, sum);
  LayerCall experts = call;
  experts.normed = input;
  experts.out = sum;
  run_experts(experts, call, observers, counts);
  call.backend.matmul(sum, call.n_tokens,
                      std::array{product(mixture.latent_out, call.out, /*accumulate=*/true)});
}

/// Adds to call.out the result of the experts that the logits choose. Meanwhile, runs the shared expert or
/// the dense FFN with the call `beside`.
void MixturePass::run_experts(const LayerCall& call, const LayerCall& beside, FfnObservers& observers,
                              ExpertCounts& counts) {
  if (is_shared(call)) return run_on_both(call, beside, observers, counts);
  Backend& cpu = devices_.cpu();
  const auto n_tokens = static_cast<size_t>(call.n_tokens);
  const size_t n_out = n_tokens * static_cast<size_t>(expert_dim(spec_));
  const Router router = router_of(call.layer);
  // 1. The device hands the logits and the input over to the CPU, and continues with the shared expert. The
  //    CPU only waits now, but expect_work() prepares its threads for the work that follows.
  if (&call.backend != &cpu) cpu.expect_work();
  const Backend::HandedOver given = call.backend.hand_over(
      {logits_of(call), n_tokens * static_cast<size_t>(router.n_experts)}, {call.normed, n_out});
  run_beside(beside, observers);
  call.backend.wait_for_hand_over();
  // 2. The CPU chooses and computes experts.
  const ExpertChoice choice = cpu.route(given.first, call.n_tokens, router);
  observers.report_choice(call.layer, choice);
  compute_experts(call.layer, given.second, choice, counts);
  // 3. The sum joins the residual stream, or the vectors that are normed before they join it.
  call.backend.add_from_host(mixed_.floats(), static_cast<int64_t>(n_out), call.out);
}

/// Adds to call.out the result of the shared expert, or of the dense FFN beside the experts. REQUIRES: if the
/// dense FFN's result has a norm of its own, call.out is zero.
void MixturePass::run_beside(const LayerCall& call, FfnObservers& observers) {
  if (!call.neurons.dense_down.weight) return;
  run_dense_ffn(call, observers);
  const float* const norm = weights_.layers[static_cast<size_t>(call.layer)].mixture.dense_post_norm;
  if (norm == nullptr) return;
  call.backend.rms_norm(call.out, norm, spec_.norm_eps, call.n_tokens, spec_.d_model, call.out);
}

/// Returns the rows of x, each multiplied by the weight of its token's only expert.
const float* MixturePass::weighted(const float* x, const ExpertChoice& choice) {
  Backend& cpu = devices_.cpu();
  float* const out = on_cpu_.input.floats();
  cpu.copy(x, int64_t{choice.n_tokens} * spec_.d_model, out);
  cpu.scale_rows(choice.weights, choice.n_tokens, spec_.d_model, out);
  return out;
}

/// Returns the choice with weights of 1.
ExpertChoice MixturePass::unweighted(const ExpertChoice& choice) {
  ExpertChoice out = choice;
  out.weights = ones_.data();
  return out;
}

/// Whether a device and the CPU share the layer's experts.
bool MixturePass::is_shared(const LayerCall& call) const {
  if (&call.backend == &devices_.cpu() || on_device_experts_.empty()) return false;
  return on_device_experts_[static_cast<size_t>(call.layer)].n_slots > 0;
}

/// The layer's experts in host memory, with down columns if zeros are skipped.
std::span<const Expert> MixturePass::host_experts(int layer) const {
  if (experts_ != nullptr) return experts_->experts(layer);
  return weights_.layers[static_cast<size_t>(layer)].mixture.experts;
}

HybridExpertLayer MixturePass::shared_layer(int layer) const {
  return {.layer = layer,
          .host = host_experts(layer),
          .device = &on_device_experts_[static_cast<size_t>(layer)],
          .host_pinned = host_pinned_,
          .activation = spec_.expert_activation_of(layer)};
}

/// The device computes the experts that it holds and the shared expert; the CPU computes the missing experts.
void MixturePass::run_on_both(const LayerCall& call, const LayerCall& beside, FfnObservers& observers,
                              ExpertCounts& counts) {
  HybridExperts& both = *devices_.device()->hybrid_experts();
  Router router = router_of(call.layer);
  const DeviceExperts& on_device = on_device_experts_[static_cast<size_t>(call.layer)];
  router.choice_bias = on_device.choice_bias;
  router.weight_scales = on_device.weight_scales;
  const HybridExpertLayer layer = shared_layer(call.layer);
  if (!layer.all_resident()) devices_.cpu().expect_work();
  both.begin(layer, {.x = call.normed,
                     .logits = logits_of(call),
                     .router = router,
                     .n_tokens = call.n_tokens,
                     .out = call.out,
                     .weighted_x = spec_.arch.mixture.weighs_input ? work_of(call).input.floats() : nullptr,
                     .wants_choice = observers.wants_choices()});
  run_beside(beside, observers);
  const GatedSharedExpert shared = run_gated_expert(call);
  const ExpertChoice choice = both.wait();
  const bool verifies = verifier_ != nullptr && verifier_->verifies_step();
  if (verifies) verifier_->copy_inputs(call, logits_of(call));
  both.end(shared, counts);
  if (verifies) compute_again(call);
  if (choice.n_tokens > 0) observers.report_choice(call.layer, choice);
}

/// Computes the mixture on the CPU alone, and compares the result with that of run_on_both().
void MixturePass::compute_again(const LayerCall& call) {
  const MixtureVerifier::Inputs in = verifier_->inputs();
  ExpertCounts not_counted;
  compute_experts(call.layer, in.x, devices_.cpu().route(in.logits, in.n_tokens, router_of(call.layer)),
                  not_counted);
  verifier_->compare(call, mixed_.floats());
}

/// Computes the shared expert on the device if a gate weights it.
GatedSharedExpert MixturePass::run_gated_expert(const LayerCall& call) {
  const DeviceExperts& experts = on_device_experts_[static_cast<size_t>(call.layer)];
  const Expert& shared = experts.shared;
  if (!shared.up) return {};
  const bool gated = static_cast<bool>(shared.gate);
  float *logits = on_device_.shared_logits.floats(), *rows = on_device_.shared_rows.floats();
  call.backend.matmul(call.normed, call.n_tokens,
                      std::array{product({experts.shared_gate, nullptr}, logits)});
  compute_values(
      call,
      {.gate = gated ? shared.gate : shared.up,
       .up = gated ? shared.up : Matrix(),
       .gate_bias = gated ? shared.gate_bias : shared.up_bias,
       .up_bias = gated ? shared.up_bias : nullptr,
       .down = {},
       .activation = weights_.layers[static_cast<size_t>(call.layer)].activation.value_or(spec_.activation)});
  call.backend.matmul(call.work.gate.floats(), call.n_tokens,
                      std::array{product({shared.down, shared.down_bias}, rows)});
  return {logits, rows};
}

/// logits_of(call) = the router's logits for x.
void MixturePass::compute_router(const LayerCall& call, const float* x) {
  const Linear& router = weights_.layers[static_cast<size_t>(call.layer)].mixture.router;
  call.backend.matmul(x, call.n_tokens, std::array{product(router, logits_of(call))});
}

/// The buffers in the memory of the call's backend.
const MixtureWorkspace& MixturePass::work_of(const LayerCall& call) const {
  return &call.backend == &devices_.cpu() ? on_cpu_ : on_device_;
}

/// The parameters with which a layer's router chooses experts.
Router MixturePass::router_of(int layer) const {
  const MixtureSpec& mixture = spec_.mixture;
  return {.n_experts = mixture.n_experts,
          .n_used = mixture.n_used,
          .score = mixture.score,
          .choice_bias = weights_.layers[static_cast<size_t>(layer)].mixture.choice_bias,
          .n_groups = mixture.n_groups,
          .n_groups_used = mixture.n_groups_used,
          .group_by_best = spec_.arch.mixture.group_by_best && spec_.mixture.score == RouterScore::kSoftmax,
          .renormalize = mixture.renormalize,
          .scale = mixture.scale,
          .weight_scales = weights_.layers[static_cast<size_t>(layer)].mixture.weight_scales};
}

/// Sets mixed_ to the result of the chosen experts for x [choice.n_tokens, d_model], plus that of the shared
/// expert if a gate weights it. Runs on the CPU. The choice is not valid afterward.
void MixturePass::compute_experts(int layer, const float* x, const ExpertChoice& choice,
                                  ExpertCounts& counts) {
  const MixtureWeights& mixture = weights_.layers[static_cast<size_t>(layer)].mixture;
  Backend& cpu = devices_.cpu();
  const int n_tokens = choice.n_tokens;
  cpu.zero(int64_t{n_tokens} * expert_dim(spec_), mixed_.floats());
  const bool weighs_input = spec_.arch.mixture.weighs_input;
  cpu.experts(host_experts(layer), spec_.expert_activation_of(layer), weighs_input ? weighted(x, choice) : x,
              weighs_input ? unweighted(choice) : choice, mixed_.floats(), counts);
  if (mixture.shared.empty()) return;
  // The gate of the shared expert acts as the router of a mixture with one expert that every token uses.
  const Router gate{.n_experts = 1, .n_used = 1, .score = RouterScore::kSigmoid};
  float* logits = on_cpu_.router.floats();
  cpu.matmul(x, n_tokens, std::array{product(mixture.shared_gate, logits)});
  const ExpertChoice all = cpu.route(logits, n_tokens, gate);
  const FfnActivation activation =
      weights_.layers[static_cast<size_t>(layer)].activation.value_or(spec_.activation);
  cpu.experts(experts_ != nullptr ? experts_->shared(layer) : mixture.shared, activation, x, all,
              mixed_.floats(), counts);
}

}  // namespace hearth
