// Adds the keys of families whose layers have two kinds of attention, which only some of their numbers share.
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/file_error.h"
#include "profiler/convert/config.h"
#include "profiler/convert/family_keys.h"

namespace hearth::convert {
namespace {

using nlohmann::json;

constexpr int64_t kSigmoidRouter = 2;

/// Returns the x below which this share of the standard normal distribution lies; -infinity for 0.
double normal_quantile(double share) {
  if (share <= 0.0) return -std::numeric_limits<double>::infinity();
  double low = -40.0, high = 40.0;
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    (0.5 * std::erfc(-middle / std::numbers::sqrt2) < share ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

/// Returns the number of the first layers whose FFN is dense. Refuses models with dense layers after them.
int64_t leading_dense_layers(const Config& config) {
  const json& types = config.field({"mlp_layer_types"});
  int64_t n_dense = 0;
  for (size_t i = 0; types.is_array() && i < types.size(); ++i) {
    if (types[i] != "dense") continue;
    if (static_cast<int64_t>(i) != n_dense)
      config.fail("layer " + std::to_string(i) +
                  " is dense and follows one with experts; such models do not run yet.");
    ++n_dense;
  }
  return n_dense;
}

/// Refuses models in which other layers than every fourth are full. first: the first full one.
void check_every_fourth_is_full(const Config& config, size_t first, const char* windowed) {
  const json& types = config.field({"layer_types"});
  for (size_t i = 0; types.is_array() && i < types.size(); ++i) {
    if (types[i] == (i % 4 == first ? "full_attention" : windowed)) continue;
    config.fail("layer " + std::to_string(i) + " is " + file_error::quoted(types[i].dump()) +
                ", unlike that layer of the other models of its family; such models do not run yet.");
  }
}

/// The part of a head that RoPE rotates, for one kind of layers.
int64_t turned_part(const Config& config, const json& rope) {
  const auto share = rope.find("partial_rotary_factor");
  const double factor = share != rope.end() && share->is_number() ? share->get<double>() : 1.0;
  if (!(factor > 0.0 && factor <= 1.0))
    config.fail("partial_rotary_factor is not above 0 and at most 1; the file is damaged.");
  return static_cast<int64_t>(factor * static_cast<double>(config.head_dim()));
}

}  // namespace

bool is_mistral4(const Config& config) { return config.find_text({"model_type"}) == "mistral4"; }

void add_afmoe_keys(const Config& config, KeyList& keys) {
  check_every_fourth_is_full(config, 3, "sliding_attention");
  keys.count("vocab_size", config.get_int({"vocab_size"}));
  keys.count("rope.dimension_count", config.head_dim());
  keys.count("expert_shared_count", config.find_int({"num_shared_experts"}).value_or(0));
  keys.count("expert_feed_forward_length", config.get_int({"moe_intermediate_size"}));
  keys.count("leading_dense_block_count", config.find_int({"num_dense_layers"}).value_or(0));
  keys.of_model("expert_weights_norm", config.find_bool("route_norm").value_or(true));
  keys.number("expert_weights_scale", config.find_number({"route_scale"}).value_or(1.0));
  keys.count("expert_gating_func", kSigmoidRouter);
  keys.count("attention.sliding_window", config.get_int({"sliding_window"}));
}

void add_laguna_keys(const Config& config, KeyList& keys) {
  const int64_t window = config.find_int({"sliding_window"}).value_or(0);
  if (window > 0) {
    check_every_fourth_is_full(config, 0, "sliding_attention");
    keys.count("attention.sliding_window", window);
    keys.count("rope.dimension_count_swa", turned_part(config, config.local_rope()));
  }
  std::vector<int32_t> heads;
  const json& of_layers = config.field({"num_attention_heads_per_layer"});
  for (int64_t i = 0; i < config.n_layers(); ++i) {
    const auto at = static_cast<size_t>(i);
    const bool given = of_layers.is_array() && at < of_layers.size() && of_layers[at].is_number_unsigned();
    heads.push_back(given ? of_layers[at].get<int32_t>() : static_cast<int32_t>(config.n_heads()));
  }
  keys.of_model("attention.head_count", heads);
  keys.count("vocab_size", config.get_int({"vocab_size"}));
  keys.count("rope.dimension_count", turned_part(config, config.rope()));
  keys.count("expert_feed_forward_length", config.get_int({"moe_intermediate_size"}));
  keys.count("expert_shared_feed_forward_length", config.get_int({"shared_expert_intermediate_size"}));
  keys.of_model("expert_weights_norm", true);
  keys.number("expert_weights_scale", config.get_number({"moe_routed_scaling_factor"}));
  keys.count("expert_gating_func", kSigmoidRouter);
  keys.count("leading_dense_block_count", leading_dense_layers(config));
}

bool sees_both_ways(const Config& config) {
  return config.find_bool("use_bidirectional_attention").value_or(false);
}

void add_gemma3n_keys(const Config& config, KeyList& keys) {
  const auto n_layers = static_cast<size_t>(config.n_layers());
  const json& width = config.field({"intermediate_size"});
  std::vector<int32_t> widths;
  for (size_t i = 0; i < n_layers; ++i) {
    const json& one = width.is_array() && i < width.size() ? width[i] : width;
    if (!one.is_number_unsigned() || one > (1u << 20)) {
      config.fail("intermediate_size does not have the width of layer " + std::to_string(i) +
                  ", expected a number for each layer; the file is damaged.");
    }
    widths.push_back(one.get<int32_t>());
  }
  const json& types = config.field({"layer_types"});
  const json& shares = config.field({"activation_sparsity_pattern"});
  std::vector<bool> windowed;
  std::vector<float> cuts;
  for (size_t i = 0; i < n_layers; ++i) {
    if (!types.is_array() || types.size() != n_layers)
      config.fail("layer_types does not say of each layer whether it has a window; download the file again.");
    windowed.push_back(types[i] == "sliding_attention");
    const json& share = shares.is_array() && i < shares.size() ? shares[i] : shares;
    const double given = share.is_number() ? share.get<double>() : share.is_null() ? 0.0 : -1.0;
    if (!(given >= 0.0 && given < 1.0)) {
      config.fail("activation_sparsity_pattern is " + file_error::quoted(share.dump()) + " in layer " +
                  std::to_string(i) + ", expected a share below 1; the file is damaged.");
    }
    cuts.push_back(static_cast<float>(normal_quantile(given)));
  }
  keys.count("block_count", config.n_layers());
  keys.count("context_length", context_of(config));
  keys.count("embedding_length", config.d_model());
  keys.of_model("feed_forward_length", widths);
  keys.count("attention.head_count", config.n_heads());
  keys.count("attention.head_count_kv", config.n_kv_heads());
  keys.count("attention.key_length", config.head_dim());
  keys.count("attention.value_length", config.head_dim());
  keys.number("attention.layer_norm_rms_epsilon", config.get_number({"rms_norm_eps"}));
  keys.number("rope.freq_base", config.rope_number("rope_theta", 1e6));
  const json& local = config.local_rope();
  keys.number("rope.freq_base_swa", local.contains("rope_theta") && local["rope_theta"].is_number()
                                        ? local["rope_theta"].get<double>()
                                        : 1e4);
  keys.count("attention.sliding_window", config.get_int({"sliding_window"}));
  keys.of_model("attention.sliding_window_pattern", windowed);
  keys.count("attention.shared_kv_layers", config.find_int({"num_kv_shared_layers"}).value_or(0));
  keys.count("embedding_length_per_layer_input", config.get_int({"hidden_size_per_layer_input"}));
  keys.count("altup.active_idx", config.find_int({"altup_active_idx"}).value_or(0));
  keys.count("altup.num_inputs", config.get_int({"altup_num_inputs"}));
  keys.of_model("activation_sparsity_scale", cuts);
  copy_number(config, keys, "final_logit_softcapping", "final_logit_softcapping");
}

void add_llama4_keys(const Config& config, KeyList& keys) {
  const int64_t n_experts = config.find_int({"num_local_experts"}).value_or(0);
  if (config.find_bool("use_qk_norm").value_or(true) == (n_experts == 128)) {
    config.fail("use_qk_norm is " + std::string(n_experts == 128 ? "true" : "false") + " in a model of " +
                std::to_string(n_experts) +
                " experts, unlike in the family's other models; such models do not run yet.");
  }
  // The family's numbers are not in files; others get a key.
  constexpr int64_t kChunk = 8192;
  constexpr double kGrowth = 0.1;
  const json& types = config.field({"layer_types"});
  bool chunked = config.has("attention_chunk_size");
  if (types.is_array()) {
    chunked = false;
    for (const json& type : types) chunked = chunked || type == "chunked_attention";
  }
  if (chunked) check_every_fourth_is_full(config, 3, "chunked_attention");
  const int64_t chunk = chunked ? config.find_int({"attention_chunk_size"}).value_or(kChunk) : 0;
  if (chunk != kChunk) keys.count("attention.sliding_window", chunk);
  const int64_t span = config.find_int({"floor_scale"}).value_or(kChunk);
  if (span != kChunk) keys.count("attention.temperature_length", span);
  const double growth = config.find_number({"attn_scale"}).value_or(kGrowth);
  if (growth != kGrowth) keys.number("attention.temperature_scale", growth);
  keys.count("vocab_size", config.get_int({"vocab_size"}));
  keys.count("rope.dimension_count", config.head_dim());
  keys.count("feed_forward_length", config.get_int({"intermediate_size_mlp"}));
  keys.count("expert_feed_forward_length", config.get_int({"intermediate_size"}));
  keys.count("expert_shared_count", 1);
  keys.count("interleave_moe_layer_step", config.find_int({"interleave_moe_layer_step"}).value_or(1));
}

}  // namespace hearth::convert
