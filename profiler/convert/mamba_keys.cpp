// Adds the keys of families with layers of Mamba-2.
#include <iterator>
#include <string>
#include <vector>

#include "kernels/base/file_error.h"
#include "profiler/convert/config.h"
#include "profiler/convert/family.h"
#include "profiler/convert/family_keys.h"

namespace hearth::convert {
namespace {

/// Returns a letter for each layer: M for Mamba-2, * for attention, - for an FFN, E for experts. The configs
/// of Nemotron-H have such letters or names. Those of Granite 4 have names, and every layer also has an FFN.
std::string block_letters(const Config& config) {
  const nlohmann::json& pattern = config.field({"hybrid_override_pattern"});
  if (pattern.is_string()) return pattern.get<std::string>();
  const nlohmann::json& names = config.field({"layers_block_type", "layer_types"});
  std::string letters;
  for (size_t i = 0; names.is_array() && i < names.size(); ++i) {
    const std::string name = names[i].is_string() ? names[i].get<std::string>() : "";
    if (name == "mamba" || name == "linear_attention") {
      letters += 'M';
    } else if (name == "attention" || name == "full_attention") {
      letters += '*';
    } else if (name == "mlp" || name == "moe") {
      letters += name == "moe" ? 'E' : '-';
    } else {
      config.fail("layer " + std::to_string(i) + " is " + file_error::quoted(names[i].dump()) +
                  ", expected mamba, attention, mlp or moe; such models do not run yet.");
    }
  }
  return letters;
}

/// Adds which layers have attention, and the sizes of Mamba-2.
void add_mamba_keys(const Config& config, KeyList& keys, int64_t head_dim, int64_t n_heads) {
  const std::string letters = block_letters(config);
  if (static_cast<int64_t>(letters.size()) != config.n_layers()) {
    config.fail("the kinds of " + std::to_string(letters.size()) + " layers are known, expected " +
                std::to_string(config.n_layers()) + "; the file is damaged.");
  }
  std::vector<int32_t> kv_heads;
  for (const char letter : letters)
    kv_heads.push_back(letter == '*' ? static_cast<int32_t>(config.n_kv_heads()) : 0);
  keys.of_model("attention.head_count_kv", kv_heads);
  keys.count("ssm.conv_kernel", config.get_int({"mamba_d_conv", "conv_kernel"}));
  keys.count("ssm.state_size", config.get_int({"mamba_d_state", "ssm_state_size"}));
  keys.count("ssm.group_count", config.get_int({"mamba_n_groups", "n_groups"}));
  keys.count("ssm.time_step_rank", n_heads);
  keys.count("ssm.inner_size", n_heads * head_dim);
}

}  // namespace

bool is_granite4_of_attention(const Config& config) {
  return !has_local_experts(config) && block_letters(config).find('M') == std::string::npos;
}

bool has_local_experts(const Config& config) {
  return config.find_int({"num_local_experts"}).value_or(0) > 0;
}

bool has_expert_blocks(const Config& config) { return block_letters(config).find('E') != std::string::npos; }

void add_granite4_keys(const Config& config, KeyList& keys) {
  add_granite_keys(config, keys);
  keys.count("feed_forward_length", config.get_int({"shared_intermediate_size"}));
  for (const char* key : {"expert_count", "expert_used_count", "expert_shared_feed_forward_length"})
    keys.remove(key);
}

void add_granitehybrid_keys(const Config& config, KeyList& keys) {
  if (has_local_experts(config)) {
    add_granite_keys(config, keys);
  } else {
    add_granite4_keys(config, keys);
    copy_count(config, keys, "expert_shared_feed_forward_length", "shared_intermediate_size");
  }
  add_mamba_keys(config, keys, config.get_int({"mamba_d_head"}), config.get_int({"mamba_n_heads"}));
  if (config.find_text({"position_embedding_type"}) != "rope")
    keys.of_model("rope.scaling.finetuned", false);  // no rotary embedding
}

void add_falcon_h1_keys(const Config& config, KeyList& keys) {
  for (const char* name : {"projectors_bias", "mamba_proj_bias", "mlp_bias", "attention_bias"}) {
    if (config.find_bool(name).value_or(false))
      config.fail(std::string(name) +
                  " is true, unlike in the family's other models; such models do not run yet.");
  }
  if (config.find_bool("mamba_rms_norm").value_or(false) &&
      !config.find_bool("mamba_norm_before_gate").value_or(true)) {
    config.fail("mamba_norm_before_gate is false: norms behind the gate do not run yet in this family.");
  }
  if (config.find_bool("tie_word_embeddings").value_or(false) &&
      config.find_number({"embedding_multiplier"}).value_or(1.0) !=
          config.find_number({"lm_head_multiplier"}).value_or(1.0)) {
    config.fail(
        "embedding_multiplier and lm_head_multiplier differ, although both multiply the same matrix; such "
        "models do "
        "not convert yet.");
  }
  const int64_t inner = config.get_int({"mamba_d_ssm"}), n_heads = config.get_int({"mamba_n_heads"});
  keys.count("ssm.conv_kernel", config.get_int({"mamba_d_conv"}));
  keys.count("ssm.state_size", config.get_int({"mamba_d_state"}));
  keys.count("ssm.group_count", config.get_int({"mamba_n_groups"}));
  keys.count("ssm.time_step_rank", n_heads);
  keys.count("ssm.inner_size", inner);
  keys.count("vocab_size", config.get_int({"vocab_size"}));
}

std::vector<RowFactor> falcon_h1_factors(const Config& config, std::string_view name) {
  const auto number = [&](const char* field) { return config.find_number({field}).value_or(1.0); };
  const auto of_list = [&](const char* field, size_t i, size_t n) {
    const nlohmann::json& list = config.field({field});
    if (list.is_null()) return 1.0;
    if (!list.is_array() || list.size() != n || !list[i].is_number())
      config.fail(std::string(field) + " does not have " + std::to_string(n) +
                  " numbers; the file is damaged.");
    return list[i].get<double>();
  };
  const auto all = [](double factor) {
    return std::vector<RowFactor>{{.factor = static_cast<float>(factor)}};
  };
  const double attention = number("attention_in_multiplier");
  if (name == "attn_q" || name == "attn_v") return all(attention);
  if (name == "attn_k") return all(attention * number("key_multiplier"));
  if (name == "attn_output") return all(number("attention_out_multiplier"));
  if (name == "ffn_gate") return all(of_list("mlp_multipliers", 0, 2));
  if (name == "ffn_down") return all(of_list("mlp_multipliers", 1, 2));
  if (name == "ssm_out") return all(number("ssm_out_multiplier"));
  if (name == "token_embd") return all(number("embedding_multiplier"));
  if (name == "output") return all(number("lm_head_multiplier"));
  if (name != "ssm_in") return {};
  // Rows of the gate, of x, of B and of C, and the steps of the heads.
  const int64_t inner = config.get_int({"mamba_d_ssm"});
  const int64_t of_keys = config.get_int({"mamba_n_groups"}) * config.get_int({"mamba_d_state"});
  std::vector<RowFactor> factors;
  int64_t end = 0;
  const int64_t rows[] = {inner, inner, of_keys, of_keys, config.get_int({"mamba_n_heads"})};
  for (size_t i = 0; i < std::size(rows); ++i) {
    end += rows[i];
    const double factor = number("ssm_in_multiplier") * of_list("ssm_multipliers", i, std::size(rows));
    factors.push_back({.end_row = end, .factor = static_cast<float>(factor)});
  }
  return factors;
}

namespace {

/// Which layers of Kimi Linear have attention; the others have recurrent states. Published configs number
/// the former from 1 on.
std::vector<bool> attention_of_kimi(const Config& config) {
  std::vector<bool> attends(static_cast<size_t>(config.n_layers()), false);
  const nlohmann::json& types = config.field({"layer_types"});
  const nlohmann::json& linear = config.field({"linear_attn_config"});
  if (types.is_array() && types.size() == attends.size()) {
    for (size_t i = 0; i < attends.size(); ++i) attends[i] = types[i] == "full_attention";
    return attends;
  }
  const bool listed =
      linear.is_object() && linear.contains("full_attn_layers") && linear["full_attn_layers"].is_array();
  if (!listed)
    config.fail(
        "neither layer_types nor linear_attn_config says which layers have attention; download the file "
        "again.");
  for (const nlohmann::json& one : linear["full_attn_layers"]) {
    if (!one.is_number_unsigned() || one < 1u || one > attends.size())
      config.fail("full_attn_layers has " + file_error::quoted(one.dump()) +
                  ", expected numbers of layers from 1 to " + std::to_string(attends.size()) +
                  "; the file is damaged.");
    attends[one.get<size_t>() - 1] = true;
  }
  return attends;
}

/// A number of the recurrent layers: the field `name`, or `published` in linear_attn_config.
int64_t of_linear(const Config& config, const char* name, const char* published) {
  const nlohmann::json& linear = config.field({"linear_attn_config"});
  if (!config.has(name) && linear.is_object() && linear.contains(published) &&
      linear[published].is_number_unsigned())
    return linear[published].get<int64_t>();
  return config.get_int({name});
}

}  // namespace

void add_kimi_linear_keys(const Config& config, KeyList& keys) {
  if (config.find_int({"q_lora_rank"}).value_or(0) > 0)
    config.fail("q_lora_rank is not 0: queries from a latent do not run yet in this family.");
  if (of_linear(config, "linear_num_heads", "num_heads") != config.n_heads())
    config.fail("the recurrent layers do not have as many heads as attention; such models do not run yet.");
  const int64_t rank = config.get_int({"kv_lora_rank"}), shared = config.get_int({"qk_rope_head_dim"});
  const nlohmann::json& mlps = config.field({"mlp_layer_types"});
  int64_t n_dense = config.find_int({"first_k_dense_replace"}).value_or(0);
  if (mlps.is_array() && !config.has("first_k_dense_replace")) {
    while (n_dense < static_cast<int64_t>(mlps.size()) && mlps[static_cast<size_t>(n_dense)] == "dense")
      ++n_dense;
  }
  std::vector<int32_t> kv_heads;
  for (const bool attends : attention_of_kimi(config))
    kv_heads.push_back(attends ? 1 : 0);  // one latent for all heads
  keys.count("context_length", config.get_int({"max_position_embeddings", "model_max_length"}));
  keys.of_model("attention.head_count_kv", kv_heads);
  keys.count("vocab_size", config.get_int({"vocab_size"}));
  keys.count("ssm.conv_kernel", of_linear(config, "linear_conv_kernel_dim", "short_conv_kernel_size"));
  keys.count("kda.head_dim", of_linear(config, "linear_head_dim", "head_dim"));
  keys.count("attention.kv_lora_rank", rank);
  keys.count("rope.dimension_count", shared);
  keys.count("attention.key_length", rank + shared);
  keys.count("attention.key_length_mla", config.get_int({"qk_nope_head_dim"}) + shared);
  keys.count("attention.value_length_mla", config.get_int({"v_head_dim"}));
  keys.count("expert_feed_forward_length", config.get_int({"moe_intermediate_size"}));
  keys.count("expert_shared_count", config.get_int({"num_shared_experts"}));
  keys.count("expert_gating_func", 2);  // sigmoid
  keys.of_model("expert_weights_norm", config.find_bool("moe_renormalize").value_or(true));
  keys.number("expert_weights_scale", config.get_number({"routed_scaling_factor"}));
  keys.count("leading_dense_block_count", n_dense);
}

void add_mamba2_keys(const Config& config, KeyList& keys) {
  const int64_t head_dim = config.find_int({"head_dim"}).value_or(64);
  const int64_t inner = config.d_model() * config.find_int({"expand"}).value_or(2);
  if (head_dim < 1 || inner % head_dim != 0) {
    config.fail("head_dim is " + std::to_string(head_dim) + ", expected a divisor of the inner size, " +
                std::to_string(inner) + "; the file is damaged.");
  }
  constexpr int64_t kContext = 1 << 20;  // a state has no longest context
  keys.count("block_count", config.n_layers());
  keys.count("context_length", kContext);
  keys.count("embedding_length", config.d_model());
  keys.count("feed_forward_length", 0);
  keys.count("attention.head_count", 0);
  keys.number("attention.layer_norm_rms_epsilon",
              config.find_number({"layer_norm_epsilon", "rms_norm_eps"}).value_or(1e-5));
  keys.count("vocab_size", config.get_int({"vocab_size"}));
  keys.count("ssm.conv_kernel", config.find_int({"conv_kernel"}).value_or(4));
  keys.count("ssm.state_size", config.find_int({"state_size"}).value_or(128));
  keys.count("ssm.group_count", config.find_int({"n_groups"}).value_or(1));
  keys.count("ssm.time_step_rank", inner / head_dim);
  keys.count("ssm.inner_size", inner);
}

void add_nemotron_h_keys(const Config& config, KeyList& keys) {
  const std::string letters = block_letters(config);
  const bool experts = has_expert_blocks(config);
  const int64_t width = config.get_int({experts ? "moe_intermediate_size" : "intermediate_size"});
  add_sizes(config, keys, context_of(config), width);
  std::vector<int32_t> widths;
  for (const char letter : letters)
    widths.push_back(letter == '-' || letter == 'E' ? static_cast<int32_t>(width) : 0);
  keys.of_model("feed_forward_length", widths);
  add_mamba_keys(config, keys, config.get_int({"mamba_head_dim"}), config.get_int({"mamba_num_heads"}));
  keys.count("vocab_size", config.get_int({"vocab_size"}));
  keys.count("rope.dimension_count", config.d_model() / config.n_heads());  // files have it; nothing turns
  keys.count("attention.key_length", config.head_dim());
  keys.count("attention.value_length", config.head_dim());
  const double eps = config.get_number({"layer_norm_epsilon", "norm_eps"});
  keys.number("attention.layer_norm_epsilon", eps);
  keys.number("attention.layer_norm_rms_epsilon", eps);
  if (!experts) return;
  copy_count(config, keys, "expert_count", "n_routed_experts");
  copy_count(config, keys, "expert_used_count", "num_experts_per_tok");
  copy_count(config, keys, "expert_shared_count", "n_shared_experts");
  copy_count(config, keys, "expert_feed_forward_length", "moe_intermediate_size");
  copy_count(config, keys, "expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size");
  copy_count(config, keys, "expert_group_count", "n_group");
  copy_count(config, keys, "expert_group_used_count", "topk_group");
  copy_count(config, keys, "moe_latent_size", "moe_latent_size");
  copy_number(config, keys, "expert_weights_scale", "routed_scaling_factor");
  keys.of_model("expert_weights_norm", config.find_bool("norm_topk_prob").value_or(true));
}

}  // namespace hearth::convert
