// See the header.
#include "engine/forward/mamba_pass.h"

#include <array>

#include "engine/forward/layer_call.h"

namespace hearth {

void run_mamba_layer(Backend& backend, const ModelSpec& spec, const DeltaWorkspace& work,
                     const RecurrentLayer& layer) {
  const RecurrentShape& shape = spec.recurrent;
  const DeltaWeights& weights = layer.weights.delta;
  RecurrentOps& ops = *backend.recurrent();
  const int n_tokens = layer.n_tokens;
  float *c = work.q.floats(), *b = work.k.floats(), *x = work.v.floats(), *z = work.z.floats();
  float *decay = work.decay.floats(), *steps = work.beta.floats(), *out = work.out.floats();

  // 1. Project the layer's input to x, B and C (before their convolution), the gate z, and a number per head.
  backend.matmul(layer.normed, n_tokens,
                 std::array{product(weights.qkv, work.raw.floats()), product(weights.z, z),
                            product(weights.alpha, decay)});

  // 2. Convolve x, B and C over the last tokens.
  ops.causal_conv({.shape = shape,
                   .runs = layer.runs,
                   .copies = layer.tail_copies,
                   .raw = work.raw.floats(),
                   .taps = weights.taps,
                   .memory = layer.memory,
                   .out = {x, b, c},
                   .bias = weights.conv_bias});

  // 3. Update the states and read them.
  ops.delta_gates({.n_tokens = n_tokens,
                   .n_v_heads = shape.n_v_heads,
                   .alpha = decay,
                   .beta_logits = nullptr,
                   .dt = weights.dt,
                   .a = weights.a,
                   .decay = decay,
                   .beta = steps});
  ops.selective_scan({.state = {.shape = shape,
                                .runs = layer.runs,
                                .copies = layer.state_copies,
                                .q = c,
                                .k = b,
                                .v = x,
                                .decay = decay,
                                .beta = steps,
                                .memory = layer.memory,
                                .out = out},
                      .skip = weights.skip});

  // 4. Multiply by the gate, norm the heads of each group together (or the other way round), project.
  const auto gate = [&] {
    backend.gated_activation({Activation::kSilu}, z, out, int64_t{n_tokens} * shape.value_dim(), out);
  };
  const int n_groups = shape.n_k_heads;
  if (!spec.arch.norms_before_gate) gate();
  if (weights.norm != nullptr) {
    backend.rms_norm(out, weights.norm, spec.norm_eps, int64_t{n_tokens} * n_groups,
                     shape.value_dim() / n_groups, out, n_groups);
  }
  if (spec.arch.norms_before_gate) gate();
  backend.matmul(out, n_tokens, std::array{product(weights.out, layer.out, layer.accumulate)});
}

}  // namespace hearth
