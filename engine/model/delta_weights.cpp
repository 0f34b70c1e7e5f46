// Binds the tensors of recurrent layers. See the header.
#include "engine/model/delta_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace hearth {
namespace {

struct RowRange {
  int64_t begin = 0, n = 0;
};

/// Returns the rows of all ranges, one range after the other, as a matrix in a new buffer of `copies`.
Linear copied_rows(const Matrix& from, const std::vector<RowRange>& ranges,
                   std::vector<std::vector<std::byte>>& copies) {
  Matrix to{.dtype = from.dtype, .n_cols = from.n_cols};
  for (const RowRange& range : ranges) to.n_rows += range.n;
  std::vector<std::byte>& bytes = copies.emplace_back(to.bytes());
  size_t at = 0;
  for (const RowRange& range : ranges) {
    const size_t n = static_cast<size_t>(range.n) * from.stride_bytes();
    std::memcpy(bytes.data() + at, from.row(range.begin), n);
    at += n;
  }
  to.data = bytes.data();
  return {to, nullptr};
}

/// In ssm_in, each key head has rows for its q, its k, the v of its value heads and the z of its value heads.
void bind_packed_inputs(Binder& bind, const ModelSpec& spec, const std::string& name, DeltaWeights& w,
                        std::vector<std::vector<std::byte>>& copies) {
  const RecurrentShape& delta = spec.recurrent;
  const int64_t key = delta.head_dim, values = delta.value_dim() / delta.n_k_heads;
  const int64_t of_head = 2 * key + 2 * values;
  const Matrix all = bind.matrix(name, delta.n_k_heads * of_head, spec.d_model);
  std::vector<RowRange> qkv, z;
  const auto add = [&](std::vector<RowRange>& to, int64_t offset, int64_t n) {
    for (int64_t head = 0; head < delta.n_k_heads; ++head) to.push_back({head * of_head + offset, n});
  };
  add(qkv, 0, key);
  add(qkv, key, key);
  add(qkv, 2 * key, values);
  add(z, 2 * key + values, values);
  w.qkv = copied_rows(all, qkv, copies);
  w.z = copied_rows(all, z, copies);
}

/// In ssm_ba, each key head has rows for the beta and then for the alpha of its value heads.
void bind_packed_gates(Binder& bind, const ModelSpec& spec, const std::string& name, DeltaWeights& w,
                       std::vector<std::vector<std::byte>>& copies) {
  const RecurrentShape& delta = spec.recurrent;
  const int64_t n = delta.n_v_heads / delta.n_k_heads;
  const Matrix all = bind.matrix(name, 2 * delta.n_v_heads, spec.d_model);
  std::vector<RowRange> beta, alpha;
  for (int64_t head = 0; head < delta.n_k_heads; ++head) {
    beta.push_back({2 * n * head, n});
    alpha.push_back({2 * n * head + n, n});
  }
  w.beta = copied_rows(all, beta, copies);
  w.alpha = copied_rows(all, alpha, copies);
}

}  // namespace

/// A state is multiplied by exp(a * t) with t > 0 for each token, so a positive number would let it grow
/// without limit, and infinity times zero is not a number.
const float* bind_decays(Binder& bind, const std::string& name, int64_t n_rows, int64_t n_cols) {
  const float* a = bind.vectors(name, n_rows, n_cols);
  if (!std::all_of(a, a + n_rows * n_cols, [](float x) { return x <= 0.0f && std::isfinite(x); })) {
    bind.fail_tensor(name, " holds a number that is not zero or negative; the file is damaged");
  }
  return a;
}

DeltaWeights bind_delta(Binder& bind, const ModelSpec& spec, const std::string& prefix,
                        std::vector<std::vector<std::byte>>& copies) {
  const RecurrentShape& delta = spec.recurrent;
  DeltaWeights w;
  if (bind.has(prefix + "ssm_in.weight")) {
    bind_packed_inputs(bind, spec, prefix + "ssm_in.weight", w, copies);
  } else {
    w.qkv = bind.linear(prefix + "attn_qkv", delta.conv_dim(), spec.d_model);
    w.z = bind.linear(prefix + "attn_gate", delta.value_dim(), spec.d_model);
  }
  if (bind.has(prefix + "ssm_ba.weight")) {
    bind_packed_gates(bind, spec, prefix + "ssm_ba.weight", w, copies);
  } else {
    w.beta = bind.linear(prefix + "ssm_beta", delta.n_v_heads, spec.d_model);
    w.alpha = bind.linear(prefix + "ssm_alpha", delta.n_v_heads, spec.d_model);
  }
  w.out = bind.linear(prefix + "ssm_out", spec.d_model, delta.value_dim());
  w.taps = bind.turned_vectors(prefix + "ssm_conv1d.weight", delta.conv_dim(), delta.n_taps);
  // Ollama's files have the name without a suffix.
  const std::string dt = prefix + "ssm_dt";
  w.dt = bind.vector(bind.has(dt) ? dt : dt + ".bias", delta.n_v_heads);
  w.a = bind_decays(bind, prefix + "ssm_a", 1, delta.n_v_heads);
  w.norm = bind.vector(prefix + "ssm_norm.weight", delta.head_dim);
  return w;
}

DeltaWeights bind_kda(Binder& bind, const ModelSpec& spec, const std::string& prefix,
                      std::vector<std::vector<std::byte>>& copies) {
  const RecurrentShape& delta = spec.recurrent;
  const auto new_floats = [&](int64_t n) {
    return reinterpret_cast<float*>(copies.emplace_back(static_cast<size_t>(n) * sizeof(float)).data());
  };
  DeltaWeights w;
  if (bind.has(prefix + "attn_qkv.weight")) {
    w.qkv = bind.linear(prefix + "attn_qkv", delta.conv_dim(), spec.d_model);
  } else {
    w.q = bind.linear(prefix + "attn_q", delta.key_dim(), spec.d_model);
    w.k = bind.linear(prefix + "attn_k", delta.key_dim(), spec.d_model);
    w.v = bind.linear(prefix + "attn_v", delta.value_dim(), spec.d_model);
  }
  w.short_z = bind.linear(prefix + "ssm_g_a", delta.head_dim, spec.d_model);
  w.z = bind.linear(prefix + "ssm_g_b", delta.value_dim(), delta.head_dim);
  w.short_alpha = bind.linear(prefix + "ssm_f_a", delta.head_dim, spec.d_model);
  w.alpha = bind.linear(prefix + "ssm_f_b", delta.decay_dim(), delta.head_dim);
  w.beta = bind.linear(prefix + "ssm_beta", delta.n_v_heads, spec.d_model);
  w.out = bind.linear(prefix + "attn_output", spec.d_model, delta.value_dim());
  // The three convolutions are one over all channels.
  float* const taps = new_floats(delta.n_taps * delta.conv_dim());
  int64_t first = 0;
  for (const char* part : {"q", "k", "v"}) {
    const int64_t n = delta.key_dim();
    const float* of_part = bind.turned_vectors(prefix + "ssm_conv1d_" + part + ".weight", n, delta.n_taps);
    for (int tap = 0; tap < delta.n_taps; ++tap)
      std::copy_n(of_part + tap * n, n, taps + tap * delta.conv_dim() + first);
    first += n;
  }
  w.taps = taps;
  w.dt = bind.vector(prefix + "ssm_dt.bias", delta.decay_dim());
  // The file has a number for each head, which all rows of its state have.
  const float* of_heads = bind_decays(bind, prefix + "ssm_a", delta.n_v_heads, 1);
  float* const a = new_floats(delta.decay_dim());
  for (int64_t i = 0; i < delta.decay_dim(); ++i) a[i] = of_heads[i / delta.n_rows()];
  w.a = a;
  w.norm = bind.vector(prefix + "ssm_norm.weight", delta.head_dim);
  return w;
}

}  // namespace hearth
