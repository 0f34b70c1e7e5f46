// Binds a file's tensors to the roles of an architecture. Tensors are found by the names that GGUF files use.
#include "engine/model/weights.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/binder.h"
#include "engine/model/delta_weights.h"
#include "engine/model/head_weights.h"
#include "engine/model/indexer_weights.h"
#include "engine/model/mamba_weights.h"
#include "engine/model/nextn_weights.h"
#include "kernels/quant/dequantize.h"

namespace hearth {
namespace {

/// Binds the norms of a layer. In parallel layers, attention and the FFN may share the norm attn_norm, or
/// each may have its own. If each has its own, the names are attn_norm_2 (attention) and attn_norm (FFN) in
/// Falcon's files, and attn_norm (attention) and ffn_norm (FFN) in GPT-NeoX's files.
void bind_norms(Binder& bind, const ModelSpec& spec, int layer, const std::string& prefix, LayerWeights& w) {
  const Architecture& arch = spec.arch;
  const auto norm = [&](std::string_view stem) {
    return bind.norm(prefix + std::string(stem), spec.d_model, arch);
  };
  if (arch.one_block) {
    (spec.layer(layer).mixes ? w.attention_norm : w.ffn_norm) = norm("attn_norm");
    return;
  }
  if (arch.norms == NormPlace::kSum) {
    w.attention_post_norm = norm("attn_output_norm");
    w.ffn_post_norm = norm("layer_output_norm");
    return;
  }
  if (arch.norms != NormPlace::kAfter) {
    const bool has_norm = !arch.first_norm_optional || layer > 0 || bind.has(prefix + "attn_norm.weight");
    if (has_norm) w.attention_norm = norm("attn_norm");
    if (!arch.parallel_attention || bind.has(prefix + std::string(arch.ffn_norm) + ".weight")) {
      w.ffn_norm = norm(arch.ffn_norm);
    } else if (bind.has(prefix + "attn_norm_2.weight")) {
      w.ffn_norm = std::exchange(w.attention_norm, norm("attn_norm_2"));
    }
  }
  if (arch.norms == NormPlace::kBefore) return;
  w.attention_post_norm = norm("post_attention_norm");
  w.ffn_post_norm = norm("post_ffw_norm");
}

/// Binds q, k and v, which are separate tensors or stacked in attn_qkv.
void bind_qkv(Binder& bind, const ModelSpec& spec, int layer, const std::string& prefix, LayerWeights& w) {
  const bool bias = spec.arch.qkv_bias;
  const int64_t q_rows = spec.projected_q_dim(layer), kv_rows = spec.kv_dim(layer);
  const int64_t v_rows = spec.value_dim(layer);
  if (!bind.has(prefix + "attn_qkv.weight")) {
    w.q = bind.linear(prefix + "attn_q", q_rows, spec.d_model, bias);
    // Converters keep the keys and values of layers that read those of others.
    if (!spec.has_own_kv(layer)) return bind.pass_over(prefix, {"attn_k.", "attn_v.", "attn_k_norm."});
    w.k = bind.linear(prefix + "attn_k", kv_rows, spec.d_model, bias);
    if (spec.arch.value_from_key && !bind.has(prefix + "attn_v.weight")) return;
    w.v = bind.linear(prefix + "attn_v", v_rows, spec.d_model, bias);
    return;
  }
  const Linear all = bind.linear(prefix + "attn_qkv", q_rows + kv_rows + v_rows, spec.d_model, bias);
  w.q = rows_of(all, 0, q_rows);
  if (!spec.has_own_kv(layer)) return bind.pass_over(prefix, {"attn_k_norm."});
  w.k = rows_of(all, q_rows, kv_rows);
  w.v = rows_of(all, q_rows + kv_rows, v_rows);
}

/// Transposes the keys of one head: rows [d_nope, kv_rank] of `both` become [kv_rank, d_nope].
void turn_keys(const Matrix& both, int64_t first_row, const LatentSpec& latent, float* to) {
  std::vector<float> row(static_cast<size_t>(latent.kv_rank));
  for (int64_t n = 0; n < latent.d_nope; ++n) {
    dequantize_row(both.dtype, both.row(first_row + n), latent.kv_rank, row.data());
    for (int64_t l = 0; l < latent.kv_rank; ++l) to[l * latent.d_nope + n] = row[static_cast<size_t>(l)];
  }
}

/// In files from before April 2025, one matrix has the key and value rows of each head. The keys are
/// transposed here, once; the values are read in place.
void bind_older_latent(Binder& bind, const ModelSpec& spec, const std::string& prefix, LatentWeights& w,
                       std::vector<float>& turned) {
  const LatentSpec& latent = spec.latent;
  const int64_t apart = latent.d_nope + latent.d_value;
  const int64_t of_head = int64_t{latent.kv_rank} * latent.d_nope;
  const Matrix both = bind.matrix(prefix + "attn_kv_b.weight", spec.n_heads * apart, latent.kv_rank);
  turned.resize(static_cast<size_t>(spec.n_heads * of_head));
  for (int64_t h = 0; h < spec.n_heads; ++h) turn_keys(both, h * apart, latent, turned.data() + h * of_head);
  w.keys = {reinterpret_cast<const std::byte*>(turned.data()), DType::kF32,
            int64_t{spec.n_heads} * latent.kv_rank, latent.d_nope};
  w.values = both;
  w.first_value = latent.d_nope;
  w.rows_apart = apart;
}

void bind_latent(Binder& bind, const ModelSpec& spec, const std::string& prefix, LayerWeights& w,
                 std::vector<float>& turned) {
  const LatentSpec& latent = spec.latent;
  LatentWeights& l = w.latent;
  if (latent.q_rank > 0) {
    l.q_a = bind.linear(prefix + "attn_q_a", latent.q_rank, spec.d_model);
    l.q_a_norm = bind.vector(prefix + "attn_q_a_norm.weight", latent.q_rank);
    w.q = bind.linear(prefix + "attn_q_b", spec.projected_q_dim(), latent.q_rank);
  } else {
    w.q = bind.linear(prefix + "attn_q", spec.projected_q_dim(), spec.d_model);
  }
  l.kv_a = bind.linear(prefix + "attn_kv_a_mqa", latent.kv_rank + latent.d_rope, spec.d_model);
  l.kv_a_norm = bind.vector(prefix + "attn_kv_a_norm.weight", latent.kv_rank);
  if (bind.has(prefix + "attn_kv_b.weight")) return bind_older_latent(bind, spec, prefix, l, turned);
  l.keys = bind.matrices(prefix + "attn_k_b.weight", spec.n_heads, latent.kv_rank, latent.d_nope);
  l.values = bind.matrices(prefix + "attn_v_b.weight", spec.n_heads, latent.d_value, latent.kv_rank);
  l.rows_apart = latent.d_value;
}

void bind_qk_norms(Binder& bind, const ModelSpec& spec, int layer, const std::string& prefix,
                   LayerWeights& w) {
  const std::string q = prefix + "attn_q_norm.weight", k = prefix + "attn_k_norm.weight";
  if (!spec.norms_qk(layer) || spec.arch.qk_norm_plain || (spec.arch.qk_norm_optional && !bind.has(q)))
    return;
  const NormShape of_q = spec.qk_norm_shape(spec.heads_of(layer), layer);
  const NormShape of_k = spec.qk_norm_shape(spec.kv_heads_of(layer), layer);
  w.q_norm = bind.vectors(q, of_q.n_rows, of_q.n_cols);
  if (spec.has_own_kv(layer)) w.k_norm = bind.vectors(k, of_k.n_rows, of_k.n_cols);
}

/// Binds gate and up of width d_ff, which are separate tensors or stacked in ffn_up.
void bind_gate_and_up(Binder& bind, const ModelSpec& spec, const std::string& prefix,
                      const std::string& suffix, int64_t d_ff, LayerWeights& w) {
  const std::string gate = prefix + "ffn_gate" + suffix, up = prefix + "ffn_up" + suffix;
  const bool in_one = spec.gated && !bind.has(gate + ".weight") && bind.has(up + ".weight") &&
                      bind.rows_of(up + ".weight") == 2 * d_ff;
  if (!in_one) {
    if (spec.gated) w.gate = bind.linear(gate, d_ff, spec.d_model);
    w.up = bind.linear(up, d_ff, spec.d_model);
    return;
  }
  const Linear both = bind.linear(up, 2 * d_ff, spec.d_model);
  w.gate = rows_of(both, 0, d_ff);
  w.up = rows_of(both, d_ff, d_ff);
}

/// Returns one matrix of each expert. The experts' matrices are stacked in one tensor, or are separate
/// tensors in files from before 2024-04.
std::vector<Linear> bind_expert_linears(Binder& bind, const ModelSpec& spec, const std::string& stem,
                                        int64_t n_rows, int64_t n_cols) {
  const int64_t n = spec.mixture.n_experts;
  std::vector<Linear> linears;
  if (!bind.has(stem + "_exps.weight") && bind.has(stem + ".0.weight")) {
    for (int64_t e = 0; e < n; ++e) {
      linears.push_back(bind.linear(stem + "." + std::to_string(e), n_rows, n_cols));
    }
    return linears;
  }
  const Matrix all = bind.matrices(stem + "_exps.weight", n, n_rows, n_cols);
  const float* bias = bind.optional_vectors(stem + "_exps.bias", n, n_rows);
  for (int64_t e = 0; e < n; ++e) linears.push_back(rows_of({all, bias}, e * n_rows, n_rows));
  return linears;
}

void bind_experts(Binder& bind, const ModelSpec& spec, const std::string& prefix, MixtureWeights& w) {
  const MixtureSpec& mixture = spec.mixture;
  w.router = bind.linear(prefix + "ffn_gate_inp", mixture.n_experts, spec.d_model);
  w.choice_bias = bind.optional_vector(prefix + "exp_probs_b.bias", mixture.n_experts);
  const int64_t width = mixture.d_expert;
  const int64_t d = mixture.d_latent > 0 ? mixture.d_latent : spec.d_model;
  if (mixture.d_latent > 0) {
    w.latent_in = bind.linear(prefix + "ffn_latent_down", d, spec.d_model);
    w.latent_out = bind.linear(prefix + "ffn_latent_up", spec.d_model, d);
  }
  std::vector<Linear> gate, up;
  const std::string both = prefix + "ffn_gate_up";
  if (spec.gated && bind.has(both + "_exps.weight")) {
    for (const Linear& one : bind_expert_linears(bind, spec, both, 2 * width, d)) {
      gate.push_back(rows_of(one, 0, width));
      up.push_back(rows_of(one, width, width));
    }
  } else {
    if (spec.gated) gate = bind_expert_linears(bind, spec, prefix + "ffn_gate", width, d);
    up = bind_expert_linears(bind, spec, prefix + "ffn_up", width, d);
  }
  const std::vector<Linear> down = bind_expert_linears(bind, spec, prefix + "ffn_down", d, width);
  for (size_t e = 0; e < up.size(); ++e) {
    const Linear gate_of_e = spec.gated ? gate[e] : Linear{};
    w.experts.push_back({.gate = gate_of_e.weight,
                         .up = up[e].weight,
                         .down = down[e].weight,
                         .gate_bias = gate_of_e.bias,
                         .up_bias = up[e].bias,
                         .down_bias = down[e].bias});
  }
}

/// Binds what experts beside a dense FFN have besides their matrices.
void bind_beside_dense(Binder& bind, const ModelSpec& spec, const std::string& prefix, MixtureWeights& w) {
  w.weight_scales = bind.vector(prefix + "ffn_down_exps.scale", spec.mixture.n_experts);
  w.router_norm = bind.vector(prefix + "ffn_gate_inp.scale", spec.d_model);
  w.experts_norm = bind.vector(prefix + "pre_ffw_norm_2.weight", spec.d_model);
  w.experts_post_norm = bind.vector(prefix + "post_ffw_norm_2.weight", spec.d_model);
  w.dense_post_norm = bind.vector(prefix + "post_ffw_norm_1.weight", spec.d_model);
}

/// Binds the shared expert. If the architecture weights it by a gate, it becomes w.mixture.shared. Otherwise
/// it becomes the layer's own FFN.
void bind_shared_expert(Binder& bind, const ModelSpec& spec, const std::string& prefix, LayerWeights& w) {
  if (spec.mixture.d_shared == 0) return;
  bind_gate_and_up(bind, spec, prefix, "_shexp", spec.mixture.d_shared, w);
  w.down = bind.linear(prefix + "ffn_down_shexp", spec.d_model, spec.mixture.d_shared);
  if (!spec.arch.mixture.shared_has_gate) return;
  w.mixture.shared_gate = bind.linear(prefix + "ffn_gate_inp_shexp", 1, spec.d_model);
  w.mixture.shared.push_back({.gate = w.gate.weight,
                              .up = w.up.weight,
                              .down = w.down.weight,
                              .gate_bias = w.gate.bias,
                              .up_bias = w.up.bias,
                              .down_bias = w.down.bias});
  w.gate = w.up = w.down = {};
}

/// In PowerInfer's files, the down projection is transposed: it has one row per neuron. Binds these rows, and
/// the layer's predictor if it has one.
void bind_powerinfer(Binder& bind, const ModelSpec& spec, const std::string& prefix, LayerWeights& w) {
  w.down_rows = {bind.matrix(prefix + "ffn_down_t.weight", spec.d_ff, spec.d_model),
                 bind.optional_vector(prefix + "ffn_down_t.bias", spec.d_model)};
  const std::string in = prefix + "fc1.weight", out = prefix + "fc2.weight";
  if (!bind.has(in) && !bind.has(out)) return;
  const int64_t rank = bind.rows_of(in);
  // The scratch buffers are large enough only for predictors that are at most as wide as the FFN. A wider
  // predictor would save nothing.
  if (rank > spec.d_ff) {
    bind.fail_tensor(in, " has " + std::to_string(rank) +
                             " rows, expected a rank of at most the FFN's width, " +
                             std::to_string(spec.d_ff) + "; the file is damaged");
  }
  w.predictor_in = bind.matrix(in, rank, spec.d_model);
  w.predictor_out = bind.matrix(out, spec.d_ff, rank);
}

ShortConvWeights bind_short_conv(Binder& bind, const ModelSpec& spec, const std::string& prefix) {
  const int64_t d = spec.d_model;
  const Linear all = bind.linear(prefix + "in_proj", 3 * d, d);
  return {.input_gate = rows_of(all, 0, d),
          .output_gate = rows_of(all, d, d),
          .input = rows_of(all, 2 * d, d),
          .out = bind.linear(prefix + "out_proj", d, d),
          .taps = bind.turned_vectors(prefix + "conv.weight", d, spec.recurrent.n_taps)};
}

/// Binds the gate of attention's output, which has a row for each element or for each head.
void bind_attention_gate(Binder& bind, const ModelSpec& spec, int layer, const std::string& prefix,
                         LayerWeights& w) {
  const std::string name = prefix + "attn_gate";
  const bool of_heads = bind.has(name + ".weight") && bind.rows_of(name + ".weight") == spec.heads_of(layer);
  w.attention_gate =
      bind.linear(name, of_heads ? spec.heads_of(layer) : spec.attended_dim(layer), spec.d_model);
}

/// turned_keys: where to store a layer's transposed keys, for older files with latent attention.
void bind_attention(Binder& bind, const ModelSpec& spec, int layer, const std::string& prefix,
                    LayerWeights& w, std::vector<float>& turned_keys) {
  if (spec.latent) {
    bind_latent(bind, spec, prefix, w, turned_keys);
    w.indexer = bind_indexer(bind, spec, spec.layer(layer).indexes, prefix);
  } else {
    bind_qkv(bind, spec, layer, prefix, w);
    bind_qk_norms(bind, spec, layer, prefix, w);
  }
  if (spec.arch.sinks || (spec.arch.sinks_in_windows && spec.layer(layer).window > 0))
    w.sinks = bind.vector(prefix + "attn_sinks.weight", spec.heads_of(layer));
  if (spec.arch.attention_gate) bind_attention_gate(bind, spec, layer, prefix, w);
  w.attention_out = bind.linear(prefix + "attn_output", spec.d_model, spec.attended_dim(layer));
}

Matrix matrix_of(const float* rows, int64_t n_rows, int64_t n_cols) {
  return {reinterpret_cast<const std::byte*>(rows), DType::kF32, n_rows, n_cols};
}

void bind_streams(Binder& bind, const ModelSpec& spec, const std::string& prefix, LayerWeights& w) {
  const int64_t n = spec.n_streams, d = spec.d_model;
  w.streams = {.router = bind.linear(prefix + "altup_router", n, d),
               .router_norm = bind.vector(prefix + "altup_router_norm.weight", d),
               .predict = {matrix_of(bind.vectors(prefix + "altup_predict_coef.weight", n * n, n), n * n, n)},
               .correct = {matrix_of(bind.vectors(prefix + "altup_correct_coef.weight", n, n), n, n)},
               .correct_scale = bind.vector(prefix + "altup_correct_scale.weight", d)};
  const int64_t rank = bind.rows_of(prefix + "laurel_l.weight");
  if (rank > d) {
    bind.fail_tensor(prefix + "laurel_l.weight", " has " + std::to_string(rank) +
                                                     " rows, expected at most the model's width, " +
                                                     std::to_string(d) + "; the file is damaged");
  }
  w.laurel = {.left = bind.linear(prefix + "laurel_l", rank, d),
              .right = bind.linear(prefix + "laurel_r", d, rank),
              .norm = bind.vector(prefix + "laurel_post_norm.weight", d)};
}

/// Binds how a token's embedding for the layer joins the residual stream, and the number by which the layer
/// multiplies the stream.
void bind_layer_end(Binder& bind, const ModelSpec& spec, const std::string& prefix, LayerWeights& w) {
  if (spec.d_layer_embedding > 0) {
    w.embedding_gate = bind.linear(prefix + "inp_gate", spec.d_layer_embedding, spec.d_model);
    w.embedding_projection = bind.linear(prefix + "proj", spec.d_model, spec.d_layer_embedding);
    w.embedding_post_norm = bind.norm(prefix + "post_norm", spec.d_model, spec.arch);
  }
  if (spec.arch.streams) bind_streams(bind, spec, prefix, w);
  if (!spec.arch.layer_scale) return;
  const std::string name = prefix + "layer_output_scale.weight";
  if (const float* scale = bind.optional_vector(name, 1)) w.output_scale = *scale;
  if (!std::isfinite(w.output_scale)) {
    bind.fail_tensor(name, " is not a finite number, expected a factor; the file is damaged");
  }
}

/// block: the layer's number in the file. weights: stores the matrices that are not in the file's order.
LayerWeights bind_layer(Binder& bind, const ModelSpec& spec, int layer, int block, Weights& weights) {
  const std::string prefix = "blk." + std::to_string(block) + ".";
  LayerWeights w;
  const LayerSpec facts = spec.layer(layer);
  w.activation = facts.ffn_activation;
  bind_norms(bind, spec, layer, prefix, w);
  if (facts.recurrent && spec.recurrent.kind == RecurrentKind::kMamba2) {
    w.delta = bind_mamba(bind, spec, prefix);
  } else if (facts.recurrent && spec.recurrent.kind == RecurrentKind::kShortConv) {
    w.short_conv = bind_short_conv(bind, spec, prefix + "shortconv.");
  } else if (facts.recurrent && spec.arch.row_decays) {
    w.delta = bind_kda(bind, spec, prefix, weights.reordered);
  } else if (facts.recurrent) {
    w.delta = bind_delta(bind, spec, prefix, weights.reordered);
  }
  if (spec.attends(layer)) {
    bind_attention(bind, spec, layer, prefix, w, weights.turned_keys[static_cast<size_t>(layer)]);
  }
  bind_layer_end(bind, spec, prefix, w);
  if (!facts.has_ffn) return w;
  if (facts.experts) {
    bind_experts(bind, spec, prefix, w.mixture);
    bind_shared_expert(bind, spec, prefix, w);
    if (!spec.arch.mixture.beside_dense) return w;
    bind_beside_dense(bind, spec, prefix, w.mixture);
  }
  const int d_ff = spec.d_ff_of(layer);
  bind_gate_and_up(bind, spec, prefix, "", d_ff, w);
  if (spec.powerinfer) {
    bind_powerinfer(bind, spec, prefix, w);
  } else {
    w.down = bind.linear(prefix + "ffn_down", spec.d_model, d_ff);
  }
  return w;
}

/// Returns the divisors of the rotary embedding's frequencies, [n_rot / 2], or an empty vector if the file
/// has no such tensor.
std::vector<float> bind_divisors(Binder& bind, const ModelSpec& spec, const char* name) {
  if (!bind.has(name)) return {};
  const int n_pairs = spec.rope.n_rot / 2;
  // Where layers without a window rotate half as many dimensions, only the first divisors are theirs.
  const float* divisors = bind.vector(name, spec.arch.window.full_half ? spec.local_rope.n_rot / 2 : n_pairs);
  // Dividing by zero would make positions infinite. The comparisons also fail for NaN. Pairs that do not turn
  // have a divisor of 1e30, which makes every angle negligible.
  const auto can_divide = [](float d) { return (d > 0.0f && d < 1e6f) || (d > 1e29f && d < 1e31f); };
  if (!std::all_of(divisors, divisors + n_pairs, can_divide)) {
    bind.fail_tensor(
        name, " holds a divisor that is not a positive number below 1e6, nor 1e30; the file is damaged");
  }
  return {divisors, divisors + n_pairs};
}

void require_all_predictors_or_none(const Binder& bind, const Weights& weights) {
  for (size_t i = 1; i < weights.layers.size(); ++i) {
    const bool has = static_cast<bool>(weights.layers[i].predictor_in);
    if (has == weights.has_predictors()) continue;
    const size_t with = has ? i : 0, without = has ? 0 : i;
    bind.fail_tensor(
        "blk." + std::to_string(without) + ".fc1.weight",
        " is missing, but layer " + std::to_string(with) +
            " has a predictor, expected one in every layer or none in any; the file is incomplete: convert "
            "or "
            "download it again");
  }
}

}  // namespace

namespace {

Linear linear_on(Memory& memory, const Linear& linear) {
  return {memory.resident(linear.weight), memory.resident(linear.bias, linear.weight.n_rows)};
}

/// Returns the matrices of a layer's attention or recurrent layer, of its token embeddings and of its router,
/// except the latent's keys and values.
std::array<Linear*, 29> attention_linears(LayerWeights& w) {
  ShortConvWeights& conv = w.short_conv;
  return {&conv.input_gate,
          &conv.output_gate,
          &conv.input,
          &conv.out,
          &w.q,
          &w.k,
          &w.v,
          &w.attention_gate,
          &w.attention_out,
          &w.latent.q_a,
          &w.latent.kv_a,
          &w.delta.qkv,
          &w.delta.z,
          &w.delta.beta,
          &w.delta.alpha,
          &w.delta.out,
          &w.delta.q,
          &w.delta.k,
          &w.delta.v,
          &w.delta.short_z,
          &w.delta.short_alpha,
          &w.embedding_gate,
          &w.embedding_projection,
          &w.streams.router,
          &w.streams.predict,
          &w.streams.correct,
          &w.laurel.left,
          &w.laurel.right,
          &w.mixture.router};
}

NormWeights norm_on(Memory& memory, const NormWeights& norm, const ModelSpec& spec) {
  return {memory.resident(norm.scale, spec.d_model), memory.resident(norm.bias, spec.d_model)};
}

}  // namespace

LayerWeights Weights::vectors_on(Memory& memory, const ModelSpec& spec, int layer) const {
  LayerWeights w = layers[static_cast<size_t>(layer)];
  w.attention_norm = norm_on(memory, w.attention_norm, spec);
  w.ffn_norm = norm_on(memory, w.ffn_norm, spec);
  const NormShape of_q = spec.qk_norm_shape(spec.heads_of(layer), layer);
  const NormShape of_k = spec.qk_norm_shape(spec.kv_heads_of(layer), layer);
  w.q_norm = memory.resident(w.q_norm, int64_t{of_q.n_rows} * of_q.n_cols);
  w.k_norm = memory.resident(w.k_norm, int64_t{of_k.n_rows} * of_k.n_cols);
  w.v_norm = memory.resident(w.v_norm, spec.head_dim_of(layer));
  w.sinks = memory.resident(w.sinks, spec.heads_of(layer));
  w.query_growth = memory.resident(w.query_growth, static_cast<int64_t>(query_growth.size()));
  w.attention_post_norm = norm_on(memory, w.attention_post_norm, spec);
  w.ffn_post_norm = norm_on(memory, w.ffn_post_norm, spec);
  w.embedding_post_norm = norm_on(memory, w.embedding_post_norm, spec);
  for (Linear* part : attention_linears(w)) part->bias = memory.resident(part->bias, part->weight.n_rows);
  w.latent.q_a_norm = memory.resident(w.latent.q_a_norm, spec.latent.q_rank);
  w.latent.kv_a_norm = memory.resident(w.latent.kv_a_norm, spec.latent.kv_rank);
  w.delta.taps = memory.resident(w.delta.taps, int64_t{spec.recurrent.n_taps} * spec.recurrent.conv_dim());
  w.short_conv.taps =
      memory.resident(w.short_conv.taps, int64_t{spec.recurrent.n_taps} * spec.recurrent.conv_dim());
  w.delta.dt = memory.resident(w.delta.dt, spec.recurrent.decay_dim());
  w.delta.a = memory.resident(w.delta.a, spec.recurrent.decay_dim());
  const bool is_mamba = spec.recurrent.kind == RecurrentKind::kMamba2;
  w.delta.norm =
      memory.resident(w.delta.norm, is_mamba ? spec.recurrent.value_dim() : spec.recurrent.head_dim);
  w.delta.conv_bias = memory.resident(w.delta.conv_bias, spec.recurrent.conv_dim());
  w.delta.skip = memory.resident(w.delta.skip, spec.recurrent.n_v_heads);
  for (const float** vector : {&w.streams.router_norm, &w.streams.correct_scale, &w.laurel.norm})
    *vector = memory.resident(*vector, spec.d_model);
  MixtureWeights& mixture = w.mixture;
  for (const float** norm :
       {&mixture.router_norm, &mixture.experts_norm, &mixture.experts_post_norm, &mixture.dense_post_norm}) {
    *norm = memory.resident(*norm, spec.d_model);
  }
  return w;
}

LayerWeights Weights::layer_on(Memory& memory, const ModelSpec& spec, int layer, bool predictor) const {
  LayerWeights w = vectors_on(memory, spec, layer);
  for (Linear* part : attention_linears(w)) part->weight = memory.resident(part->weight);
  w.latent.keys = memory.resident(w.latent.keys);
  w.latent.values = memory.resident(w.latent.values);
  if (predictor) w.predictor_in = memory.resident(w.predictor_in);
  return w;
}

Linear Weights::output_on(Memory& memory) const { return linear_on(memory, output); }

LayerProjection Weights::layer_projection_on(Memory& memory, const ModelSpec& spec) const {
  return {linear_on(memory, layer_projection.linear),
          memory.resident(layer_projection.norm, spec.d_layer_embedding)};
}

StreamMatrices Weights::stream_matrices_on(Memory& memory) const {
  StreamMatrices out = stream_matrices;
  for (std::vector<Linear>* of_streams : {&out.starts, &out.ends}) {
    for (Linear& one : *of_streams) one = linear_on(memory, one);
  }
  return out;
}

NormWeights Weights::output_norm_on(Memory& memory, const ModelSpec& spec) const {
  return norm_on(memory, output_norm, spec);
}

Weights Weights::placed(const Devices& devices, const ModelSpec& spec, bool predictors, bool streams) const {
  Weights out;
  out.token_embedding = token_embedding;
  out.position_embedding = position_embedding;
  out.token_types = token_types;
  out.embedding_norm = embedding_norm;
  out.layer_embeddings = layer_embeddings;
  out.layer_projection = layer_projection;
  out.stream_matrices = stream_matrices;
  out.layers = layers;
  out.output_norm = output_norm;
  out.output = output;
  out.rope_divisors = rope_divisors;
  out.long_rope_divisors = long_rope_divisors;
  if (devices.device() == nullptr) return out;
  Memory& memory = devices.device()->backend();
  for (int i = 0; i < spec.n_layers; ++i) {
    if (devices.on_device(i)) out.layers[static_cast<size_t>(i)] = layer_on(memory, spec, i, predictors);
  }
  if (streams) {
    out.streamed = layers;
    for (int i = 0; i < spec.n_layers; ++i) {
      if (!devices.on_device(i)) out.streamed[static_cast<size_t>(i)] = vectors_on(memory, spec, i);
    }
  }
  if (devices.on_device(0)) {
    out.layer_projection = layer_projection_on(memory, spec);
    out.stream_matrices = stream_matrices_on(memory);
  }
  out.output_norm = output_norm_on(memory, spec);
  out.output = output_on(memory);
  out.embeds_on_device = tied() && devices.on_device(0) && !position_embedding;
  if (out.embeds_on_device) out.token_embedding = out.output.weight;
  return out;
}

bool is_of_experts(std::string_view tensor_name) {
  // All experts are in one tensor (ffn_up_exps.weight), or each is in its own (ffn_up.3.weight).
  for (const std::string_view stem : {"ffn_gate", "ffn_up", "ffn_down", "ffn_gate_up"}) {
    const size_t at = tensor_name.find(std::string(".") + std::string(stem));
    if (at == std::string_view::npos) continue;
    const std::string_view rest = tensor_name.substr(at + 1 + stem.size());
    if (rest.starts_with("_exps.")) return true;
    if (rest.size() > 1 && rest[0] == '.' && rest[1] >= '0' && rest[1] <= '9') return true;
  }
  return false;
}

namespace {

/// Binds the embeddings that are added to the token embeddings, and the norm of their sum.
void bind_other_embeddings(Binder& bind, const ModelSpec& spec, Weights& weights) {
  const auto table = [&](const std::string& name) {
    return bind.matrix(name, bind.rows_of(name), spec.d_model);
  };
  // read_model_spec() has checked the number of positions against the context.
  if (spec.arch.position_offset) weights.position_embedding = table("position_embd.weight");
  if (spec.arch.token_types) weights.token_types = table("token_types.weight");
  if (spec.arch.embedding_norm)
    weights.embedding_norm = bind.norm("token_embd_norm", spec.d_model, spec.arch);
  if (spec.arch.streams) {
    const int64_t n = spec.n_streams - 1, d = spec.d_model;
    const Linear starts{bind.matrices("altup_proj.weight", n, d, d), nullptr},
        ends{bind.matrices("altup_unembd_proj.weight", n, d, d), nullptr};
    for (int64_t i = 0; i < n; ++i) {
      weights.stream_matrices.starts.push_back(rows_of(starts, i * d, d));
      weights.stream_matrices.ends.push_back(rows_of(ends, i * d, d));
    }
  }
  if (spec.d_layer_embedding == 0) return;
  const int64_t all = int64_t{spec.n_layers} * spec.d_layer_embedding;
  weights.layer_embeddings = bind.matrix("per_layer_token_embd.weight", spec.n_vocab, all);
  weights.layer_projection = {bind.linear("per_layer_model_proj", all, spec.d_model),
                              bind.vector("per_layer_proj_norm.weight", spec.d_layer_embedding)};
}

/// Computes the factors by which queries are multiplied, and sets the layers' pointers to them.
void let_queries_grow(const ModelSpec& spec, Weights& weights) {
  if (spec.query_growth == 0.0f) return;
  const int n_positions = spec.context_train + spec.arch.growth_from;
  for (int stretch = 0; stretch <= n_positions / spec.growth_span; ++stretch) {
    const double factor = 1.0 + double{spec.query_growth} * std::log1p(stretch);
    weights.query_growth.push_back(static_cast<float>(factor));
  }
  for (int i = 0; i < spec.n_layers; ++i) {
    if (spec.arch.grows_unturned && spec.layer(i).turns) continue;
    weights.layers[static_cast<size_t>(i)].query_growth = weights.query_growth.data();
  }
}

/// Computes the slope of each head (ALiBi, Press et al. 2022), and sets the layers' pointers to them. With n
/// heads, n a power of two, the slopes are 2^(-8 / n), 2^(-16 / n), ... For other numbers, they are those of
/// the next lower power of two, then the first, third, ... of twice that power.
void let_scores_fall(const ModelSpec& spec, Weights& weights) {
  if (!spec.arch.alibi) return;
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(spec.n_heads)));
  for (int h = 0; h < spec.n_heads; ++h) {
    const double exponent = h < power ? 8.0 * (h + 1) / power : 4.0 * (2 * (h - power) + 1) / power;
    weights.slopes.push_back(static_cast<float>(std::exp2(-exponent)));
  }
  for (LayerWeights& layer : weights.layers) layer.slopes = weights.slopes.data();
}

/// Sets the layers' pointers to ones: the weights of norms without weights, and the biases of corrections.
void set_ones(const ModelSpec& spec, Weights& weights) {
  if (!spec.arch.value_norm && !spec.arch.qk_norm_plain && !spec.arch.streams) return;
  weights.ones.assign(static_cast<size_t>(std::max(spec.widest_head_dim(), spec.n_streams)), 1.0f);
  for (int i = 0; i < spec.n_layers; ++i) {
    LayerWeights& layer = weights.layers[static_cast<size_t>(i)];
    if (spec.arch.value_norm) layer.v_norm = weights.ones.data();
    if (spec.arch.streams) layer.streams.correct.bias = weights.ones.data();
    if (spec.arch.qk_norm_plain && spec.norms_qk(i)) layer.q_norm = layer.k_norm = weights.ones.data();
  }
}

void bind_output(Binder& bind, const ModelSpec& spec, Weights& weights) {
  if (!spec.arch.has_output_norm) return;
  const std::string norm(spec.arch.output_norm);
  weights.output_norm =
      bind.norm(bind.has("output_norm.weight") ? "output_norm" : norm, spec.d_model, spec.arch);
  if (!spec.arch.has_output) return bind.pass_over("", {"output."});
  const bool tied = !bind.has("output.weight");
  weights.output =
      tied ? Linear{weights.token_embedding, nullptr} : bind.linear("output", spec.n_vocab, spec.d_model);
}

}  // namespace

Weights bind_nextn_layer(Binder& bind, const ModelSpec& spec, int block) {
  Weights weights;
  weights.turned_keys.resize(1);
  weights.layers.push_back(bind_layer(bind, spec, 0, block, weights));
  return weights;
}

Weights bind_weights(const ModelFile& file, const ModelSpec& spec) {
  Binder bind(file);
  Weights weights;
  weights.token_embedding = bind.matrix("token_embd.weight", spec.n_vocab, spec.d_model);
  bind_other_embeddings(bind, spec, weights);
  if (spec.arch.window_heads && !bind.has("rope_freqs.weight"))
    bind.fail_tensor("rope_freqs.weight", " is missing; without it, too many dimensions would be rotated");
  weights.rope_divisors = bind_divisors(
      bind, spec, bind.has("rope_freqs.weight") ? "rope_freqs.weight" : "rope_factors_short.weight");
  weights.long_rope_divisors = bind_divisors(bind, spec, "rope_factors_long.weight");
  weights.layers.reserve(static_cast<size_t>(spec.n_layers));
  weights.turned_keys.resize(static_cast<size_t>(spec.n_layers));
  for (int layer = 0; layer < spec.n_layers; ++layer) {
    weights.layers.push_back(bind_layer(bind, spec, layer, layer, weights));
  }
  require_all_predictors_or_none(bind, weights);
  let_queries_grow(spec, weights);
  let_scores_fall(spec, weights);
  set_ones(spec, weights);
  bind_output(bind, spec, weights);
  weights.head = bind_head(bind, spec);
  bind.refuse_unused(spec);
  weights.vectors = bind.take_vectors();
  return weights;
}

}  // namespace hearth
