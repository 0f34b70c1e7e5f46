// Rules that give each family's tensors their names in the GGUF file, and rearrange their rows. Included by
// family.cpp only.
#pragma once

#include "profiler/convert/family.h"

namespace hearth::convert::rules {

using enum Rearrange;

// Tensor names that most families use. Tensors outside of layers come first, as in the checkpoints' files.
inline constexpr Rule kCommon[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.rotary_emb.inv_freq", "", kSkip},
    {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    // Experts: stored as one tensor for each expert, or as one tensor for all experts.
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.experts.#.gate_proj", "ffn_gate_exps", kPart},
    {"mlp.experts.#.up_proj", "ffn_up_exps", kPart},
    {"mlp.experts.#.down_proj", "ffn_down_exps", kPart},
    {"mlp.experts.gate_up_proj", "ffn_gate_exps|ffn_up_exps", kSplit},
    {"mlp.experts.down_proj", "ffn_down_exps"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
    // Layers that predict further tokens.
    {"eh_proj", "nextn.eh_proj"},
    {"enorm", "nextn.enorm"},
    {"hnorm", "nextn.hnorm"},
    {"embed_tokens", "nextn.embed_tokens"},
    {"shared_head.norm", "nextn.shared_head_norm"},
    {"shared_head.head", "nextn.shared_head_head"},
    {"mtp.fc", "nextn.eh_proj"},
    {"mtp.pre_fc_norm_embedding", "nextn.enorm"},
    {"mtp.pre_fc_norm_hidden", "nextn.hnorm"},
    {"mtp.norm", "nextn.shared_head_norm"},
    // Layers of Mamba-2 beside attention.
    {"mamba.in_proj", "ssm_in"},
    {"mamba.conv1d", "ssm_conv1d", kTaps},
    {"mamba.A_log", "ssm_a.", kColumn},
    {"mamba.D", "ssm_d.", kColumn},
    {"mamba.dt_bias", "ssm_dt.bias"},
    {"mamba.norm", "ssm_norm", kGroups},
    {"mamba.out_proj", "ssm_out"},
};

// Names of experts in Mixtral and in models derived from it.
inline constexpr Rule kBlockSparse[] = {
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias"},
    {"block_sparse_moe.experts.#.w1", "ffn_gate_exps", kPart},
    {"block_sparse_moe.experts.#.w3", "ffn_up_exps", kPart},
    {"block_sparse_moe.experts.#.w2", "ffn_down_exps", kPart},
};
inline constexpr Rule kSmallThinker[] = {
    {"block_sparse_moe.primary_router", "ffn_gate_inp"},
    {"block_sparse_moe.experts.#.gate", "ffn_gate_exps", kPart},
    {"block_sparse_moe.experts.#.up", "ffn_up_exps", kPart},
    {"block_sparse_moe.experts.#.down", "ffn_down_exps", kPart},
};
inline constexpr Rule kFalcon[] = {
    {"transformer.word_embeddings", "token_embd"},
    {"transformer.ln_f", "output_norm"},
    {"self_attention.query_key_value", "attn_qkv", kGroupsToParts},
    {"self_attention.dense", "attn_output"},
    {"self_attention.rotary_emb.inv_freq", "", kSkip},
    {"ln_mlp", "attn_norm"},
    {"ln_attn", "attn_norm_2"},
    {"mlp.dense_h_to_4h", "ffn_up"},
    {"mlp.dense_4h_to_h", "ffn_down"},
};
inline constexpr Rule kOpt[] = {
    {"model.decoder.embed_tokens", "token_embd"},
    {"model.decoder.embed_positions", "position_embd"},
    {"model.decoder.final_layer_norm", "output_norm"},
    {"self_attn.out_proj", "attn_output"},
    {"self_attn_layer_norm", "attn_norm"},
    {"final_layer_norm", "ffn_norm"},
    {"fc1", "ffn_up"},
    {"fc2", "ffn_down"},
};
inline constexpr Rule kFourNorms[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
};
inline constexpr Rule kGemma4[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"layer_scalar", "layer_output_scale"},
    // Embeddings of tokens for each layer.
    {"model.embed_tokens_per_layer", "per_layer_token_embd"},
    {"model.per_layer_model_projection", "per_layer_model_proj"},
    {"model.per_layer_projection_norm", "per_layer_proj_norm"},
    {"per_layer_input_gate", "inp_gate"},
    {"per_layer_projection", "proj"},
    {"post_per_layer_input_norm", "post_norm"},
    // Experts beside the dense FFN.
    {"router.proj", "ffn_gate_inp"},
    {"router.scale", "ffn_gate_inp.scale"},
    {"router.per_expert_scale", "ffn_down_exps.scale"},
    {"experts.gate_up_proj", "ffn_gate_up_exps"},
    {"experts.down_proj", "ffn_down_exps"},
    {"post_feedforward_layernorm_1", "post_ffw_norm_1"},
    {"pre_feedforward_layernorm_2", "pre_ffw_norm_2"},
    {"post_feedforward_layernorm_2", "post_ffw_norm_2"},
};
inline constexpr Rule kGptOss[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"self_attn.sinks", "attn_sinks"},
    {"mlp.router", "ffn_gate_inp"},
    {"mlp.experts.gate_up_proj", "ffn_gate_exps|ffn_up_exps", kSplitTurned},
    {"mlp.experts.down_proj", "ffn_down_exps", kTurn},
    {"mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias|ffn_up_exps.bias", kSplitColumns},
    {"mlp.experts.down_proj_bias", "ffn_down_exps.bias"},
    {"mlp.experts.gate_up_proj_blocks", "ffn_gate_exps|ffn_up_exps", kMxfp4Split},
    {"mlp.experts.down_proj_blocks", "ffn_down_exps", kMxfp4},
    {"mlp.experts.gate_up_proj_scales", "", kSkip},  // read with the blocks
    {"mlp.experts.down_proj_scales", "", kSkip},
};
// Gated delta nets. The files of Qwen3-Next have the value heads in the checkpoint's order, those of Qwen3.5
// in another one.
inline constexpr Rule kQwen3Next[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"linear_attn.in_proj_qkvz", "attn_qkv|attn_gate", kKeyGroups},
    {"linear_attn.in_proj_ba", "ssm_ba"},
    {"linear_attn.conv1d", "ssm_conv1d", kTaps},
    {"linear_attn.A_log", "ssm_a."},
    {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"linear_attn.norm", "ssm_norm"},
    {"linear_attn.out_proj", "ssm_out"},
};
inline constexpr Rule kQwen35[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"linear_attn.in_proj_qkv", "attn_qkv", kValueHeads},
    {"linear_attn.in_proj_z", "attn_gate", kValueHeads},
    {"linear_attn.in_proj_a", "ssm_alpha", kValueHeads},
    {"linear_attn.in_proj_b", "ssm_beta", kValueHeads},
    {"linear_attn.conv1d", "ssm_conv1d", kValueHeads},
    {"linear_attn.A_log", "ssm_a.", kValueHeads},
    {"linear_attn.dt_bias", "ssm_dt.bias", kValueHeads},
    {"linear_attn.norm", "ssm_norm"},
    {"linear_attn.out_proj", "ssm_out", kValueColumns},
};
// Published checkpoints have the experts w1, w2 and w3; transformers 5 saves gate_up_proj and down_proj.
inline constexpr Rule kLfm2[] = {
    {"model.embedding_norm", "token_embd_norm"},
    {"operator_norm", "attn_norm"},
    {"ffn_norm", "ffn_norm"},
    {"conv.conv", "shortconv.conv.weight", kTaps},
    {"conv.in_proj", "shortconv.in_proj.weight"},
    {"conv.out_proj", "shortconv.out_proj.weight"},
    {"self_attn.out_proj", "attn_output"},
    {"self_attn.q_layernorm", "attn_q_norm"},
    {"self_attn.k_layernorm", "attn_k_norm"},
    {"feed_forward.w1", "ffn_gate"},
    {"feed_forward.w3", "ffn_up"},
    {"feed_forward.w2", "ffn_down"},
    {"feed_forward.gate", "ffn_gate_inp"},
    {"feed_forward.expert_bias", "exp_probs_b.bias"},
    {"feed_forward.experts.#.w1", "ffn_gate_exps", kPart},
    {"feed_forward.experts.#.w3", "ffn_up_exps", kPart},
    {"feed_forward.experts.#.w2", "ffn_down_exps", kPart},
    {"feed_forward.experts.gate_up_proj", "ffn_gate_exps|ffn_up_exps", kSplit},
    {"feed_forward.experts.down_proj", "ffn_down_exps"},
};
inline constexpr Rule kQwen3VlMoe[] = {
    {"mlp.experts.gate_up_proj", "ffn_gate_exps|ffn_up_exps", kSplitBeside},
    {"mlp.experts.down_proj", "ffn_down_exps", kTurnDown},
};
inline constexpr Rule kGraniteMoe[] = {
    {"block_sparse_moe.router.layer", "ffn_gate_inp"},
    {"block_sparse_moe.router", "ffn_gate_inp"},
    {"block_sparse_moe.input_linear", "ffn_gate_exps|ffn_up_exps", kSplit},
    {"block_sparse_moe.output_linear", "ffn_down_exps"},
    {"block_sparse_moe.experts.gate_up_proj", "ffn_gate_exps|ffn_up_exps", kSplit},
    {"block_sparse_moe.experts.down_proj", "ffn_down_exps"},
    {"shared_mlp.input_linear", "ffn_gate_shexp|ffn_up_shexp", kSplit},
    {"shared_mlp.output_linear", "ffn_down_shexp"},
};
// Granite 4 without experts: the shared MLP is the FFN.
inline constexpr Rule kGranite4[] = {
    {"shared_mlp.input_linear", "ffn_gate|ffn_up", kSplit},
    {"shared_mlp.output_linear", "ffn_down"},
};
inline constexpr Rule kNemotronH[] = {
    {"backbone.embeddings", "token_embd"},
    {"backbone.norm_f", "output_norm"},
    {"norm", "attn_norm"},
    {"mixer.in_proj", "ssm_in"},
    {"mixer.conv1d", "ssm_conv1d", kTaps},
    {"mixer.A_log", "ssm_a.", kColumn},
    {"mixer.D", "ssm_d.", kColumn},
    {"mixer.dt_bias", "ssm_dt.bias"},
    {"mixer.norm", "ssm_norm", kGroups},
    {"mixer.out_proj", "ssm_out"},
    {"mixer.q_proj", "attn_q"},
    {"mixer.k_proj", "attn_k"},
    {"mixer.v_proj", "attn_v"},
    {"mixer.o_proj", "attn_output"},
    {"mixer.up_proj", "ffn_up"},
    {"mixer.down_proj", "ffn_down"},
    {"mixer.gate", "ffn_gate_inp"},
    {"mixer.fc1_latent_proj", "ffn_latent_down"},
    {"mixer.fc2_latent_proj", "ffn_latent_up"},
    {"mixer.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mixer.experts.#.up_proj", "ffn_up_exps", kPart},
    {"mixer.experts.#.down_proj", "ffn_down_exps", kPart},
    {"mixer.shared_experts.up_proj", "ffn_up_shexp"},
    {"mixer.shared_experts.down_proj", "ffn_down_shexp"},
};
inline constexpr Rule kGlm4[] = {
    {"mlp.gate_up_proj", "ffn_up"},
    {"post_self_attn_layernorm", "post_attention_norm"},
    {"post_mlp_layernorm", "post_ffw_norm"},
};
inline constexpr Rule kPostAttention[] = {{"post_attention_layernorm", "post_attention_norm"}};
inline constexpr Rule kErnie[] = {
    {"mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.gate.moe_statics.e_score_correction_bias", "exp_probs_b.bias"},
};
inline constexpr Rule kLatent[] = {
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_a_layernorm", "attn_q_a_norm"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.kv_b_proj", "attn_k_b|attn_v_b", kLatentParts},
};
// Latent attention with an indexer.
inline constexpr Rule kIndexed[] = {
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_a_layernorm", "attn_q_a_norm"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.kv_b_proj", "attn_k_b|attn_v_b", kLatentParts},
    {"self_attn.indexer.wq_b", "indexer.attn_q_b"},
    {"self_attn.indexer.wk", "indexer.attn_k"},
    {"self_attn.indexer.weights_proj", "indexer.proj"},
    {"self_attn.indexer.k_norm", "indexer.k_norm"},
};
inline constexpr Rule kAfmoe[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_mlp_layernorm", "ffn_norm"},
    {"post_mlp_layernorm", "post_ffw_norm"},
    {"self_attn.gate_proj", "attn_gate"},
    {"mlp.router.gate", "ffn_gate_inp"},
    {"mlp.expert_bias", "exp_probs_b.bias"},
};
inline constexpr Rule kBailing2[] = {
    {"model.word_embeddings", "token_embd"},    {"attention.query_key_value", "attn_qkv"},
    {"attention.dense", "attn_output"},         {"attention.query_layernorm", "attn_q_norm"},
    {"attention.key_layernorm", "attn_k_norm"}, {"mlp.gate.expert_bias", "exp_probs_b.bias"},
};
inline constexpr Rule kLaguna[] = {
    {"self_attn.g_proj", "attn_gate"},
    {"mlp.experts.e_score_correction_bias", "exp_probs_b.bias"},
};
inline constexpr Rule kLlama4[] = {
    {"feed_forward.gate_proj", "ffn_gate"},
    {"feed_forward.up_proj", "ffn_up"},
    {"feed_forward.down_proj", "ffn_down"},
    {"feed_forward.router", "ffn_gate_inp"},
    {"feed_forward.experts.gate_up_proj", "ffn_gate_exps|ffn_up_exps", kSplitBeside},
    {"feed_forward.experts.down_proj", "ffn_down_exps", kTurnDown},
    {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"feed_forward.shared_expert.up_proj", "ffn_up_shexp"},
    {"feed_forward.shared_expert.down_proj", "ffn_down_shexp"},
};
inline constexpr Rule kHunyuan[] = {
    {"self_attn.query_layernorm", "attn_q_norm"},
    {"self_attn.key_layernorm", "attn_k_norm"},
    {"mlp.gate.wg", "ffn_gate_inp"},
    {"mlp.shared_mlp.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_mlp.up_proj", "ffn_up_shexp"},
    {"mlp.shared_mlp.down_proj", "ffn_down_shexp"},
};
inline constexpr Rule kPhi2[] = {
    {"model.final_layernorm", "output_norm"},
    {"self_attn.dense", "attn_output"},
    {"mlp.fc1", "ffn_up"},
    {"mlp.fc2", "ffn_down"},
};
inline constexpr Rule kPhi3[] = {
    {"self_attn.qkv_proj", "attn_qkv"},
    {"mlp.gate_up_proj", "ffn_up"},
};
inline constexpr Rule kStarcoder2[] = {
    {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
};
inline constexpr Rule kGpt2[] = {
    {"transformer.wte", "token_embd"},
    {"transformer.wpe", "position_embd"},
    {"transformer.ln_f", "output_norm"},
    {"wte", "token_embd"},
    {"wpe", "position_embd"},
    {"ln_f", "output_norm"},
    {"ln_1", "attn_norm"},
    {"attn.c_attn", "attn_qkv", kTurn},
    {"attn.c_proj", "attn_output", kTurn},
    {"attn", "", kSkip},  // attn.bias, a mask
    {"attn.masked_bias", "", kSkip},
    {"ln_2", "ffn_norm"},
    {"mlp.c_fc", "ffn_up", kTurn},
    {"mlp.c_proj", "ffn_down", kTurn},
};
inline constexpr Rule kGptNeox[] = {
    {"gpt_neox.embed_in", "token_embd"},
    {"gpt_neox.final_layer_norm", "output_norm"},
    {"embed_out", "output"},
    {"attention.query_key_value", "attn_qkv", kHeadsToParts},
    {"attention.dense", "attn_output"},
    {"attention", "", kSkip},  // attention.bias, a mask
    {"attention.masked_bias", "", kSkip},
    {"attention.rotary_emb.inv_freq", "", kSkip},
    {"mlp.dense_h_to_4h", "ffn_up"},
    {"mlp.dense_4h_to_h", "ffn_down"},
};
inline constexpr Rule kStableLm[] = {
    {"self_attn.q_layernorm.norms.#", "attn_q_norm", kPart},
    {"self_attn.k_layernorm.norms.#", "attn_k_norm", kPart},
};
inline constexpr Rule kApertus[] = {
    {"attention_layernorm", "attn_norm"},
    {"feedforward_layernorm", "ffn_norm"},
    {"mlp.act_fn.alpha_p", "xielu.alpha_p", kNumber},
    {"mlp.act_fn.alpha_n", "xielu.alpha_n", kNumber},
    {"mlp.act_fn.beta", "xielu.beta", kNumber},
    {"mlp.act_fn.eps", "xielu.eps", kNumber},
    {"mlp.act_fn", "", kSkip},  // mlp.act_fn.beta, whose name is taken for that of a bias
};
inline constexpr Rule kFalconH1[] = {
    {"model.final_layernorm", "output_norm"}, {"pre_ff_layernorm", "ffn_norm."},
    {"feed_forward.gate_proj", "ffn_gate"},   {"feed_forward.up_proj", "ffn_up"},
    {"feed_forward.down_proj", "ffn_down"},
};
inline constexpr Rule kKimiLinear[] = {
    {"self_attn.q_conv1d", "ssm_conv1d_q", kKeptTaps},
    {"self_attn.k_conv1d", "ssm_conv1d_k", kKeptTaps},
    {"self_attn.v_conv1d", "ssm_conv1d_v", kKeptTaps},
    {"self_attn.A_log", "ssm_a."},
    {"self_attn.dt_bias", "ssm_dt.bias"},
    {"self_attn.f_a_proj", "ssm_f_a"},
    {"self_attn.f_b_proj", "ssm_f_b"},
    {"self_attn.b_proj", "ssm_beta"},
    {"self_attn.g_a_proj", "ssm_g_a"},
    {"self_attn.g_b_proj", "ssm_g_b"},
    {"self_attn.o_norm", "ssm_norm"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.kv_b_proj", "attn_k_b|attn_v_b", kLatentParts},
    {"block_sparse_moe.gate_proj", "ffn_gate"},
    {"block_sparse_moe.up_proj", "ffn_up"},
    {"block_sparse_moe.down_proj", "ffn_down"},
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"block_sparse_moe.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"block_sparse_moe.experts.#.w1", "ffn_gate_exps", kPart},
    {"block_sparse_moe.experts.#.w3", "ffn_up_exps", kPart},
    {"block_sparse_moe.experts.#.w2", "ffn_down_exps", kPart},
    {"block_sparse_moe.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"block_sparse_moe.shared_experts.up_proj", "ffn_up_shexp"},
    {"block_sparse_moe.shared_experts.down_proj", "ffn_down_shexp"},
};
inline constexpr Rule kGemma3n[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"model.embed_tokens_per_layer", "per_layer_token_embd"},
    {"model.per_layer_model_projection", "per_layer_model_proj"},
    {"model.per_layer_projection_norm", "per_layer_proj_norm"},
    {"model.altup_projections.#", "altup_proj", kPart},
    {"model.altup_unembed_projections.#", "altup_unembd_proj", kPart},
    {"per_layer_input_gate", "inp_gate"},
    {"per_layer_projection", "proj"},
    {"post_per_layer_input_norm", "post_norm"},
    {"altup.correct_output_scale", "altup_correct_scale"},
    {"altup.correction_coefs", "altup_correct_coef"},
    {"altup.prediction_coefs", "altup_predict_coef"},
    {"altup.modality_router", "altup_router"},
    {"altup.router_norm", "altup_router_norm"},
    {"laurel.linear_left", "laurel_l"},
    {"laurel.linear_right", "laurel_r"},
    {"laurel.post_laurel_norm", "laurel_post_norm"},
};
inline constexpr Rule kGemmaEmbedding[] = {
    {"embed_tokens", "token_embd"},
    {"norm", "output_norm"},
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
};
inline constexpr Rule kEuroBert[] = {
    {"embed_tokens", "token_embd"},
    {"norm", "output_norm"},
    {"lm_head", "", kSkip},  // not part of an embedding
};
inline constexpr Rule kBert[] = {
    {"embeddings.word_embeddings", "token_embd"},
    {"embeddings.token_type_embeddings", "token_types"},
    {"embeddings.position_embeddings", "position_embd", kFromPosition},
    {"embeddings.LayerNorm", "token_embd_norm"},
    {"embeddings.position_ids", "", kSkip},
    {"attention.self.query", "attn_q"},
    {"attention.self.key", "attn_k"},
    {"attention.self.value", "attn_v"},
    {"attention.output.dense", "attn_output"},
    {"attention.output.LayerNorm", "attn_output_norm"},
    {"intermediate.dense", "ffn_up"},
    {"output.dense", "ffn_down"},
    {"output.LayerNorm", "layer_output_norm"},
    {"pooler.dense", "", kSkip},  // not part of an embedding
    {"cls.predictions.bias", "", kSkip},
    {"cls.predictions", "", kSkip},
    {"cls.predictions.transform.dense", "", kSkip},
    {"cls.predictions.transform.LayerNorm", "", kSkip},
    {"cls.predictions.decoder", "", kSkip},
    {"cls.seq_relationship", "", kSkip},
    {"lm_head.bias", "", kSkip},
    {"lm_head.dense", "", kSkip},
    {"lm_head.layer_norm", "", kSkip},
    {"lm_head.decoder", "", kSkip},
    {"lm_head", "", kSkip},
};
// The head that ranks pairs of texts, in addition to kBert: BERT's own, and RoBERTa's.
inline constexpr Rule kBertRank[] = {
    {"pooler.dense", "cls"},
    {"classifier", "cls.output"},
    {"classifier.dense", "cls"},
    {"classifier.out_proj", "cls.output"},
};
inline constexpr Rule kModernBert[] = {
    {"embeddings.tok_embeddings", "token_embd"},
    {"model.embeddings.tok_embeddings", "token_embd"},
    {"embeddings.norm", "token_embd_norm"},
    {"model.embeddings.norm", "token_embd_norm"},
    {"final_norm", "output_norm"},
    {"model.final_norm", "output_norm"},
    {"attn_norm", "attn_norm"},
    {"attn.Wqkv", "attn_qkv"},
    {"attn.Wo", "attn_output"},
    {"mlp_norm", "ffn_norm"},
    {"mlp.Wi", "ffn_up"},
    {"mlp.Wo", "ffn_down"},
    {"head.dense", "", kSkip},  // not part of an embedding
    {"head.norm", "", kSkip},
    {"decoder", "", kSkip},
};
// In addition to kModernBert.
inline constexpr Rule kModernBertRank[] = {
    {"head.dense", "cls"},
    {"head.norm", "cls.norm"},
    {"classifier", "cls.output"},
};
// In addition to kBert.
inline constexpr Rule kJinaBertV2[] = {
    {"mlp.gated_layers", "ffn_up"},
    {"mlp.wo", "ffn_down"},
    {"mlp.layernorm", "layer_output_norm"},
};
inline constexpr Rule kJinaBertV2Rank[] = {
    {"pooler.dense", "cls"}, {"classifier", "cls.output"},           {"mlp.gated_layers", "ffn_up"},
    {"mlp.wo", "ffn_down"},  {"mlp.layernorm", "layer_output_norm"},
};
inline constexpr Rule kJinaBertV3[] = {
    {"emb_ln", "token_embd_norm"},  {"mixer.Wqkv", "attn_qkv"}, {"mixer.out_proj", "attn_output"},
    {"norm1", "attn_output_norm"},  {"mlp.fc1", "ffn_up"},      {"mlp.fc2", "ffn_down"},
    {"norm2", "layer_output_norm"},
};
// Contains the tensor names of both implementations: the model's own code and the transformers library.
inline constexpr Rule kNomicBert[] = {
    {"emb_ln", "token_embd_norm"},
    {"attn.Wqkv", "attn_qkv"},
    {"attn.out_proj", "attn_output"},
    {"norm1", "attn_output_norm"},
    {"norm2", "layer_output_norm"},
    {"mlp.fc11", "ffn_up"},
    {"mlp.fc12", "ffn_gate"},
    {"mlp.fc2", "ffn_down"},
    {"self_attn.q_proj", "attn_qkv", kPart, 0},
    {"self_attn.k_proj", "attn_qkv", kPart, 1},
    {"self_attn.v_proj", "attn_qkv", kPart, 2},
    {"self_attn.o_proj", "attn_output"},
    {"post_attention_layernorm", "attn_output_norm"},
    {"post_mlp_layernorm", "layer_output_norm"},
    {"embeddings.word_embeddings", "token_embd"},
    {"embeddings.token_type_embeddings", "token_types"},
    {"embeddings.LayerNorm", "token_embd_norm"},
    {"pooler.dense", "", kSkip},
};

}  // namespace hearth::convert::rules
