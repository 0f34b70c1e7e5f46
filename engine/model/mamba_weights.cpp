// See the header.
#include "engine/model/mamba_weights.h"

#include "engine/model/delta_weights.h"

namespace hearth {

DeltaWeights bind_mamba(Binder& bind, const ModelSpec& spec, const std::string& prefix) {
  const RecurrentShape& shape = spec.recurrent;
  const int64_t inner = shape.value_dim(), channels = shape.conv_dim();
  DeltaWeights w;
  // The rows of the gate, of the convolution's inputs, and of the time steps.
  const Linear in = bind.linear(prefix + "ssm_in", inner + channels + shape.n_v_heads, spec.d_model);
  w.z = rows_of(in, 0, inner);
  w.qkv = rows_of(in, inner, channels);
  w.alpha = rows_of(in, inner + channels, shape.n_v_heads);
  w.out = bind.linear(prefix + "ssm_out", spec.d_model, inner);
  w.taps = bind.turned_vectors(prefix + "ssm_conv1d.weight", channels, shape.n_taps);
  w.conv_bias = bind.optional_vector(prefix + "ssm_conv1d.bias", channels);
  w.dt = bind.vector(prefix + "ssm_dt.bias", shape.n_v_heads);
  w.a = bind_decays(bind, prefix + "ssm_a", shape.n_v_heads, 1);
  w.skip = bind.vectors(prefix + "ssm_d", shape.n_v_heads, 1);
  const std::string norm = prefix + "ssm_norm.weight";
  if (!spec.arch.norms_before_gate || bind.has(norm))
    w.norm = bind.vectors(norm, shape.n_k_heads, inner / shape.n_k_heads);
  return w;
}

}  // namespace hearth
