// Each of these functions adds the keys of one or several families, after the common keys (but see
// Family::own_keys). The rows of family.cpp name the function of each family.
//
// Each throws std::runtime_error (one sentence) if config.json lacks a needed field, or asks for a feature
// that the engine does not run.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace hearth::convert {

class Config;
class KeyList;
struct RowFactor;

/// The number of Falcon's key and value heads, which depends on three fields of its config.json.
int64_t falcon_kv_heads(const Config& config);
/// Returns which row of the table of learned positions belongs to a text's first position. In RoBERTa's
/// tables, rows for padding precede this row. In other tables, it is row 0.
int64_t first_position_row(const Config& config);

void add_llama_keys(const Config& config, KeyList& keys);
/// Adds the keys of a sliding window, for families in which most models have no window. llama.cpp's
/// converters omit these keys.
void add_plain_window_keys(const Config& config, KeyList& keys);
void add_falcon_keys(const Config& config, KeyList& keys);
void add_opt_keys(const Config& config, KeyList& keys);
void add_expert_width_keys(const Config& config, KeyList& keys);
bool is_granite4_of_attention(const Config& config);
bool has_local_experts(const Config& config);
bool has_expert_blocks(const Config& config);
void add_granite4_keys(const Config& config, KeyList& keys);
void add_granitehybrid_keys(const Config& config, KeyList& keys);
void add_nemotron_h_keys(const Config& config, KeyList& keys);
void add_qwen3next_keys(const Config& config, KeyList& keys);
void add_qwen35_keys(const Config& config, KeyList& keys);
void add_lfm2_keys(const Config& config, KeyList& keys);
void add_lfm2moe_keys(const Config& config, KeyList& keys);
void add_qwen3vl_keys(const Config& config, KeyList& keys);
void add_qwen3vlmoe_keys(const Config& config, KeyList& keys);
void add_gemma_keys(const Config& config, KeyList& keys);
void add_gemma3_keys(const Config& config, KeyList& keys);
/// Whether tokens attend to later ones.
bool sees_both_ways(const Config& config);
void add_gemma3n_keys(const Config& config, KeyList& keys);
void add_gemma4_keys(const Config& config, KeyList& keys);
void add_gpt_oss_keys(const Config& config, KeyList& keys);
void add_window_pattern_keys(const Config& config, KeyList& keys);
void add_mellum_keys(const Config& config, KeyList& keys);
void add_granite_keys(const Config& config, KeyList& keys);
void add_half_turned_keys(const Config& config, KeyList& keys);
void add_glm4moe_keys(const Config& config, KeyList& keys);
void add_dots1_keys(const Config& config, KeyList& keys);
void add_ernie_keys(const Config& config, KeyList& keys);
void add_minimax_keys(const Config& config, KeyList& keys);
void add_deepseek_keys(const Config& config, KeyList& keys);
void add_deepseek2_keys(const Config& config, KeyList& keys);
void add_bailing2_keys(const Config& config, KeyList& keys);
void add_mistral4_keys(const Config& config, KeyList& keys);
void add_indexed_keys(const Config& config, KeyList& keys);
bool is_mistral4(const Config& config);
void add_afmoe_keys(const Config& config, KeyList& keys);
void add_laguna_keys(const Config& config, KeyList& keys);
void add_llama4_keys(const Config& config, KeyList& keys);
void add_mamba2_keys(const Config& config, KeyList& keys);
void add_smallthinker_keys(const Config& config, KeyList& keys);
void add_mistral3_keys(const Config& config, KeyList& keys);
void add_smollm3_keys(const Config& config, KeyList& keys);
void add_exaone4_keys(const Config& config, KeyList& keys);
void add_exaone_moe_keys(const Config& config, KeyList& keys);
void add_hunyuan_keys(const Config& config, KeyList& keys);
void add_hunyuan_moe_keys(const Config& config, KeyList& keys);
void add_phi2_keys(const Config& config, KeyList& keys);
void add_phi3_keys(const Config& config, KeyList& keys);
void add_cohere_keys(const Config& config, KeyList& keys);
void add_cohere2_keys(const Config& config, KeyList& keys);
void add_nemotron_keys(const Config& config, KeyList& keys);
void add_gpt2_keys(const Config& config, KeyList& keys);
void add_gptneox_keys(const Config& config, KeyList& keys);
void add_stablelm_keys(const Config& config, KeyList& keys);
void add_bert_keys(const Config& config, KeyList& keys);
void add_modern_bert_keys(const Config& config, KeyList& keys);
void add_jina_bert_v2_keys(const Config& config, KeyList& keys);
void add_eurobert_keys(const Config& config, KeyList& keys);
void add_falcon_h1_keys(const Config& config, KeyList& keys);
/// The multipliers of Falcon-H1, which files contain in the weights.
std::vector<RowFactor> falcon_h1_factors(const Config& config, std::string_view name);
void add_kimi_linear_keys(const Config& config, KeyList& keys);

// Helpers of the functions above.

/// Adds the key if config.json has the field.
void copy_count(const Config& config, KeyList& keys, const char* key, const char* field);
void copy_number(const Config& config, KeyList& keys, const char* key, const char* field);
/// Adds the size keys for families that do not get the common keys.
void add_sizes(const Config& config, KeyList& keys, int64_t context, int64_t d_ff);
/// Returns the longest text that the model was trained on, in tokens.
int64_t context_of(const Config& config);

}  // namespace hearth::convert
