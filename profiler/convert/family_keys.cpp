// Adds the keys of each family, as llama.cpp's converters write them.
#include "profiler/convert/family_keys.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/file_error.h"
#include "profiler/convert/config.h"
#include "profiler/convert/delta_heads.h"

namespace hearth::convert {
namespace {

using nlohmann::json;

constexpr int64_t kSoftmax = 1, kSigmoid = 2;

void add_vocabulary_and_turned(const Config& config, KeyList& keys) {
  keys.count("vocab_size", config.get_int({"vocab_size"}));
  keys.count("rope.dimension_count", config.head_dim());
}

/// Reads the epsilon of the model's norms, which has several names.
double norm_eps(const Config& config) {
  return config.get_number({"layer_norm_epsilon", "layer_norm_eps", "norm_eps", "layernorm_epsilon"});
}

/// Returns which layers have windows, according to layer_types or sliding_window_pattern; empty if these
/// fields do not cover all layers.
std::vector<bool> windowed_layers(const Config& config) {
  const size_t n_layers = static_cast<size_t>(config.n_layers());
  std::vector<bool> windowed;
  const json& types = config.field({"layer_types"});
  const json& pattern = config.field({"sliding_window_pattern"});
  for (size_t i = 0; i < n_layers; ++i) {
    if (types.is_array() && i < types.size()) {
      windowed.push_back(types[i] == "sliding_attention");
    } else if (pattern.is_number_unsigned() && pattern.get<uint64_t>() > 0) {
      windowed.push_back((i + 1) % pattern.get<uint64_t>() != 0);
    } else if (pattern.is_string() && !pattern.get_ref<const std::string&>().empty()) {
      const std::string& letters = pattern.get_ref<const std::string&>();
      windowed.push_back(letters[i % letters.size()] == 'L');
    }
  }
  if (windowed.size() != n_layers) windowed.clear();
  return windowed;
}

/// Returns a number that the field gives once, or for each layer. Refuses models whose layers differ.
int64_t number_of_all_layers(const Config& config, const char* name) {
  const json& field = config.field({name});
  if (!field.is_array()) return config.get_int({name});
  for (const json& one : field) {
    if (!one.is_number_unsigned() || one != field[0]) {
      config.fail(std::string(name) + " is " + file_error::quoted(field.dump()) +
                  ", expected the same number for all layers; such models do not run yet.");
    }
  }
  if (field.empty()) config.fail(std::string(name) + " is empty; the file is damaged.");
  return field[0].get<int64_t>();
}

/// Refuses models that do not follow their architecture's fixed rule for windows: layer i has full attention
/// if i % period == full, otherwise a window.
void check_windows(const Config& config, int64_t period, int64_t full) {
  const std::vector<bool> windowed = windowed_layers(config);
  for (size_t i = 0; i < windowed.size(); ++i) {
    if (windowed[i] != (static_cast<int64_t>(i) % period != full)) {
      config.fail("layer " + std::to_string(i) + " attends to " + (windowed[i] ? "a window" : "everything") +
                  ", unlike that layer of the other models of its family; such models do not run yet.");
    }
  }
}

}  // namespace

void copy_count(const Config& config, KeyList& keys, const char* key, const char* field) {
  if (const auto found = config.find_int({field})) keys.count(key, *found);
}

void copy_number(const Config& config, KeyList& keys, const char* key, const char* field) {
  if (const auto found = config.find_number({field})) keys.number(key, *found);
}

void add_sizes(const Config& config, KeyList& keys, int64_t context, int64_t d_ff) {
  keys.count("block_count", config.n_layers());
  keys.count("context_length", context);
  keys.count("embedding_length", config.d_model());
  keys.count("feed_forward_length", d_ff);
  keys.count("attention.head_count", config.n_heads());
}

int64_t context_of(const Config& config) {
  return config.get_int({"max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length"});
}

int64_t falcon_kv_heads(const Config& config) {
  if (config.find_bool("new_decoder_architecture").value_or(false)) {
    return config.find_int({"num_kv_heads", "n_head_kv"}).value_or(config.n_heads());
  }
  return config.find_bool("multi_query").value_or(true) ? 1 : config.n_heads();
}

int64_t first_position_row(const Config& config) {
  const std::string type = config.find_text({"model_type"});
  const bool padded = type == "roberta" || type == "xlm-roberta" || type == "camembert";
  return padded ? config.find_int({"pad_token_id"}).value_or(1) + 1 : 0;
}

void add_llama_keys(const Config& config, KeyList& keys) {
  add_vocabulary_and_turned(config, keys);
  add_plain_window_keys(config, keys);
}

void add_plain_window_keys(const Config& config, KeyList& keys) {
  const int64_t window = config.find_int({"sliding_window"}).value_or(0);
  if (window <= 0 || !config.find_bool("use_sliding_window").value_or(true) || window >= context_of(config))
    return;
  keys.count("attention.sliding_window", window);
  // In Qwen 2, a config can give windows to only the last layers.
  std::vector<bool> windowed = windowed_layers(config);
  const auto first = config.find_int({"max_window_layers"});
  if (windowed.empty() && first) {
    for (int64_t i = 0; i < config.n_layers(); ++i) windowed.push_back(i >= *first);
  }
  if (!windowed.empty()) keys.of_model("attention.sliding_window_pattern", windowed);
}

void add_falcon_keys(const Config& config, KeyList& keys) {
  if (config.find_bool("alibi").value_or(false))
    config.fail("alibi is true: positions as slopes of the scores do not run yet.");
  const int64_t d_model = config.d_model();
  add_sizes(config, keys, config.find_int({"max_position_embeddings"}).value_or(2048),
            config.find_int({"ffn_hidden_size"}).value_or(4 * d_model));
  keys.count("attention.head_count_kv", falcon_kv_heads(config));
  keys.number("attention.layer_norm_epsilon", config.get_number({"layer_norm_epsilon"}));
  keys.of_model("tensor_data_layout", "jploski");
}

void add_opt_keys(const Config& config, KeyList& keys) {
  if (!config.find_bool("do_layer_norm_before").value_or(true)) {
    config.fail(
        "do_layer_norm_before is false: norms behind attention and the FFN do not run yet in this family.");
  }
  // In GGUF files of this architecture, the context length also counts the two rows of the position table
  // that precede the row of a text's first position.
  add_sizes(config, keys, context_of(config) + 2, config.get_int({"ffn_dim"}));
}

void add_expert_width_keys(const Config& config, KeyList& keys) {
  add_plain_window_keys(config, keys);
  copy_count(config, keys, "expert_feed_forward_length", "moe_intermediate_size");
  copy_count(config, keys, "expert_shared_feed_forward_length", "shared_expert_intermediate_size");
  if (config.find_int({"decoder_sparse_step"}).value_or(1) != 1) {
    config.fail(
        "decoder_sparse_step is not 1: layers without experts between those that have them do not run yet.");
  }
}

namespace {

/// Adds how many pairs of dimensions turn by the position on each axis (time, height, width). by_default:
/// the numbers of models whose config has none.
void add_axes(const Config& config, KeyList& keys, std::vector<int32_t> by_default = {}) {
  const json& sections = config.rope().contains("mrope_section") ? config.rope()["mrope_section"] : json();
  std::vector<int32_t> counts;
  if (sections.is_null()) counts = std::move(by_default);
  for (size_t i = 0; sections.is_array() && i < sections.size(); ++i) {
    const json& section = sections[i];
    if (!section.is_number_unsigned() || section.get<uint64_t>() > 4096) {
      config.fail("mrope_section has " + file_error::quoted(section.dump()) +
                  ", expected a number of dimension pairs; the file is damaged.");
    }
    counts.push_back(section.get<int32_t>());
  }
  if (counts.empty() || counts.size() > 4) {
    config.fail("mrope_section has " + std::to_string(counts.size()) +
                " numbers, expected one for each of up to 4 axes; the file is damaged.");
  }
  counts.resize(4);
  keys.of_model("rope.dimension_sections", counts);
}

}  // namespace

void add_qwen3next_keys(const Config& config, KeyList& keys) {
  if (config.has("num_experts")) add_expert_width_keys(config, keys);
  const DeltaHeads heads(config);
  if (heads.d_k != heads.d_v) {
    config.fail("linear_key_head_dim is " + std::to_string(heads.d_k) + " and linear_value_head_dim is " +
                std::to_string(heads.d_v) + ", expected equal sizes; such models do not run yet.");
  }
  keys.count("ssm.conv_kernel", config.get_int({"linear_conv_kernel_dim"}));
  keys.count("ssm.state_size", heads.d_k);
  keys.count("ssm.group_count", heads.n_k);
  keys.count("ssm.time_step_rank", heads.n_v);
  keys.count("ssm.inner_size", heads.value_rows());
  const json& types = config.field({"layer_types"});
  std::vector<bool> recurrent;
  for (size_t i = 0; types.is_array() && i < types.size(); ++i)
    recurrent.push_back(types[i] == "linear_attention");
  if (!recurrent.empty() && static_cast<int64_t>(recurrent.size()) != config.n_layers()) {
    config.fail("layer_types has " + std::to_string(recurrent.size()) + " entries, expected " +
                std::to_string(config.n_layers()) + ", one for each layer; the file is damaged.");
  }
  if (!recurrent.empty()) keys.of_model("attention.recurrent_layers", recurrent);
  // Without the field, the first full layer tells the interval, and without layer_types it is Qwen's usual 4.
  const int64_t first_full = std::find(recurrent.begin(), recurrent.end(), false) - recurrent.begin();
  const int64_t interval = first_full < config.n_layers() && !recurrent.empty() ? first_full + 1 : 4;
  keys.count("full_attention_interval", config.find_int({"full_attention_interval"}).value_or(interval));
  keys.count("rope.dimension_count", config.n_rot(0.25));
}

void add_qwen35_keys(const Config& config, KeyList& keys) {
  add_qwen3next_keys(config, keys);
  add_axes(config, keys, {11, 11, 10});
}

namespace {

/// Adds the keys that the models of LFM2 share. Layers are attention or short convolutions.
void add_short_conv_keys(const Config& config, KeyList& keys) {
  if (config.find_bool("conv_bias").value_or(false))
    config.fail("conv_bias is true: convolutions with biases do not run yet in this family.");
  const int64_t n_layers = config.n_layers(), n_kv_heads = config.n_kv_heads();
  const json& types = config.field({"layer_types"});
  const json& full = config.field({"full_attn_idxs"});  // of older configs
  std::vector<int32_t> heads;
  for (size_t i = 0; i < static_cast<size_t>(n_layers); ++i) {
    if (types.is_array() && i < types.size()) {
      heads.push_back(static_cast<int32_t>(types[i] == "conv" ? 0 : n_kv_heads));
    } else if (types.is_null() && full.is_array()) {
      const bool is_full = std::find(full.begin(), full.end(), json(i)) != full.end();
      heads.push_back(static_cast<int32_t>(is_full ? n_kv_heads : 0));
    }
  }
  if (static_cast<int64_t>(heads.size()) != n_layers || (types.is_array() && types.size() != heads.size())) {
    config.fail("layer_types does not say of each of " + std::to_string(n_layers) +
                " layers whether it is a convolution; download the file again.");
  }
  keys.of_model("attention.head_count_kv", heads);
  keys.count("vocab_size", config.get_int({"vocab_size"}));
  keys.count("shortconv.l_cache", config.get_int({"conv_L_cache"}));
}

}  // namespace

void add_lfm2_keys(const Config& config, KeyList& keys) {
  add_short_conv_keys(config, keys);
  // In the model's code, two thirds of the field and then a multiple of a number.
  int64_t width = config.get_int({"block_ff_dim", "intermediate_size"});
  if (config.find_bool("block_auto_adjust_ff_dim").value_or(true)) {
    const int64_t multiple = config.get_int({"block_multiple_of"});
    const double factor = config.get_number({"block_ffn_dim_multiplier"});
    const double adjusted = std::trunc(factor * std::trunc(2.0 * static_cast<double>(width) / 3.0));
    if (multiple < 1 || !(adjusted >= 1.0 && adjusted <= double{INT32_MAX})) {
      config.fail("block_multiple_of is " + std::to_string(multiple) + " and intermediate_size is " +
                  std::to_string(width) + ", expected a number of neurons; the file is damaged.");
    }
    width = (static_cast<int64_t>(adjusted) + multiple - 1) / multiple * multiple;
  }
  keys.count("feed_forward_length", width);
}

void add_lfm2moe_keys(const Config& config, KeyList& keys) {
  add_short_conv_keys(config, keys);
  if (config.find_number({"routed_scaling_factor"}).value_or(1.0) != 1.0 ||
      !config.find_bool("norm_topk_prob").value_or(true)) {
    config.fail(
        "norm_topk_prob is false or routed_scaling_factor is not 1, unlike in the family's other models; "
        "such "
        "models do not run yet.");
  }
  keys.count("expert_feed_forward_length", config.get_int({"moe_intermediate_size"}));
  keys.count("leading_dense_block_count", config.find_int({"num_dense_layers"}).value_or(2));
  keys.count("expert_gating_func", kSigmoid);
}

void add_qwen3vl_keys(const Config& config, KeyList& keys) {
  add_axes(config, keys);
  const json& vision = config.field({"vision_config"});
  const bool stacked = vision.is_object() && vision.contains("deepstack_visual_indexes") &&
                       vision["deepstack_visual_indexes"].is_array();
  keys.count("n_deepstack_layers",
             stacked ? static_cast<int64_t>(vision["deepstack_visual_indexes"].size()) : 0);
}

void add_qwen3vlmoe_keys(const Config& config, KeyList& keys) {
  add_expert_width_keys(config, keys);
  add_qwen3vl_keys(config, keys);
}

void add_gemma_keys(const Config& config, KeyList& keys) {
  keys.remove("rope.freq_base");  // the architecture implies it
  copy_number(config, keys, "attn_logit_softcapping", "attn_logit_softcapping");
  copy_number(config, keys, "final_logit_softcapping", "final_logit_softcapping");
  if (config.has("query_pre_attn_scalar")) {
    check_windows(config, 2, 1);
    copy_count(config, keys, "attention.sliding_window", "sliding_window");
  }
}

void add_gemma3_keys(const Config& config, KeyList& keys) {
  check_windows(config, 6, 5);
  copy_number(config, keys, "final_logit_softcapping", "final_logit_softcapping");
  keys.count("attention.sliding_window", config.get_int({"sliding_window"}));
}

void add_gemma4_keys(const Config& config, KeyList& keys) {
  const std::vector<bool> windowed = windowed_layers(config);
  if (windowed.empty()) {
    config.fail(
        "layer_types does not say of each layer whether it has a window, as in the family's other "
        "models; download the file again.");
  }
  const int64_t n_layers = config.n_layers(), d_ff = config.get_int({"intermediate_size"});
  const int64_t n_shared = config.find_int({"num_kv_shared_layers"}).value_or(0);
  const int64_t heads = config.n_kv_heads(), full_heads = config.of_full_layers("num_global_key_value_heads",
                                                                                "num_key_value_heads", heads);
  const int64_t dim = config.head_dim(), full_dim = config.of_full_layers("global_head_dim", "head_dim", dim);
  const bool wide = config.find_bool("use_double_wide_mlp").value_or(false);
  if (n_shared < 0 || n_shared > n_layers || d_ff > INT32_MAX / 2) {
    config.fail("num_kv_shared_layers is " + std::to_string(n_shared) + " and intermediate_size is " +
                std::to_string(d_ff) + ", expected at most " + std::to_string(n_layers) +
                " layers and a number of neurons; the file is damaged.");
  }
  std::vector<int32_t> kv_heads, widths;
  for (int64_t i = 0; i < n_layers; ++i) {
    kv_heads.push_back(static_cast<int32_t>(windowed[static_cast<size_t>(i)] ? heads : full_heads));
    widths.push_back(static_cast<int32_t>(i < n_layers - n_shared ? d_ff : 2 * d_ff));
  }
  if (wide) keys.of_model("feed_forward_length", widths);
  if (full_heads != heads) keys.of_model("attention.head_count_kv", kv_heads);
  keys.count("attention.shared_kv_layers", n_shared);
  keys.count("embedding_length_per_layer_input",
             config.find_int({"hidden_size_per_layer_input"}).value_or(0));
  keys.count("attention.sliding_window", config.get_int({"sliding_window"}));
  keys.of_model("attention.sliding_window_pattern", windowed);
  keys.count("attention.key_length", full_dim);
  keys.count("attention.value_length", full_dim);
  keys.count("attention.key_length_swa", dim);
  keys.count("attention.value_length_swa", dim);
  keys.count("rope.dimension_count", full_dim);  // the tensor rope_freqs stops the pairs that do not turn
  keys.count("rope.dimension_count_swa", dim);
  copy_number(config, keys, "final_logit_softcapping", "final_logit_softcapping");
  copy_count(config, keys, "expert_used_count", "top_k_experts");
  copy_count(config, keys, "expert_feed_forward_length", "moe_intermediate_size");
}

void add_gpt_oss_keys(const Config& config, KeyList& keys) {
  check_windows(config, 2, 1);
  keys.count("attention.sliding_window", config.get_int({"sliding_window"}));
  keys.count("expert_feed_forward_length", config.get_int({"intermediate_size"}));
}

void add_window_pattern_keys(const Config& config, KeyList& keys) {
  const auto window = config.find_int({"sliding_window"});
  const std::vector<bool> windowed = windowed_layers(config);
  if (!window || windowed.empty()) return;
  keys.count("attention.sliding_window", *window);
  keys.of_model("attention.sliding_window_pattern", windowed);
}

void add_mellum_keys(const Config& config, KeyList& keys) {
  add_window_pattern_keys(config, keys);
  keys.count("expert_feed_forward_length", config.get_int({"moe_intermediate_size"}));
}

void add_granite_keys(const Config& config, KeyList& keys) {
  add_vocabulary_and_turned(config, keys);
  keys.remove("attention.key_length");
  keys.remove("attention.value_length");
  for (const auto& [key, field] : {std::pair{"attention.scale", "attention_multiplier"},
                                   {"embedding_scale", "embedding_multiplier"},
                                   {"residual_scale", "residual_multiplier"},
                                   {"logit_scale", "logits_scaling"}}) {
    if (config.find_number({field}).value_or(0.0) != 0.0) copy_number(config, keys, key, field);
  }
  if (config.find_int({"shared_intermediate_size"}).value_or(0) > 0) {
    copy_count(config, keys, "expert_shared_feed_forward_length", "shared_intermediate_size");
  }
}

void add_half_turned_keys(const Config& config, KeyList& keys) {
  keys.count("rope.dimension_count", config.n_rot(0.5));
}

void add_glm4moe_keys(const Config& config, KeyList& keys) {
  add_half_turned_keys(config, keys);
  add_dots1_keys(config, keys);
}

void add_dots1_keys(const Config& config, KeyList& keys) {
  copy_count(config, keys, "expert_count", "n_routed_experts");
  copy_count(config, keys, "expert_feed_forward_length", "moe_intermediate_size");
  copy_count(config, keys, "expert_shared_count", "n_shared_experts");
  copy_count(config, keys, "leading_dense_block_count", "first_k_dense_replace");
  keys.count("expert_gating_func", kSigmoid);
  copy_number(config, keys, "expert_weights_scale", "routed_scaling_factor");
  if (const auto norm = config.find_bool("norm_topk_prob")) keys.of_model("expert_weights_norm", *norm);
}

void add_ernie_keys(const Config& config, KeyList& keys) {
  const int64_t width = config.get_int({"moe_intermediate_size"});
  const int64_t n_shared = config.find_int({"moe_num_shared_experts"}).value_or(0);
  keys.count("expert_count", config.get_int({"moe_num_experts"}));
  keys.count("expert_used_count", config.get_int({"moe_k"}));
  keys.count("interleave_moe_layer_step", config.find_int({"moe_layer_interval"}).value_or(1));
  keys.count("leading_dense_block_count", config.find_int({"moe_layer_start_index"}).value_or(1));
  keys.count("expert_feed_forward_length", width);
  keys.count("expert_shared_count", n_shared);
  if (n_shared > 0) keys.count("expert_shared_feed_forward_length", width * n_shared);
}

void add_bailing2_keys(const Config& config, KeyList& keys) {
  const int64_t width = config.get_int({"moe_intermediate_size"}),
                n_shared = config.get_int({"num_shared_experts"});
  add_half_turned_keys(config, keys);
  keys.count("vocab_size", config.get_int({"vocab_size"}));
  keys.count("leading_dense_block_count", config.get_int({"first_k_dense_replace"}));
  keys.count("expert_feed_forward_length", width);
  keys.count("expert_shared_count", n_shared);
  keys.count("expert_shared_feed_forward_length",
             config.find_int({"moe_shared_expert_intermediate_size"}).value_or(width * n_shared));
  keys.count("expert_gating_func", kSigmoid);
  keys.number("expert_weights_scale", config.get_number({"routed_scaling_factor"}));
  keys.of_model("expert_weights_norm", config.find_bool("norm_topk_prob").value_or(true));
}

void add_minimax_keys(const Config& config, KeyList& keys) {
  keys.count("expert_feed_forward_length", config.get_int({"intermediate_size"}));
  keys.count("rope.dimension_count", config.find_int({"rotary_dim"}).value_or(config.n_rot()));
  keys.count("expert_gating_func", kSigmoid);
}

void add_deepseek_keys(const Config& config, KeyList& keys) {
  add_vocabulary_and_turned(config, keys);
  keys.of_model("rope.scaling.type", "none");
  keys.count("leading_dense_block_count", config.find_int({"first_k_dense_replace"}).value_or(0));
  keys.count("expert_feed_forward_length", config.get_int({"moe_intermediate_size"}));
  keys.number("expert_weights_scale", 1.0);
  keys.count("expert_count", config.get_int({"n_routed_experts"}));
  keys.count("expert_shared_count", config.get_int({"n_shared_experts"}));
}

void add_deepseek2_keys(const Config& config, KeyList& keys) {
  const int64_t rank = config.get_int({"kv_lora_rank"}), turned = config.get_int({"qk_rope_head_dim"});
  const bool softmax =
      config.find_text({"scoring_func"}) == "softmax" || config.find_text({"model_type"}) == "deepseek_v2";
  keys.count("attention.head_count_kv", 1);  // one latent for all heads
  if (!config.find_number({"rms_norm_eps", "norm_eps"}))
    keys.number("attention.layer_norm_rms_epsilon", 1e-6);
  keys.count("leading_dense_block_count", config.has("n_routed_experts")
                                              ? config.find_int({"first_k_dense_replace"}).value_or(0)
                                              : config.n_layers());
  keys.count("vocab_size", config.get_int({"vocab_size"}));
  copy_count(config, keys, "attention.q_lora_rank", "q_lora_rank");
  keys.count("attention.kv_lora_rank", rank);
  keys.count("attention.key_length", rank + turned);
  keys.count("attention.value_length", rank);
  keys.count("attention.key_length_mla", config.get_int({"qk_nope_head_dim"}) + turned);
  keys.count("attention.value_length_mla", config.get_int({"v_head_dim"}));
  keys.count("expert_feed_forward_length", config.get_int({"moe_intermediate_size", "intermediate_size"}));
  copy_count(config, keys, "expert_count", "n_routed_experts");
  keys.count("expert_shared_count", config.find_int({"n_shared_experts"}).value_or(0));
  copy_number(config, keys, "expert_weights_scale", "routed_scaling_factor");
  // The published code of V2 never renormalizes the experts' weights, even if config.json says so.
  if (config.find_bool("norm_topk_prob").value_or(false) && !softmax)
    keys.of_model("expert_weights_norm", true);
  keys.count("expert_gating_func", softmax ? kSoftmax : kSigmoid);
  if (config.find_text({"topk_method"}) == "greedy") {
    keys.remove("expert_group_count");
    keys.remove("expert_group_used_count");
  }
  keys.count("rope.dimension_count", turned);
  const double all = config.rope_number("mscale_all_dim", 0.0);
  // In GGUF files of this architecture, rope.scaling.yarn_log_multiplier is 0.1 * mscale_all_dim. In files of
  // other architectures, it is mscale_all_dim itself.
  if (all != 0.0) keys.number("rope.scaling.yarn_log_multiplier", 0.1 * all);
}

void add_mistral4_keys(const Config& config, KeyList& keys) {
  add_deepseek2_keys(config, keys);
  keys.remove("expert_gating_func");  // the architecture's, softmax
  constexpr double kGrowth = 0.1;     // the family's, which is not in files
  const double growth = config.rope_number("llama_4_scaling_beta", kGrowth);
  if (growth != kGrowth) keys.number("attention.temperature_scale", growth);
  keys.of_model("expert_weights_norm", config.find_bool("norm_topk_prob").value_or(true));
}

void add_indexed_keys(const Config& config, KeyList& keys) {
  add_deepseek2_keys(config, keys);
  keys.count("attention.indexer.head_count", config.get_int({"index_n_heads"}));
  keys.count("attention.indexer.key_length", config.get_int({"index_head_dim"}));
  keys.count("attention.indexer.top_k", config.get_int({"index_topk"}));
  const json& types = config.field({"indexer_types"});
  if (!types.is_array()) return;
  std::vector<bool> full;
  for (const json& type : types) full.push_back(type == "full");
  keys.of_model("attention.indexer.types", full);
}

void add_smallthinker_keys(const Config& config, KeyList& keys) {
  const int64_t width = config.get_int({"moe_ffn_hidden_size"});
  keys.count("expert_count", config.get_int({"moe_num_primary_experts"}));
  keys.count("expert_used_count", config.get_int({"moe_num_active_primary_experts"}));
  keys.count("expert_feed_forward_length", width);
  keys.count("feed_forward_length", width);
  keys.count("expert_gating_func",
             config.find_bool("moe_primary_router_apply_softmax").value_or(false) ? kSoftmax : kSigmoid);
  const json& layout = config.field({"sliding_window_layout"});
  bool any = false;
  for (size_t i = 0; layout.is_array() && i < layout.size(); ++i) {
    const bool has_window = layout[i] != 0;
    if (has_window != (i % 4 != 0))
      config.fail(
          "sliding_window_layout differs from the family's other models; such models do not run yet.");
    any = any || has_window;
  }
  if (any) keys.count("attention.sliding_window", config.get_int({"sliding_window_size"}));
}

void add_mistral3_keys(const Config& config, KeyList& keys) {
  add_vocabulary_and_turned(config, keys);
  const double growth = config.rope_number("llama_4_scaling_beta", 0.0);
  if (growth != 0.0) keys.number("attention.temperature_scale", growth);
  const double all = config.rope_number("mscale_all_dim", 0.0);
  if (all != 0.0) keys.number("rope.scaling.yarn_log_multiplier", all);
}

void add_smollm3_keys(const Config& config, KeyList& keys) {
  const json& turned = config.field({"no_rope_layers"});  // 1: has RoPE
  for (size_t i = 0; turned.is_array() && i < turned.size(); ++i) {
    if ((turned[i] != 0) != (i % 4 != 3))
      config.fail("no_rope_layers differs from SmolLM3's, every fourth; such models do not run yet.");
  }
  add_vocabulary_and_turned(config, keys);
}

void add_exaone4_keys(const Config& config, KeyList& keys) {
  keys.count("vocab_size", config.get_int({"vocab_size"}));
  add_window_pattern_keys(config, keys);
}

void add_exaone_moe_keys(const Config& config, KeyList& keys) {
  add_exaone4_keys(config, keys);
  add_dots1_keys(config, keys);
  const int64_t width = config.get_int({"moe_intermediate_size"});
  const int64_t n_shared = config.find_int({"num_shared_experts"}).value_or(0);
  keys.count("expert_shared_count", n_shared);
  keys.count("expert_shared_feed_forward_length", width * n_shared);
  copy_count(config, keys, "leading_dense_block_count", "first_last_k_dense_replace");
  keys.of_model("rope.scaling.type", "none");
}

void add_hunyuan_moe_keys(const Config& config, KeyList& keys) {
  add_hunyuan_keys(config, keys);
  keys.count("expert_used_count", number_of_all_layers(config, "moe_topk"));
  keys.count("expert_feed_forward_length", number_of_all_layers(config, "moe_intermediate_size"));
  const int64_t n_shared = number_of_all_layers(config, "num_shared_expert");
  keys.count("expert_shared_count", n_shared);
  keys.count("expert_shared_feed_forward_length", n_shared * config.get_int({"intermediate_size"}));
}

void add_hunyuan_keys(const Config& config, KeyList& keys) {
  // RoPE scaling of type "dynamic" with a value for alpha is NTK scaling by a fixed factor. It gives the same
  // frequencies as no scaling with a larger frequency base.
  const double alpha = config.rope_number("alpha", 0.0);
  const json& type = config.rope().contains("rope_type") ? config.rope()["rope_type"] : json();
  if (type != "dynamic" || alpha == 0.0) return;
  const double n = static_cast<double>(config.head_dim());
  keys.number("rope.freq_base", config.rope_number("rope_theta", 10000.0) * std::pow(alpha, n / (n - 2.0)));
}

void add_phi2_keys(const Config& config, KeyList& keys) {
  add_sizes(config, keys, context_of(config),
            config.find_int({"intermediate_size", "n_inner"}).value_or(4 * config.d_model()));
  keys.count("attention.head_count_kv", config.n_kv_heads());
  keys.number("attention.layer_norm_epsilon", norm_eps(config));
  keys.count("rope.dimension_count", config.n_rot(0.5));
}

void add_phi3_keys(const Config& config, KeyList& keys) {
  const int64_t context = context_of(config);
  const int64_t original = config.rope_count("original_max_position_embeddings", context);
  add_sizes(config, keys, context, config.get_int({"intermediate_size"}));
  keys.count("rope.scaling.original_context_length", original);
  keys.count("attention.head_count_kv", config.n_kv_heads());
  keys.number("attention.layer_norm_rms_epsilon", config.get_number({"rms_norm_eps"}));
  keys.count("rope.dimension_count", config.n_rot());
  keys.number("rope.freq_base", config.rope_number("rope_theta", 10000.0));
  keys.count("attention.sliding_window", config.find_int({"sliding_window"}).value_or(0));
  if (config.rope().contains("long_factor")) {
    const double n = static_cast<double>(original), scale = static_cast<double>(context) / n;
    keys.number("rope.scaling.attn_factor",
                scale > 1.0 ? std::sqrt(1.0 + std::log(scale) / std::log(n)) : 1.0);
  }
}

void add_cohere_keys(const Config& config, KeyList& keys) {
  keys.number("logit_scale", config.get_number({"logit_scale"}));
  keys.of_model("rope.scaling.type", "none");
}

void add_cohere2_keys(const Config& config, KeyList& keys) {
  check_windows(config, 4, 3);
  add_cohere_keys(config, keys);
  keys.count("attention.sliding_window", config.get_int({"sliding_window"}));
  keys.count("vocab_size", config.get_int({"vocab_size"}));
  keys.count("rope.dimension_count", config.n_rot());
}

void add_nemotron_keys(const Config& config, KeyList& keys) {
  keys.number("attention.layer_norm_epsilon", config.get_number({"norm_eps", "layer_norm_eps"}));
  keys.count("vocab_size", config.get_int({"vocab_size"}));
  keys.count("rope.dimension_count", config.n_rot(0.5));
  keys.of_model("rope.scaling.type", "none");
}

void add_gpt2_keys(const Config& config, KeyList& keys) {
  add_sizes(config, keys, context_of(config), config.find_int({"n_inner"}).value_or(4 * config.d_model()));
  keys.number("attention.layer_norm_epsilon", config.get_number({"layer_norm_epsilon"}));
}

void add_gptneox_keys(const Config& config, KeyList& keys) {
  add_sizes(config, keys, context_of(config), config.get_int({"intermediate_size"}));
  keys.count("rope.dimension_count", config.n_rot(0.25));
  keys.of_model("use_parallel_residual", config.find_bool("use_parallel_residual").value_or(true));
  keys.number("attention.layer_norm_epsilon", config.get_number({"layer_norm_eps"}));
  const double base = config.rope_number("rope_theta", 10000.0);
  if (base != 10000.0) keys.number("rope.freq_base", base);
}

void add_stablelm_keys(const Config& config, KeyList& keys) {
  add_sizes(config, keys, context_of(config), config.get_int({"intermediate_size"}));
  keys.count("rope.dimension_count", config.n_rot(0.25));
  keys.count("attention.head_count_kv", config.n_kv_heads());
  keys.of_model("use_parallel_residual", config.find_bool("use_parallel_residual").value_or(true));
  keys.number("attention.layer_norm_epsilon", norm_eps(config));
  const double base = config.rope_number("rope_theta", 10000.0);
  if (base != 10000.0) keys.number("rope.freq_base", base);
}

void add_bert_keys(const Config& config, KeyList& keys) {
  keys.of_model("attention.causal", false);
  keys.number("attention.layer_norm_epsilon",
              config.find_number({"layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"}).value_or(1e-12));
  if (const int64_t offset = first_position_row(config)) {
    keys.count("context_length", context_of(config) - offset);
  }
  keys.remove("attention.head_count_kv");
}

void add_jina_bert_v2_keys(const Config& config, KeyList& keys) {
  const std::string kind = config.find_text({"feed_forward_type"});
  if (kind != "geglu")
    config.fail("feed_forward_type is " + file_error::quoted(kind) +
                ", expected geglu; such models do not run yet.");
  add_bert_keys(config, keys);
}

void add_eurobert_keys(const Config&, KeyList& keys) {
  keys.of_model("attention.causal", false);
  keys.of_model("rope.scaling.type", "none");
}

void add_modern_bert_keys(const Config& config, KeyList& keys) {
  keys.of_model("attention.causal", false);
  keys.remove("attention.layer_norm_rms_epsilon");
  keys.number("attention.layer_norm_epsilon", norm_eps(config));
  keys.count("vocab_size", config.get_int({"vocab_size"}));
  keys.of_model("rope.scaling.type", "none");
  keys.count("attention.sliding_window", config.get_int({"local_attention"}));
  if (const auto period = config.find_int({"global_attn_every_n_layers"})) {
    keys.count("attention.sliding_window_pattern", *period);
  } else if (const std::vector<bool> windowed = windowed_layers(config); !windowed.empty()) {
    keys.of_model("attention.sliding_window_pattern", windowed);
  }
  const std::string activation = config.find_text({"hidden_activation"});
  keys.of_model("hidden_activation", activation.empty() ? "gelu" : activation);
  if (config.has("classifier_pooling"))
    keys.count("classifier.pooling_type", config.find_text({"classifier_pooling"}) == "mean" ? 1 : 2);
}

}  // namespace hearth::convert
