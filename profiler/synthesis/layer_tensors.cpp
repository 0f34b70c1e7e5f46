// See the header.
#include "profiler/synthesis/layer_tensors.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "profiler/synthesis/synth_mixture.h"

namespace hearth {
namespace {

/// The mean square of the activations of SwiGLU and GeGLU, for a normally distributed gate.
constexpr double kActivationSquare = 0.36;

class TensorLister {
 public:
  TensorLister(const ModelShape& shape, const LayerKind& kind, double active)
      : shape_(shape), kind_(kind), active_(active) {}

  std::vector<LayerTensor> list() && {
    constant("attn_norm.weight", shape_.d_model);
    if (kind_.recurrent) is_mamba() ? add_mamba() : add_delta_net();
    if (kind_.attends) add_attention();
    if (is_gemma()) constant("post_attention_norm.weight", shape_.d_model, share());
    if (kind_.has_ffn) add_ffn();
    if (is_gemma()) add_end();
    return std::move(tensors_);
  }

 private:
  bool is_gemma() const { return shape_.architecture == "gemma4"; }
  bool is_mamba() const { return shape_.recurrent.kind == RecurrentKind::kMamba2; }
  bool is_delta() const { return shape_.recurrent && !is_mamba(); }
  double unit() const { return 1.0 / std::sqrt(static_cast<double>(shape_.d_model)); }
  /// The length of what one layer adds to the residual, relative to the embedding's.
  double share() const { return kSynthContribution / shape_.n_layers; }

  void constant(std::string name, int64_t n, double value = 1) {
    add(std::move(name), {n}, TensorFill::kConstant, value);
  }
  void matrix(std::string name, int64_t n_cols, int64_t n_rows, double deviation) {
    add(std::move(name), {n_cols, n_rows}, TensorFill::kRandom, deviation);
  }
  void add(std::string name, std::vector<int64_t> shape, TensorFill fill, double value = 1) {
    tensors_.push_back({std::move(name), std::move(shape), fill, value});
  }

  void add_attention() {
    const int64_t d = shape_.d_model;
    const bool windowed = shape_.d_head_window > 0 && !kind_.full;
    const int64_t head = windowed ? shape_.d_head_window : shape_.head_dim();
    const int64_t q = shape_.n_heads * head;
    const int n_kv = kind_.full && shape_.n_kv_heads_full > 0 ? shape_.n_kv_heads_full : shape_.n_kv_heads;
    // In delta nets' full layers, each head's query is followed by a gate.
    matrix("attn_q.weight", d, is_delta() ? 2 * q : q, unit());
    if (kind_.own_kv) matrix("attn_k.weight", d, n_kv * head, unit());
    if (kind_.own_kv && !(kind_.full && shape_.values_from_keys))
      matrix("attn_v.weight", d, n_kv * head, unit());
    matrix("attn_output.weight", q, d, share() / std::sqrt(static_cast<double>(q)));
    if (is_mamba()) return;
    constant("attn_q_norm.weight", head);
    if (kind_.own_kv) constant("attn_k_norm.weight", head);
  }

  /// Adds the tensors that both kinds of recurrent layers have. inner: the width of the recurrence's result,
  /// which ssm_out projects.
  void add_recurrence(int64_t inner) {
    const RecurrentShape& r = shape_.recurrent;
    add("ssm_conv1d.weight", {r.n_taps, r.conv_dim()}, TensorFill::kTaps, 0.5);
    add("ssm_dt.bias", {r.n_v_heads}, TensorFill::kSteps);
    matrix("ssm_out.weight", inner, shape_.d_model, share() / std::sqrt(static_cast<double>(inner)));
  }

  void add_delta_net() {
    const RecurrentShape& r = shape_.recurrent;
    const int64_t d = shape_.d_model;
    matrix("attn_qkv.weight", d, r.conv_dim(), unit());
    matrix("attn_gate.weight", d, r.value_dim(), unit());
    add_recurrence(r.value_dim());
    add("ssm_a", {r.n_v_heads}, TensorFill::kDecays);
    constant("ssm_norm.weight", r.head_dim);
    if (r.tiled) {
      matrix("ssm_beta.weight", d, r.n_v_heads, unit());
      matrix("ssm_alpha.weight", d, r.n_v_heads, unit());
    } else {
      matrix("ssm_ba.weight", d, 2 * r.n_v_heads, unit());
    }
  }

  void add_mamba() {
    const RecurrentShape& r = shape_.recurrent;
    const int64_t inner = r.value_dim();
    matrix("ssm_in.weight", shape_.d_model, inner + r.conv_dim() + r.n_v_heads, unit());
    add_recurrence(inner);
    constant("ssm_conv1d.bias", r.conv_dim(), 0);
    add("ssm_a", {1, r.n_v_heads}, TensorFill::kDecays);
    add("ssm_d", {1, r.n_v_heads}, TensorFill::kConstant);
    add("ssm_norm.weight", {inner / r.n_k_heads, r.n_k_heads}, TensorFill::kConstant);
  }

  void add_ffn() {
    if (is_delta()) constant("post_attention_norm.weight", shape_.d_model);
    if (is_gemma()) constant("ffn_norm.weight", shape_.d_model);
    if (shape_.has_experts()) add_experts();
    // Gemma 4 has its experts beside a dense FFN.
    if (!shape_.has_experts() || is_gemma()) add_dense("", shape_.d_ff);
    if (is_gemma()) constant("post_ffw_norm.weight", shape_.d_model, share());
  }

  void add_dense(const std::string& suffix, int64_t width) {
    const int64_t d = shape_.d_model;
    if (shape_.gated()) matrix("ffn_gate" + suffix + ".weight", d, width, unit());
    matrix("ffn_up" + suffix + ".weight", d, width, unit());
    matrix("ffn_down" + suffix + ".weight", width, d, down_deviation(width, 1));
  }

  /// n_used: the number of FFNs whose outputs are averaged.
  double down_deviation(int64_t width, int n_used) const {
    const double square = shape_.has_zero_neurons() ? active_ : kActivationSquare;
    return share() * std::sqrt(n_used / (static_cast<double>(width) * square));
  }

  void add_experts() {
    const int64_t n = shape_.n_experts, d = shape_.d_model, width = shape_.d_expert;
    add("ffn_gate_inp.weight", {d, n}, TensorFill::kRouter);
    if (shape_.has_zero_neurons()) {
      add("ffn_up_exps.weight", {d, width, n}, TensorFill::kGates);
    } else if (is_gemma()) {
      add("ffn_gate_up_exps.weight", {d, 2 * width, n}, TensorFill::kRandom, unit());
    } else {
      add("ffn_gate_exps.weight", {d, width, n}, TensorFill::kRandom, unit());
      add("ffn_up_exps.weight", {d, width, n}, TensorFill::kRandom, unit());
    }
    add("ffn_down_exps.weight", {width, d, n}, TensorFill::kRandom, down_deviation(width, shape_.n_used));
    if (shape_.d_shared > 0) add_dense("_shexp", shape_.d_shared);
    if (is_delta()) add("ffn_gate_inp_shexp.weight", {d, 1}, TensorFill::kConstant, 0);
    if (is_mamba()) constant("exp_probs_b.bias", n, 0);
    if (!is_gemma()) return;
    // The router's input is the normed residual times this scale and divided by the root of d_model.
    constant("ffn_gate_inp.scale", d, 1.0 / unit());
    constant("ffn_down_exps.scale", n);
    for (const char* name : {"pre_ffw_norm_2.weight", "post_ffw_norm_1.weight", "post_ffw_norm_2.weight"})
      constant(name, d);
  }

  /// The tensors at the end of Gemma 4's layers.
  void add_end() {
    constant("layer_output_scale.weight", 1);
    const int64_t d = shape_.d_model, own = shape_.d_layer_embedding;
    if (own == 0) return;
    matrix("inp_gate.weight", d, own, unit());
    matrix("proj.weight", own, d, 1.0 / std::sqrt(static_cast<double>(own)));
    constant("post_norm.weight", d, share());
  }

  const ModelShape& shape_;
  const LayerKind& kind_;
  const double active_;
  std::vector<LayerTensor> tensors_;
};

}  // namespace

int64_t LayerTensor::n_elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

LayerKind layer_kind(const ModelShape& shape, int layer) {
  const bool recurrent = shape.is_recurrent(layer);
  return {.recurrent = recurrent,
          .attends = shape.mixes(layer) && !recurrent,
          .full = shape.is_full(layer),
          .own_kv = layer < shape.first_shared_kv(),
          .has_ffn = shape.has_ffn(layer)};
}

std::vector<LayerKind> layer_kinds(const ModelShape& shape) {
  std::vector<LayerKind> kinds;
  for (int i = 0; i < shape.n_layers; ++i) {
    const LayerKind kind = layer_kind(shape, i);
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
  }
  return kinds;
}

std::vector<LayerTensor> layer_tensors(const ModelShape& shape, const LayerKind& kind, double active) {
  return TensorLister(shape, kind, active).list();
}

std::vector<LayerTensor> tensors_before(const ModelShape& shape) {
  std::vector<LayerTensor> tensors;
  // A quarter of the dimensions of a head with full attention turns in Gemma 4.
  if (shape.architecture == "gemma4") {
    tensors.push_back(
        {"rope_freqs.weight", {shape.head_dim() / 2}, TensorFill::kTurned, shape.head_dim() / 8.0});
  }
  const int64_t own = shape.d_layer_embedding, all = own * shape.n_layers;
  if (own == 0) return tensors;
  const double unit = 1.0 / std::sqrt(static_cast<double>(own));
  tensors.push_back({"per_layer_token_embd.weight", {all, shape.n_vocab}, TensorFill::kRandom, unit});
  tensors.push_back({"per_layer_model_proj.weight", {shape.d_model, all}, TensorFill::kRandom, 1.0});
  tensors.push_back({"per_layer_proj_norm.weight", {own}, TensorFill::kConstant});
  return tensors;
}

std::vector<LayerTensor> tensors_after(const ModelShape& shape) {
  return {{"output_norm.weight", {shape.d_model}, TensorFill::kConstant}};
}

}  // namespace hearth
