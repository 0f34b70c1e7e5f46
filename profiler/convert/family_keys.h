// The keys that single families add behind the common ones. Rows of family.cpp name them.
//
// Each throws std::runtime_error (one sentence) if config.json lacks what it needs, or asks for what does not run.
#pragma once

#include <cstdint>

namespace hearth::convert {

class Config;
class KeyList;

/// Key and value heads of Falcon, whose config.json has three fields for it.
int64_t falcon_kv_heads(const Config& config);
/// RoBERTa's tables of learned positions have rows for padding before the first position; 0 of other models.
int64_t first_position_row(const Config& config);

void add_llama_keys(const Config& config, KeyList& keys);
/// The window of all layers, of families where most models have none. llama.cpp's converters leave it out.
void add_plain_window_keys(const Config& config, KeyList& keys);
void add_falcon_keys(const Config& config, KeyList& keys);
void add_opt_keys(const Config& config, KeyList& keys);
void add_expert_width_keys(const Config& config, KeyList& keys);
void add_gemma_keys(const Config& config, KeyList& keys);
void add_gemma3_keys(const Config& config, KeyList& keys);
void add_gpt_oss_keys(const Config& config, KeyList& keys);
void add_window_pattern_keys(const Config& config, KeyList& keys);
void add_granite_keys(const Config& config, KeyList& keys);
void add_half_turned_keys(const Config& config, KeyList& keys);
void add_glm4moe_keys(const Config& config, KeyList& keys);
void add_ernie_keys(const Config& config, KeyList& keys);
void add_minimax_keys(const Config& config, KeyList& keys);
void add_deepseek_keys(const Config& config, KeyList& keys);
void add_deepseek2_keys(const Config& config, KeyList& keys);
void add_smallthinker_keys(const Config& config, KeyList& keys);
void add_mistral3_keys(const Config& config, KeyList& keys);
void add_smollm3_keys(const Config& config, KeyList& keys);
void add_exaone4_keys(const Config& config, KeyList& keys);
void add_hunyuan_keys(const Config& config, KeyList& keys);
void add_phi2_keys(const Config& config, KeyList& keys);
void add_phi3_keys(const Config& config, KeyList& keys);
void add_cohere_keys(const Config& config, KeyList& keys);
void add_cohere2_keys(const Config& config, KeyList& keys);
void add_nemotron_keys(const Config& config, KeyList& keys);
void add_gpt2_keys(const Config& config, KeyList& keys);
void add_gptneox_keys(const Config& config, KeyList& keys);
void add_stablelm_keys(const Config& config, KeyList& keys);
void add_bert_keys(const Config& config, KeyList& keys);

}  // namespace hearth::convert
