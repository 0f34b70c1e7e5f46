// Makes the keys and tensors of tiny models with layers of Mamba-2.
#include "tests/support/mamba_model.h"

#include <cmath>
#include <cstdint>
#include <vector>

namespace hearth::test {
namespace {

void mamba_matrix(TinyModel& model, const std::string& name, int n_cols, int n_rows) {
  model.random_tensor(name, {n_cols, n_rows}, 0.0, 2.5 / std::sqrt(n_cols));
}

void drop(TinyModel& model, const std::string& prefix, const std::vector<std::string>& stems) {
  for (const std::string& stem : stems) model.without_tensor(prefix + stem + ".weight");
}

void make_mamba(TinyModel& model, const std::string& prefix) {
  mamba_matrix(model, prefix + "ssm_in.weight", TinyMamba::kModel,
               TinyMamba::kInner + TinyMamba::kChannels + TinyMamba::kInnerHeads);
  mamba_matrix(model, prefix + "ssm_out.weight", TinyMamba::kInner, TinyMamba::kModel);
  model.random_tensor(prefix + "ssm_conv1d.weight", {TinyMamba::kTaps, TinyMamba::kChannels}, 0.0, 0.5)
      .random_tensor(prefix + "ssm_conv1d.bias", {TinyMamba::kChannels}, 0.0, 0.5)
      .random_tensor(prefix + "ssm_dt.bias", {TinyMamba::kInnerHeads}, -1.0, 1.0)
      .random_tensor(prefix + "ssm_a", {1, TinyMamba::kInnerHeads}, -0.5, 0.49)
      .random_tensor(prefix + "ssm_d", {1, TinyMamba::kInnerHeads}, 0.0, 1.0)
      .random_tensor(prefix + "ssm_norm.weight", {TinyMamba::kInner / TinyMamba::kGroups, TinyMamba::kGroups},
                     1.0, 0.3);
}

void make_plain_experts(TinyModel& model, const std::string& prefix) {
  mamba_matrix(model, prefix + "ffn_gate_inp.weight", TinyMamba::kModel, TinyMamba::kExperts);
  model.random_tensor(prefix + "exp_probs_b.bias", {TinyMamba::kExperts}, 0.0, 0.3)
      .random_tensor(prefix + "ffn_up_exps.weight",
                     {TinyMamba::kModel, TinyMamba::kExpert, TinyMamba::kExperts}, 0.0, 0.4)
      .random_tensor(prefix + "ffn_down_exps.weight",
                     {TinyMamba::kExpert, TinyMamba::kModel, TinyMamba::kExperts}, 0.0, 0.5);
  mamba_matrix(model, prefix + "ffn_up_shexp.weight", TinyMamba::kModel, TinyMamba::kShared);
  mamba_matrix(model, prefix + "ffn_down_shexp.weight", TinyMamba::kShared, TinyMamba::kModel);
}

}  // namespace

TinyModel tiny_mamba(const std::string& architecture) {
  const bool one_block = architecture != "granitehybrid", mixture = architecture == "nemotron_h_moe";
  const std::vector<std::string> attention = {"attn_q", "attn_k", "attn_v", "attn_output"};
  const std::vector<std::string> ffn = {"ffn_gate", "ffn_up", "ffn_down"};
  // M: Mamba-2, F: an FFN alone, A: attention.
  const std::string kinds = one_block ? "MFAM" : "MA";
  TinyShape shape;
  shape.n_layers = static_cast<int>(kinds.size());
  shape.d_model = TinyMamba::kModel;
  shape.d_ff = TinyMamba::kFf;
  shape.n_heads = TinyMamba::kHeads;
  shape.n_kv_heads = TinyMamba::kKvHeads;
  shape.head_dim = TinyMamba::kHeadDim;
  TinyModel model(architecture, shape);
  std::vector<int32_t> kv_heads, widths;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    kv_heads.push_back(kinds[i] == 'A' ? TinyMamba::kKvHeads : 0);
    widths.push_back(kinds[i] == 'F' ? (mixture ? TinyMamba::kExpert : TinyMamba::kFf) : 0);
    if (kinds[i] != 'A') drop(model, prefix, attention);
    if (kinds[i] == 'M') make_mamba(model, prefix);
    if (!one_block) continue;
    drop(model, prefix, {"ffn_norm", "ffn_gate"});
    if (kinds[i] != 'F' || mixture) drop(model, prefix, ffn);
    if (kinds[i] == 'F' && mixture) make_plain_experts(model, prefix);
  }
  const std::string key = architecture + ".";
  model.key(key + "ssm.conv_kernel", TinyMamba::kTaps)
      .key(key + "ssm.state_size", TinyMamba::kState)
      .key(key + "ssm.group_count", TinyMamba::kGroups)
      .key(key + "ssm.time_step_rank", TinyMamba::kInnerHeads)
      .key(key + "ssm.inner_size", TinyMamba::kInner)
      .array(key + "attention.head_count_kv", kv_heads);
  if (!one_block) return model.key(key + "rope.scaling.finetuned", false);
  model.array(key + "feed_forward_length", widths);
  if (!mixture) return model;
  return model.key(key + "expert_count", TinyMamba::kExperts)
      .key(key + "expert_used_count", TinyMamba::kUsed)
      .key(key + "expert_feed_forward_length", TinyMamba::kExpert)
      .key(key + "expert_shared_feed_forward_length", TinyMamba::kShared)
      .key(key + "expert_weights_norm", true)
      .key(key + "expert_weights_scale", 2.5f);
}

}  // namespace hearth::test
