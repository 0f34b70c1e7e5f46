// Makes the keys and tensors of tiny models with gated delta nets.
#include "tests/support/delta_model.h"

#include <cmath>
#include <cstdint>
#include <vector>

namespace hearth::test {
namespace {

using D = TinyDelta;

void matrix(TinyModel& model, const std::string& name, int n_cols, int n_rows) {
  model.random_tensor(name, {n_cols, n_rows}, 0.0, 2.5 / std::sqrt(n_cols));
}

void make_recurrent(TinyModel& model, const std::string& prefix, bool packs_gates) {
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"})
    model.without_tensor(prefix + name + ".weight");
  matrix(model, prefix + "attn_qkv.weight", D::kModel, D::kConvDim);
  matrix(model, prefix + "attn_gate.weight", D::kModel, D::kValueDim);
  if (packs_gates) {
    matrix(model, prefix + "ssm_ba.weight", D::kModel, 2 * D::kValueHeads);
  } else {
    matrix(model, prefix + "ssm_beta.weight", D::kModel, D::kValueHeads);
    matrix(model, prefix + "ssm_alpha.weight", D::kModel, D::kValueHeads);
  }
  matrix(model, prefix + "ssm_out.weight", D::kValueDim, D::kModel);
  model.random_tensor(prefix + "ssm_conv1d.weight", {D::kTaps, D::kConvDim}, 0.0, 0.5);
  model.random_tensor(prefix + "ssm_dt.bias", {D::kValueHeads}, -1.0, 1.0);
  model.random_tensor(prefix + "ssm_a", {D::kValueHeads}, -0.5, 0.49);
  model.random_tensor(prefix + "ssm_norm.weight", {D::kState}, 1.0, 0.3);
}

void make_full(TinyModel& model, const std::string& prefix) {
  matrix(model, prefix + "attn_q.weight", D::kModel, 2 * D::kHeads * D::kHeadDim);
  model.random_tensor(prefix + "attn_q_norm.weight", {D::kHeadDim}, 1.0, 0.3);
  model.random_tensor(prefix + "attn_k_norm.weight", {D::kHeadDim}, 1.0, 0.3);
}

void make_mixture(TinyModel& model, const std::string& prefix) {
  for (const char* name : {"ffn_gate", "ffn_up", "ffn_down"}) model.without_tensor(prefix + name + ".weight");
  matrix(model, prefix + "ffn_gate_inp.weight", D::kModel, D::kExperts);
  for (const char* name : {"ffn_gate", "ffn_up"}) {
    model.random_tensor(prefix + name + "_exps.weight", {D::kModel, D::kExpert, D::kExperts}, 0.0, 0.4);
    matrix(model, prefix + name + "_shexp.weight", D::kModel, D::kShared);
  }
  model.random_tensor(prefix + "ffn_down_exps.weight", {D::kExpert, D::kModel, D::kExperts}, 0.0, 0.5);
  matrix(model, prefix + "ffn_down_shexp.weight", D::kShared, D::kModel);
  model.random_tensor(prefix + "ffn_gate_inp_shexp.weight", {D::kModel}, 0.0, 0.4);
}

void add_keys(TinyModel& model, const std::string& prefix, bool mixture) {
  model.key(prefix + "rope.dimension_count", 8)
      .key(prefix + "ssm.conv_kernel", D::kTaps)
      .key(prefix + "ssm.state_size", D::kState)
      .key(prefix + "ssm.group_count", D::kKeyHeads)
      .key(prefix + "ssm.time_step_rank", D::kValueHeads)
      .key(prefix + "ssm.inner_size", D::kValueDim)
      .key(prefix + "full_attention_interval", 4)
      .array(prefix + "attention.recurrent_layers", std::vector<bool>{true, true, true, false, true});
  if (!mixture) return;
  model.without_key(prefix + "feed_forward_length")
      .key(prefix + "expert_count", D::kExperts)
      .key(prefix + "expert_used_count", D::kUsed)
      .key(prefix + "expert_feed_forward_length", D::kExpert)
      .key(prefix + "expert_shared_feed_forward_length", D::kShared);
}

}  // namespace

TinyModel tiny_delta(const std::string& architecture) {
  const bool next = architecture == "qwen3next", mixture = architecture != "qwen35";
  TinyShape shape;
  shape.n_layers = D::kLayers;
  shape.d_model = D::kModel;
  shape.d_ff = D::kFf;
  shape.n_heads = D::kHeads;
  shape.n_kv_heads = D::kKvHeads;
  shape.head_dim = D::kHeadDim;
  TinyModel model(architecture, shape);
  add_keys(model, architecture + ".", mixture);
  if (!next) model.array(architecture + ".rope.dimension_sections", std::vector<int32_t>{2, 1, 1, 0});
  for (int i = 0; i < D::kLayers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    model.without_tensor(prefix + "ffn_norm.weight");
    model.random_tensor(prefix + "post_attention_norm.weight", {D::kModel}, 1.0, 0.3);
    if (i == 3) {
      make_full(model, prefix);
    } else {
      make_recurrent(model, prefix, next);
    }
    if (mixture) make_mixture(model, prefix);
  }
  return model;
}

void pack_inputs(TinyModel& model, int layer) {
  const std::string prefix = "blk." + std::to_string(layer) + ".";
  model.without_tensor(prefix + "attn_qkv.weight").without_tensor(prefix + "attn_gate.weight");
  matrix(model, prefix + "ssm_in.weight", D::kModel, 2 * D::kKeyDim + 2 * D::kValueDim);
}

}  // namespace hearth::test
