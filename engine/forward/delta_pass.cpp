// See the header.
#include "engine/forward/delta_pass.h"

#include <array>
#include <cmath>
#include <vector>

#include "engine/forward/layer_call.h"

namespace hearth {
namespace {

// Added to the squared lengths of queries and keys. It is the same in all models, whatever their norms add.
constexpr float kLengthEps = 1e-6f;

}  // namespace

DeltaWorkspace::DeltaWorkspace(Memory& memory, const ModelSpec& spec, int max_tokens) {
  const RecurrentShape& shape = spec.recurrent;
  if (shape.state_floats() == 0) return;
  raw = floats(memory, max_tokens, shape.conv_dim());
  for (Buffer* const buffer : {&q, &k}) *buffer = floats(memory, max_tokens, shape.key_dim());
  for (Buffer* const buffer : {&v, &z, &out}) *buffer = floats(memory, max_tokens, shape.value_dim());
  decay = floats(memory, max_tokens, shape.decay_dim());
  beta = floats(memory, max_tokens, shape.n_v_heads);
  for (Buffer* const buffer : {&short_z, &short_alpha})
    *buffer = floats(memory, shape.row_decays ? max_tokens : 0, shape.head_dim);
  for (Buffer* const buffer : {&q_scale, &k_scale}) *buffer = floats(memory, 1, shape.head_dim);
}

void DeltaWorkspace::fill_scales(Backend& backend, const RecurrentShape& shape) {
  const auto n = static_cast<float>(shape.head_dim);
  std::vector<float> scale(static_cast<size_t>(shape.head_dim), 1.0f / n);
  backend.from_host(scale.data(), scale.size(), q_scale.floats());
  scale.assign(scale.size(), 1.0f / std::sqrt(n));
  backend.from_host(scale.data(), scale.size(), k_scale.floats());
}

double DeltaWorkspace::bytes_needed(const RecurrentShape& shape, int max_tokens) {
  if (shape.state_floats() == 0) return 0.0;
  const double per_token =
      static_cast<double>(shape.conv_dim()) + 2.0 * static_cast<double>(shape.key_dim()) +
      3.0 * static_cast<double>(shape.value_dim()) + static_cast<double>(shape.decay_dim()) +
      shape.n_v_heads + (shape.row_decays ? 2.0 * shape.head_dim : 0.0);
  return sizeof(float) * (max_tokens * per_token + 2.0 * shape.head_dim);
}

namespace {

/// Computes the convolution's input, the gate z, the logits of beta, and alpha, for architectures with
/// Architecture::row_decays.
void project_short(Backend& backend, const RecurrentShape& shape, const DeltaWorkspace& work,
                   const RecurrentLayer& layer) {
  const DeltaWeights& weights = layer.weights.delta;
  const int n_tokens = layer.n_tokens;
  float *short_z = work.short_z.floats(), *short_alpha = work.short_alpha.floats();
  backend.matmul(layer.normed, n_tokens,
                 std::array{product(weights.short_z, short_z), product(weights.short_alpha, short_alpha),
                            product(weights.beta, work.beta.floats())});
  backend.matmul(short_z, n_tokens, std::array{product(weights.z, work.z.floats())});
  backend.matmul(short_alpha, n_tokens, std::array{product(weights.alpha, work.decay.floats())});
  float* const raw = work.raw.floats();
  if (weights.qkv.weight)
    return backend.matmul(layer.normed, n_tokens, std::array{product(weights.qkv, raw)});
  // The buffers for the convolution's results are free until then.
  backend.matmul(layer.normed, n_tokens,
                 std::array{product(weights.q, work.q.floats()), product(weights.k, work.k.floats()),
                            product(weights.v, work.v.floats())});
  const int64_t n = shape.key_dim(), width = shape.conv_dim();
  backend.copy_rows(work.q.floats(), n, n_tokens, n, raw, width);
  backend.copy_rows(work.k.floats(), n, n_tokens, n, raw + n, width);
  backend.copy_rows(work.v.floats(), n, n_tokens, n, raw + 2 * n, width);
}

}  // namespace

void run_delta_layer(Backend& backend, const ModelSpec& spec, const DeltaWorkspace& work,
                     const RecurrentLayer& layer) {
  const RecurrentShape& shape = spec.recurrent;
  const DeltaWeights& weights = layer.weights.delta;
  RecurrentOps& ops = *backend.recurrent();
  const int n_tokens = layer.n_tokens;
  float *q = work.q.floats(), *k = work.k.floats(), *v = work.v.floats(), *z = work.z.floats();
  float *decay = work.decay.floats(), *beta = work.beta.floats(), *out = work.out.floats();

  // 1. Project the layer's input to q, k and v (before their convolution), the gate z, and two numbers per
  //    value head.
  if (shape.row_decays) {
    project_short(backend, shape, work, layer);
  } else {
    backend.matmul(layer.normed, n_tokens,
                   std::array{product(weights.qkv, work.raw.floats()), product(weights.z, z),
                              product(weights.alpha, decay), product(weights.beta, beta)});
  }

  // 2. Convolve q, k and v over the last tokens; give each head of q and k its length.
  ops.causal_conv({.shape = shape,
                   .runs = layer.runs,
                   .copies = layer.tail_copies,
                   .raw = work.raw.floats(),
                   .taps = weights.taps,
                   .memory = layer.memory,
                   .out = {q, k, v}});
  const float eps = kLengthEps / static_cast<float>(shape.head_dim);
  const int64_t n_k_rows = int64_t{n_tokens} * shape.n_k_heads,
                n_v_rows = int64_t{n_tokens} * shape.n_v_heads;
  backend.rms_norm(q, work.q_scale.floats(), eps, n_k_rows, shape.head_dim, q);
  backend.rms_norm(k, work.k_scale.floats(), eps, n_k_rows, shape.head_dim, k);

  // 3. Update the states and read them.
  ops.delta_gates({.n_tokens = n_tokens,
                   .n_v_heads = static_cast<int>(shape.decay_dim()),
                   .alpha = decay,
                   .beta_logits = shape.row_decays ? nullptr : beta,
                   .dt = weights.dt,
                   .a = weights.a,
                   .decay = decay,
                   .beta = shape.row_decays ? out : beta});  // in `out`, steps that are not needed
  if (shape.row_decays)
    backend.gated_activation({Activation::kSigmoid}, beta, nullptr, int64_t{n_tokens} * shape.n_v_heads,
                             beta);
  ops.gated_delta({.shape = shape,
                   .runs = layer.runs,
                   .copies = layer.state_copies,
                   .q = q,
                   .k = k,
                   .v = v,
                   .decay = decay,
                   .beta = beta,
                   .memory = layer.memory,
                   .out = out});

  // 4. Norm each value head, multiply by the gate, project.
  backend.rms_norm(out, weights.norm, spec.norm_eps, n_v_rows, shape.head_dim, out);
  backend.gated_activation({spec.arch.delta_gate}, z, out, int64_t{n_tokens} * shape.value_dim(), out);
  backend.matmul(out, n_tokens, std::array{product(weights.out, layer.out, layer.accumulate)});
}

}  // namespace hearth
