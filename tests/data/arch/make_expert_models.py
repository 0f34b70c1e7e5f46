"""Makes the tiny random mixtures of experts of this folder and their golden logits, with the PyPI packages
transformers and gguf.

usage: make_expert_models.py OUT_DIR [--checkpoints] [NAME...]      (needs torch, transformers, gguf, numpy)

NAME.gguf is as llama.cpp's converters write it, NAME.logits are little-endian float32 [n_rows, n_vocab] of every 4th
position of TOKENS, computed in float32 by transformers. The committed files came from this script.
"""
import copy

import numpy as np
import torch
import transformers

from tiny_models import (ATTENTION, CONTEXT, EXPERTS, FFN, FFN_NORM, N_VOCAB, OUTER, QK_NORMS, SECTIONS, TOKENS,
                         VISION, Tiny, as_mxfp4, fused_qkv, make_all, nextn_golden, of_rope, of_vision, permuted,
                         plain_scores, rms_norm, sizes, split_experts)

WINDOW = 8
SMALL = dict(vocab_size=N_VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=CONTEXT, rms_norm_eps=1e-6, tie_word_embeddings=False, pad_token_id=None,
             rope_parameters=of_rope())
MOE = {**OUTER, **ATTENTION, **FFN_NORM, **EXPERTS}


def qwen3moe():
    """Heads wider than d_model / n_heads; norms of each head's q and k; renormalised weights."""
    config = transformers.Qwen3MoeConfig(**SMALL, head_dim=16, intermediate_size=96, moe_intermediate_size=32,
                                         num_experts=8, num_experts_per_tok=3, norm_topk_prob=True)
    keys = sizes(config, **{"expert_count": 8, "expert_feed_forward_length": 32})
    return Tiny("qwen3moe", config, keys, {**MOE, **QK_NORMS}, split_experts, scores=plain_scores, n_used=3)


def mixtral():
    """llama with experts: adjacent pairs, feed_forward_length is the experts' width."""
    config = transformers.MixtralConfig(**SMALL, intermediate_size=64, num_local_experts=4, num_experts_per_tok=2)
    keys = sizes(config, **{"expert_count": 4, "vocab_size": N_VOCAB, "rope.dimension_count": 8})
    return Tiny("llama", config, keys, MOE, permuted(4, 2), scores=plain_scores, n_used=2)


def mixtral_split():
    """The same in the files of before April 2024: a tensor for each expert, ffn_gate.E."""
    tiny = mixtral()

    def change(name, data):
        for name, data in permuted(4, 2)(name, data):
            if "_exps." in name:
                yield from ((name.replace("_exps.", f".{i}."), part) for i, part in enumerate(data))
            else:
                yield name, data
    tiny.change, tiny.seed = change, "mixtral"
    return tiny


def olmoe():
    """Norms over the whole q and k; weights are not renormalised."""
    config = transformers.OlmoeConfig(**{**SMALL, "rms_norm_eps": 1e-5}, intermediate_size=48, num_experts=8,
                                      num_experts_per_tok=3, norm_topk_prob=False)
    keys = sizes(config, **{"expert_count": 8})
    return Tiny("olmoe", config, keys, {**MOE, **QK_NORMS}, split_experts, scores=plain_scores, n_used=3)


def qwen2moe():
    """Biases of q, k and v; weights are not renormalised; a shared expert of another width, times sigmoid of a gate."""
    config = transformers.Qwen2MoeConfig(**SMALL, intermediate_size=96, moe_intermediate_size=32,
                                         shared_expert_intermediate_size=64, num_experts=8, num_experts_per_tok=3)
    keys = sizes(config, **{"expert_count": 8, "expert_feed_forward_length": 32,
                            "expert_shared_feed_forward_length": 64})
    names = {**MOE, "mlp.shared_expert_gate": "ffn_gate_inp_shexp", "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
             "mlp.shared_expert.up_proj": "ffn_up_shexp", "mlp.shared_expert.down_proj": "ffn_down_shexp"}
    return Tiny("qwen2moe", config, keys, names, split_experts, scores=plain_scores, n_used=3)


def qwen2moe_fused():
    """The same as newer converters write it if told to: gates and ups of experts in one tensor, and q, k and v, and
    their biases."""
    tiny = qwen2moe()
    tiny.change, tiny.seed = fused_qkv(), "qwen2moe"
    return tiny


def granitemoe(shared=0):
    """Four multipliers: of embeddings, of branches, of scores (no 1/sqrt) and a divisor of logits. Adjacent pairs."""
    scales = dict(embedding_multiplier=6.0, residual_multiplier=0.375, attention_multiplier=0.25, logits_scaling=3.0)
    more = {"shared_intermediate_size": shared} if shared else {}
    kind = transformers.GraniteMoeSharedConfig if shared else transformers.GraniteMoeConfig
    config = kind(**SMALL, **scales, **more, intermediate_size=48, num_local_experts=8, num_experts_per_tok=3)
    keys = sizes(config, **{"expert_count": 8, "vocab_size": N_VOCAB, "rope.dimension_count": 8, "embedding_scale": 6.0,
                            "residual_scale": 0.375, "attention.scale": 0.25, "logit_scale": 3.0})
    if shared:
        keys["expert_shared_feed_forward_length"] = shared
    names = {**OUTER, **ATTENTION, **FFN_NORM, "block_sparse_moe.router": "ffn_gate_inp",
             "block_sparse_moe.experts.gate_up_proj": "ffn_gate_up_exps",
             "block_sparse_moe.experts.down_proj": "ffn_down_exps", "shared_mlp.input_linear": "ffn_gate_up_shexp",
             "shared_mlp.output_linear": "ffn_down_shexp"}
    return Tiny("granitemoe", config, keys, names, permuted(4, 2), scores=plain_scores,
                router="block_sparse_moe.router", n_used=3)


def granitemoe_shared():
    """With a shared expert that has no gate."""
    return granitemoe(64)


def gpt_oss():
    """Biases everywhere; sinks; a window in even layers; YaRN whose ramp is not rounded; the norm before the FFN is
    called post_attention_norm; clamped experts; weights are the softmax over the chosen experts' logits."""
    rope = of_rope(1000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=4.0,
                   beta_slow=1.0, truncate=False)
    config = transformers.GptOssConfig(**{**SMALL, "num_hidden_layers": 3, "rope_parameters": rope}, head_dim=32,
                                       intermediate_size=32, num_local_experts=6, num_experts_per_tok=3,
                                       sliding_window=WINDOW)
    keys = sizes(config, **{"expert_count": 6, "attention.sliding_window": WINDOW, "expert_feed_forward_length": 32})
    names = {**OUTER, **ATTENTION, "post_attention_layernorm": "post_attention_norm",
             "self_attn.sinks": "attn_sinks", "mlp.router": "ffn_gate_inp",
             "mlp.experts.gate_up_proj": "ffn_gate_up_exps", "mlp.experts.down_proj": "ffn_down_exps",
             "mlp.experts.gate_up_proj_bias": "ffn_gate_up_exps.bias",
             "mlp.experts.down_proj_bias": "ffn_down_exps.bias"}

    def change(name, data):
        if "_exps.weight" in name:  # transformers has inputs by outputs
            data = data.swapaxes(-1, -2)
        if "gate_up" not in name:
            return [(name, data)]
        gate, up = (data[:, i::2] for i in (0, 1))
        return [(name.replace("gate_up", "gate"), gate), (name.replace("gate_up", "up"), up)]

    # Gates and ups reach their clamps at 7, and sinks take a share of attention.
    spreads = {"gate_up_proj_bias": 1.0, "down_proj_bias": 0.3, "gate_up_proj": 0.8, "experts.down_proj": 0.03,
               "sinks": 1.0}
    return Tiny("gpt-oss", config, keys, names, change, spreads=spreads, router="mlp.router", n_used=3,
                scores=lambda router, x: x @ router.weight.T + router.bias)


def gpt_oss_mxfp4():
    """The same with its experts in MXFP4, as released."""
    tiny = gpt_oss()

    def settle(model):
        for layer in model.model.layers:
            for weight in (layer.mlp.experts.gate_up_proj, layer.mlp.experts.down_proj):
                weight.copy_(torch.from_numpy(as_mxfp4(weight.numpy().swapaxes(-1, -2))[1].swapaxes(-1, -2).copy()))

    def published(tensors, fields):
        """transformers' [expert, in, out] as blocks [expert, out, block, 16] of 4 bits, two to a byte in order, and their
        scales."""
        fields["quantization_config"] = {"quant_method": "mxfp4"}
        for name in [name for name in tensors if name.endswith(("gate_up_proj", "down_proj"))]:
            raw, _ = as_mxfp4(tensors.pop(name).float().numpy().swapaxes(-1, -2))
            blocks = raw.reshape(*raw.shape[:-1], -1, 17)
            bits = np.concatenate([blocks[..., 1:] & 15, blocks[..., 1:] >> 4], axis=-1)
            tensors[name + "_blocks"] = torch.from_numpy(bits[..., 0::2] | bits[..., 1::2] << 4)
            tensors[name + "_scales"] = torch.from_numpy(blocks[..., 0].copy())
        return tensors

    tiny.settle, tiny.mxfp4 = settle, ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")
    tiny.published = published
    return tiny


def biased_scores(router, x):
    """Sigmoids, and a bias for choosing only."""
    return torch.sigmoid(x @ router.weight.T) + router.e_score_correction_bias


SHARED = {"mlp.shared_experts.gate_proj": "ffn_gate_shexp", "mlp.shared_experts.up_proj": "ffn_up_shexp",
          "mlp.shared_experts.down_proj": "ffn_down_shexp"}
SIGMOID_MOE = {**MOE, **FFN, **SHARED, "mlp.gate.e_score_correction_bias": "exp_probs_b.bias"}


def with_nextn(tiny, kind):
    """Repeats the last layer of a model as one that predicts later tokens, which is in block_count and has no part in the
    logits."""
    n_layers, converted = tiny.config.num_hidden_layers, tiny.change
    last, further = f"blk.{n_layers - 1}.", f"blk.{n_layers}."
    seen, ones = {}, torch.ones(tiny.config.hidden_size)
    join = np.random.default_rng(0).standard_normal((32, 64)).astype(np.float16).astype(np.float32)

    def change(name, data):
        tensors = converted(name, data)
        seen.update({name.replace(last, further): data for name, data in tensors if name.startswith(last)})
        return tensors

    def extra():
        return {**seen, further + "nextn.eh_proj.weight": join,
                **{f"{further}nextn.{norm}.weight": ones.numpy() for norm in ("enorm", "hnorm", "shared_head_norm")}}

    def golden(model):
        config = copy.deepcopy(tiny.config)
        config.num_hidden_layers, config.first_k_dense_replace, config._attn_implementation = 1, 0, "eager"
        block = kind(config).float().eval()
        with torch.no_grad():
            block.model.norm.weight.copy_(ones)
        block.model.layers[0].load_state_dict(model.model.layers[-1].state_dict())
        block.lm_head.load_state_dict(model.lm_head.state_dict())
        norm = rms_norm(ones, config.rms_norm_eps)
        return nextn_golden(model, block, norm, norm, torch.from_numpy(join))

    tiny.change, tiny.extra, tiny.nextn = change, extra, golden
    tiny.keys |= {"nextn_predict_layers": 1, "block_count": n_layers + 1}
    return tiny


def glm4moe():
    """RoPE on half of each head; q and k norms and biases; the norm before the FFN is called post_attention_norm; a
    first dense layer; sigmoid router with a bias for choosing; and a layer that predicts later tokens."""
    n_layers = 3
    config = transformers.Glm4MoeConfig(
        **{**SMALL, "num_hidden_layers": n_layers}, head_dim=16, intermediate_size=64, moe_intermediate_size=32,
        n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2, routed_scaling_factor=1.5, norm_topk_prob=True,
        first_k_dense_replace=1, use_qk_norm=True, attention_bias=True, partial_rotary_factor=0.5, num_mtp_layers=0)
    keys = sizes(config, **{"rope.dimension_count": 8, "expert_count": 6, "expert_group_count": 1,
                            "expert_group_used_count": 1, "expert_feed_forward_length": 32, "expert_shared_count": 2,
                            "leading_dense_block_count": 1, "expert_gating_func": 2, "expert_weights_scale": 1.5,
                            "expert_weights_norm": True})
    names = {**SIGMOID_MOE, **QK_NORMS, "post_attention_layernorm": "post_attention_norm"}
    tiny = Tiny("glm4moe", config, keys, names, split_experts, scores=biased_scores, n_used=2)

    def published(tensors, fields):
        fields["num_nextn_predict_layers"] = 1
        last, further = f"model.layers.{n_layers - 1}.", f"model.layers.{n_layers}."
        tensors |= {name.replace(last, further): data for name, data in tensors.items() if name.startswith(last)}
        parts = {"eh_proj": "eh_proj", "enorm": "enorm", "hnorm": "hnorm", "shared_head.norm": "shared_head_norm"}
        more = tiny.extra()
        return tensors | {f"{further}{ours}.weight": torch.from_numpy(more[f"blk.{n_layers}.nextn.{theirs}.weight"])
                          for ours, theirs in parts.items()}

    tiny.published = published
    return with_nextn(tiny, transformers.Glm4MoeForCausalLM)


def ernie():
    """Adjacent pairs without a permutation; a first dense layer; softmax router with a bias for choosing, renormalised;
    two shared experts in one; tied."""
    config = transformers.Ernie4_5_MoeConfig(
        **{**SMALL, "num_hidden_layers": 3, "tie_word_embeddings": True}, intermediate_size=128,
        moe_intermediate_size=32, moe_num_experts=8, moe_k=3, moe_num_shared_experts=2, moe_layer_start_index=1)
    keys = sizes(config, **{"expert_count": 8, "expert_used_count": 3, "expert_feed_forward_length": 32,
                            "expert_shared_count": 2, "expert_shared_feed_forward_length": 64,
                            "interleave_moe_layer_step": 1, "leading_dense_block_count": 1})
    names = {**SIGMOID_MOE, "mlp.gate.moe_statics.e_score_correction_bias": "exp_probs_b.bias"}
    return Tiny("ernie4_5-moe", config, keys, names, split_experts, n_used=3, spreads={"e_score_correction_bias": 0.1},
                scores=lambda router, x: (x @ router.weight.T).softmax(-1)
                + router.moe_statics.e_score_correction_bias)


N_MLA_HEADS, ROPE_DIM, NOPE_DIM, V_DIM, LATENT = 2, 16, 48, 64, 32
MLA = {"self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
       "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
       "self_attn.kv_b_proj": "attn_kv_b"}


def absorbed(name, data):
    """Today's files have attn_kv_b as two tensors, the keys' part of each head transposed."""
    if "attn_kv_b" not in name:
        return split_experts(name, data)
    heads = data.reshape(N_MLA_HEADS, NOPE_DIM + V_DIM, LATENT)
    return [(name.replace("kv_b", "k_b"), heads[:, :NOPE_DIM].swapaxes(1, 2)),
            (name.replace("kv_b", "v_b"), heads[:, NOPE_DIM:])]


def deepseek2(kind, mscale, split=True, n_shared=1, **more):
    rope = of_rope(rope_type="yarn", factor=8.0, original_max_position_embeddings=32, beta_fast=32.0, beta_slow=1.0,
                   mscale=mscale, mscale_all_dim=mscale)
    heads = dict(num_attention_heads=N_MLA_HEADS, num_key_value_heads=N_MLA_HEADS, kv_lora_rank=LATENT,
                 qk_rope_head_dim=ROPE_DIM, qk_nope_head_dim=NOPE_DIM, v_head_dim=V_DIM)
    config = kind(**{**SMALL, "num_hidden_layers": 3, "rope_parameters": rope, **heads, **more}, intermediate_size=64,
                  moe_intermediate_size=32, n_shared_experts=n_shared, num_experts_per_tok=3, first_k_dense_replace=1)
    keys = sizes(config, **{"expert_count": config.n_routed_experts, "expert_feed_forward_length": 32,
                            "expert_shared_count": n_shared, "expert_weights_scale": config.routed_scaling_factor,
                            "leading_dense_block_count": 1, "vocab_size": N_VOCAB, "rope.dimension_count": ROPE_DIM,
                            "rope.scaling.yarn_log_multiplier": 0.1 * mscale, "attention.kv_lora_rank": LATENT})
    if config.q_lora_rank is not None:
        keys["attention.q_lora_rank"] = config.q_lora_rank
    if config.n_group is not None:
        keys |= {"expert_group_count": config.n_group, "expert_group_used_count": config.topk_group}
    if split:
        keys |= {"attention.head_count_kv": 1, "attention.key_length": LATENT + ROPE_DIM,
                 "attention.value_length": LATENT, "attention.key_length_mla": NOPE_DIM + ROPE_DIM,
                 "attention.value_length_mla": V_DIM}
    else:
        keys |= {"attention.key_length": NOPE_DIM + ROPE_DIM, "attention.value_length": V_DIM}
    return Tiny("deepseek2", config, keys, {**SIGMOID_MOE, **MLA}, absorbed if split else split_experts, n_used=3,
                scores=lambda router, x: (x @ router.weight.T).softmax(-1))


def deepseek2_lite():
    """Latent attention with a plain q; a first dense layer; softmax router without groups, not renormalised; two shared
    experts in one; YaRN that scales the scores instead of cos and sin."""
    tiny = deepseek2(transformers.DeepseekV2Config, 0.707, n_shared=2, q_lora_rank=None, n_routed_experts=8,
                     topk_method="greedy", routed_scaling_factor=1.0)
    tiny.keys["expert_gating_func"] = 1
    return tiny


def deepseek2_v2():
    """A latent q; groups of experts by their maximum; weights times 4; and the form of files before April 2025, where
    attn_kv_b is one tensor and nothing says the gating."""
    tiny = deepseek2(transformers.DeepseekV2Config, 0.707, split=False, q_lora_rank=40, n_routed_experts=9, n_group=3,
                     topk_group=2, topk_method="group_limited_greedy", routed_scaling_factor=4.0)
    tiny.groups = lambda scores: scores.view(len(scores), 3, -1).amax(-1)
    tiny.n_groups_used = 2
    return tiny


def deepseek2_v3():
    """A latent q; sigmoid router with a bias for choosing; groups by the sum of their best two; renormalised weights
    times 2.5."""
    tiny = deepseek2(transformers.DeepseekV3Config, 1.0, q_lora_rank=40, n_routed_experts=9, n_group=3, topk_group=2,
                     norm_topk_prob=True, routed_scaling_factor=2.5, num_mtp_layers=0)
    tiny.keys |= {"expert_gating_func": 2, "expert_weights_norm": True}
    tiny.scores = biased_scores
    tiny.groups = lambda scores: scores.view(len(scores), 3, -1).topk(2).values.sum(-1)
    tiny.n_groups_used = 2
    return tiny


def deepseek2_v3_nextn():
    """The same weights and logits, and a layer that predicts later tokens."""
    tiny = with_nextn(deepseek2_v3(), transformers.DeepseekV3ForCausalLM)
    tiny.seed = "deepseek2-v3"
    return tiny


INDEXER = {f"self_attn.indexer.{name}": f"indexer.{to}" for name, to in (
    ("wq_b", "attn_q_b"), ("wk", "attn_k"), ("weights_proj", "proj"), ("k_norm", "k_norm"))}


def indexed(kind, arch, top_k, **more):
    """A model with an indexer that chooses top_k positions. With more heads, fewer scores are equal, namely 0."""
    n_heads = 4 if top_k == CONTEXT else 10
    tiny = deepseek2(kind, 1.0, q_lora_rank=40, n_routed_experts=9, norm_topk_prob=True, routed_scaling_factor=2.5,
                     index_topk=top_k, index_head_dim=16, index_n_heads=n_heads, **more)
    tiny.arch, tiny.scores = arch, biased_scores
    tiny.names |= {name: to.replace("indexer.", "indexer_") for name, to in INDEXER.items()}
    tiny.keys |= {"attention.indexer.head_count": n_heads, "attention.indexer.key_length": 16,
                  "attention.indexer.top_k": top_k, "expert_gating_func": 2, "expert_weights_norm": True,
                  "context_length": 4096}
    tiny.top_k = top_k if top_k < CONTEXT else 0

    def change(name, data):
        return absorbed(name.replace(".indexer_", ".indexer."), data)
    tiny.change = change
    return tiny


def deepseek32(top_k=CONTEXT):
    """deepseek2-v3 with an indexer in each layer, which chooses as many positions as the context has."""
    tiny = indexed(transformers.DeepseekV32Config, "deepseek32", top_k, n_group=3, topk_group=2)
    tiny.groups = lambda scores: scores.view(len(scores), 3, -1).topk(2).values.sum(-1)
    tiny.n_groups_used = 2
    return tiny


def deepseek32_chooses():
    """An indexer that chooses 13 positions."""
    return deepseek32(13)


def glm_dsa(top_k=CONTEXT):
    """GLM 5.2: the indexer of layer 0 chooses for layer 1 too, which has none; no groups, and another epsilon."""
    tiny = indexed(transformers.GlmMoeDsaConfig, "glm-dsa", top_k, rms_norm_eps=1e-5,
                   indexer_types=["full", "shared", "full"])
    tiny.keys |= {"attention.indexer.types": [True, False, True]}
    return tiny


def glm_dsa_chooses():
    """An indexer that chooses 16 positions. The file does not say which layers have one."""
    tiny = glm_dsa(16)
    del tiny.keys["attention.indexer.types"]
    return tiny


def mistral4():
    """deepseek2-v3 with a softmax router, renormalised, and queries that grow with the position by a number that the file
    leaves out."""
    beta = 0.1
    rope = of_rope(rope_type="yarn", factor=8.0, original_max_position_embeddings=8, beta_fast=32.0, beta_slow=1.0,
                   mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=beta)
    heads = dict(num_attention_heads=N_MLA_HEADS, num_key_value_heads=N_MLA_HEADS, q_lora_rank=40, kv_lora_rank=LATENT,
                 qk_rope_head_dim=ROPE_DIM, qk_nope_head_dim=NOPE_DIM, v_head_dim=V_DIM)
    config = transformers.Mistral4Config(
        **{**SMALL, "rope_parameters": rope, **heads}, intermediate_size=64, moe_intermediate_size=32, n_routed_experts=8,
        n_shared_experts=1, num_experts_per_tok=3, first_k_dense_replace=0, norm_topk_prob=True)
    keys = sizes(config, **{
        "attention.head_count_kv": 1, "attention.q_lora_rank": 40, "attention.kv_lora_rank": LATENT,
        "attention.key_length": LATENT + ROPE_DIM, "attention.value_length": LATENT,
        "attention.key_length_mla": NOPE_DIM + ROPE_DIM, "attention.value_length_mla": V_DIM, "vocab_size": N_VOCAB,
        "expert_count": 8, "expert_feed_forward_length": 32, "expert_shared_count": 1, "expert_group_count": 1,
        "expert_group_used_count": 1, "expert_weights_scale": 1.0, "expert_weights_norm": True,
        "leading_dense_block_count": 0, "rope.dimension_count": ROPE_DIM, "rope.scaling.yarn_log_multiplier": 0.1})
    config._attn_implementation = "eager"
    return Tiny("mistral4", config, keys, {**SIGMOID_MOE, **MLA}, absorbed, scores=plain_scores, n_used=3,
                build=lambda: transformers.Mistral4ForCausalLM(config))


def deepseek():
    """The first DeepSeek: llama's attention; a first dense layer; softmax router, not renormalised; shared experts
    without a gate. transformers lacks it: this is its qwen2_moe without biases and that gate."""
    config = transformers.Qwen2MoeConfig(
        **{**SMALL, "num_hidden_layers": 3}, intermediate_size=96, moe_intermediate_size=32, num_experts=8,
        shared_expert_intermediate_size=64, num_experts_per_tok=3, norm_topk_prob=False, qkv_bias=False,
        mlp_only_layers=[0])

    def build():
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        for layer in model.model.layers[1:]:
            def forward(x, mlp=layer.mlp):
                rows = x.reshape(-1, x.shape[-1])
                _, weights, chosen = mlp.gate(rows)
                return (mlp.experts(rows, chosen, weights) + mlp.shared_expert(rows)).reshape(x.shape)
            layer.mlp.forward = forward
        return model

    keys = sizes(config, **{"rope.dimension_count": 8, "rope.scaling.type": "none", "leading_dense_block_count": 1,
                            "vocab_size": N_VOCAB, "expert_feed_forward_length": 32, "expert_weights_scale": 1.0,
                            "expert_count": 8, "expert_shared_count": 2})
    names = {**MOE, **FFN, **{name.replace("experts", "expert"): to for name, to in SHARED.items()},
             "mlp.shared_expert_gate": ""}

    def published(tensors, fields):
        fields.update(architectures=["DeepseekForCausalLM"], model_type="deepseek", n_routed_experts=8, n_shared_experts=2,
                      first_k_dense_replace=1, scoring_func="softmax")
        for field in ("num_experts", "shared_expert_intermediate_size", "mlp_only_layers"):
            fields.pop(field, None)
        return {name.replace("shared_expert.", "shared_experts."): data for name, data in tensors.items()
                if "shared_expert_gate" not in name}

    return Tiny("deepseek", config, keys, names, permuted(4, 2), scores=plain_scores, n_used=3, build=build,
                published=published)


def smallthinker(sigmoid=False):
    """ReGLU experts; the router reads the layer's input before its norm; every fourth layer, from the first on, attends
    to everything and has no RoPE, the others have a window. transformers lacks it: this is its mixtral with the
    changes that the model's published code has."""
    config = transformers.MixtralConfig(**{**SMALL, "num_hidden_layers": 5}, head_dim=16, intermediate_size=32,
                                        num_local_experts=4, num_experts_per_tok=2, hidden_act="relu",
                                        sliding_window=WINDOW)

    def build():
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        causal = torch.full((len(TOKENS), len(TOKENS)), -np.inf).triu(1)[None, None]
        for i, layer in enumerate(model.model.layers):
            def keep(_, args, kwargs, gate=layer.mlp.gate):
                gate.layer_input = args[0] if args else kwargs["hidden_states"]

            def route(rows, gate=layer.mlp.gate):
                logits = gate.layer_input.reshape(rows.shape) @ gate.weight.T
                best, chosen = logits.topk(gate.top_k, dim=-1)
                weights = torch.sigmoid(best) if sigmoid else best.softmax(-1)
                return logits, weights / weights.sum(-1, keepdim=True), chosen

            def see_everything(_, args, kwargs):
                cos, sin = kwargs["position_embeddings"]
                turned = {"position_embeddings": (torch.ones_like(cos), torch.zeros_like(sin))}
                return args, {**kwargs, **turned, "attention_mask": causal}

            layer.register_forward_pre_hook(keep, with_kwargs=True)
            layer.mlp.gate.forward = route
            if i % 4 == 0:
                layer.self_attn.register_forward_pre_hook(see_everything, with_kwargs=True)
        return model

    keys = sizes(config, **{"expert_count": 4, "expert_feed_forward_length": 32, "feed_forward_length": 32,
                            "expert_gating_func": 2 if sigmoid else 1, "attention.sliding_window": WINDOW})

    def published(tensors, fields):
        fields.update(architectures=["SmallThinkerForCausalLM"], model_type="smallthinker", moe_num_primary_experts=4,
                      moe_num_active_primary_experts=2, moe_ffn_hidden_size=32, sliding_window_size=WINDOW,
                      moe_primary_router_apply_softmax=not sigmoid, rope_theta=10000.0,
                      sliding_window_layout=[int(i % 4 != 0) for i in range(5)])
        for field in ("num_local_experts", "num_experts_per_tok", "intermediate_size", "sliding_window"):
            fields.pop(field)
        renamed = {"moe.gate.": "moe.primary_router.", ".w1.": ".gate.", ".w2.": ".down.", ".w3.": ".up."}
        for old, new in renamed.items():
            tensors = {name.replace(old, new): data for name, data in tensors.items()}
        return tensors

    return Tiny("smallthinker", config, keys, MOE, split_experts, n_used=2, build=build, published=published,
                scores=lambda router, x: router.layer_input.reshape(x.shape) @ router.weight.T)


def smallthinker_sigmoid():
    """The same with sigmoids instead of a softmax."""
    return smallthinker(sigmoid=True)


def minimax_m2():
    """Norms over the whole q and k; RoPE on half of a head; sigmoid router with a bias for choosing, renormalised."""
    config = transformers.MiniMaxM2Config(**SMALL, head_dim=16, rotary_dim=8, intermediate_size=32,
                                          num_local_experts=8, num_experts_per_tok=3)
    keys = sizes(config, **{"expert_count": 8, "expert_feed_forward_length": 32, "expert_gating_func": 2,
                            "rope.dimension_count": 8})
    names = {**MOE, **QK_NORMS, "mlp.e_score_correction_bias": "exp_probs_b.bias"}
    return Tiny("minimax-m2", config, keys, names, split_experts, router="mlp", n_used=3,
                scores=lambda block, x: torch.sigmoid(x @ block.gate.weight.T) + block.e_score_correction_bias)


def qwen3vlmoe():
    """qwen3moe as the language model of Qwen3-VL, which has three axes of positions. Checkpoints have experts turned."""
    rope = of_rope(5000000.0, mrope_section=SECTIONS, mrope_interleaved=True)
    text = dict({**SMALL, "rope_parameters": rope}, head_dim=8, intermediate_size=96, moe_intermediate_size=24,
                num_experts=8, num_experts_per_tok=3)
    config = transformers.Qwen3VLMoeConfig(text_config=text, vision_config=dict(VISION, out_hidden_size=32),
                                           tie_word_embeddings=False)
    keys = sizes(config.text_config, **{"expert_count": 8, "expert_feed_forward_length": 24})

    def published(tensors, fields):  # transformers 5 saves experts as other families have them
        return {name: data.transpose(1, 2) if ".experts." in name else data for name, data in tensors.items()}

    return of_vision("qwen3vlmoe", transformers.Qwen3VLMoeForConditionalGeneration, config, keys, {**MOE, **QK_NORMS},
                     change=split_experts, scores=plain_scores, n_used=3, published=published)


HUNYUAN = {**OUTER, **ATTENTION, **FFN_NORM, **EXPERTS, "self_attn.query_layernorm": "attn_q_norm",
           "self_attn.key_layernorm": "attn_k_norm", "mlp.gate.wg": "ffn_gate_inp",
           "mlp.shared_mlp.gate_proj": "ffn_gate_shexp", "mlp.shared_mlp.up_proj": "ffn_up_shexp",
           "mlp.shared_mlp.down_proj": "ffn_down_shexp"}


def hunyuan_moe():
    """Norms of each head's q and k after RoPE; softmax router, renormalised; a shared expert without a gate; tied."""
    config = transformers.HunYuanMoEV1Config(**{**SMALL, "tie_word_embeddings": True}, head_dim=16, intermediate_size=32,
                                             num_experts=8, moe_topk=3)
    keys = sizes(config, **{"expert_count": 8, "expert_used_count": 3, "expert_feed_forward_length": 32,
                            "expert_shared_count": 1, "expert_shared_feed_forward_length": 32})

    def published(tensors, fields):
        n_layers = fields["num_hidden_layers"]
        fields |= {"moe_topk": [3] * n_layers, "moe_intermediate_size": [32] * n_layers,
                   "num_shared_expert": [1] * n_layers}
        return tensors

    return Tiny("hunyuan-moe", config, keys, HUNYUAN, split_experts, n_used=3, published=published,
                scores=lambda router, x: x @ router.wg.weight.T)


def mellum():
    """Norms of each head's q and k; a window in three of four layers, with a RoPE base of their own; YaRN with a magnitude
    of its own in the full layer only; softmax router, renormalised."""
    rope = {"full_attention": of_rope(1000000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=16,
                                      attention_factor=1.25), "sliding_attention": of_rope()}
    config = transformers.MellumConfig(
        **{**SMALL, "num_hidden_layers": 4, "rope_parameters": rope}, head_dim=16, intermediate_size=64,
        moe_intermediate_size=24, num_experts=6, num_experts_per_tok=2, sliding_window=WINDOW,
        layer_types=["sliding_attention"] * 3 + ["full_attention"])
    keys = sizes(config, **{"rope.freq_base": 1000000.0, "rope.freq_base_swa": 10000.0, "rope.scaling.type": "yarn",
                            "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16,
                            "rope.scaling.yarn_attn_factor": 1.25, "attention.sliding_window": WINDOW,
                            "attention.sliding_window_pattern": [True, True, True, False], "expert_count": 6,
                            "expert_feed_forward_length": 24})
    return Tiny("mellum", config, keys, {**MOE, **QK_NORMS}, split_experts, scores=plain_scores, n_used=2)


def of_groups(scores):
    """Scores of four groups of experts: the sums of their best two."""
    return scores.view(len(scores), 4, -1).topk(2).values.sum(-1)


def bailingmoe2():
    """Ling 2: attn_qkv; norms of each head's q and k; RoPE on half of each head; a first dense layer; sigmoid router with
    a bias for choosing; groups by the sum of their best two; renormalised weights times 2.5. transformers lacks it: this
    is its glm4_moe, which has the same formulas."""
    config = transformers.Glm4MoeConfig(
        **{**SMALL, "num_hidden_layers": 3}, head_dim=16, intermediate_size=64, moe_intermediate_size=32,
        n_routed_experts=12, num_experts_per_tok=3, n_shared_experts=1, n_group=4, topk_group=2, norm_topk_prob=True,
        routed_scaling_factor=2.5, first_k_dense_replace=1, use_qk_norm=True, attention_bias=False,
        partial_rotary_factor=0.5, num_mtp_layers=0)
    keys = sizes(config, **{"rope.dimension_count": 8, "vocab_size": N_VOCAB, "expert_count": 12,
                            "expert_group_count": 4, "expert_group_used_count": 2, "expert_feed_forward_length": 32,
                            "expert_shared_count": 1, "expert_shared_feed_forward_length": 32,
                            "leading_dense_block_count": 1, "expert_gating_func": 2, "expert_weights_scale": 2.5,
                            "expert_weights_norm": True})
    fuse = fused_qkv()

    def change(name, data):
        for one in split_experts(name, data):
            yield from fuse(*one)

    def published(tensors, fields):
        fields |= {"architectures": ["BailingMoeV2ForCausalLM"], "num_experts": fields.pop("n_routed_experts"),
                   "num_shared_experts": fields.pop("n_shared_experts"), "score_function": "sigmoid"}
        renamed = {}
        for name, data in tensors.items():
            for ours, theirs in (("self_attn.o_proj", "attention.dense"), ("self_attn.q_norm", "attention.query_layernorm"),
                                 ("self_attn.k_norm", "attention.key_layernorm"), ("embed_tokens", "word_embeddings"),
                                 ("gate.e_score_correction_bias", "gate.expert_bias")):
                name = name.replace(ours, theirs)
            renamed[name] = data
        for q in [name for name in renamed if name.endswith("self_attn.q_proj.weight")]:
            parts = [renamed.pop(q.replace("q_proj", part)) for part in ("q_proj", "k_proj", "v_proj")]
            renamed[q.replace("self_attn.q_proj", "attention.query_key_value")] = torch.cat(parts)
        return renamed

    return Tiny("bailingmoe2", config, keys, {**SIGMOID_MOE, **QK_NORMS}, change, scores=biased_scores, n_used=3,
                groups=of_groups, n_groups_used=2, published=published)


def dots1():
    """Norms of each head's q and k; a first dense layer; sigmoid router with a bias for choosing, renormalised, times
    2.5; two shared experts in one."""
    config = transformers.Dots1Config(
        **{**SMALL, "num_hidden_layers": 3, "num_key_value_heads": 4}, intermediate_size=64, moe_intermediate_size=32,
        n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=2, norm_topk_prob=True, routed_scaling_factor=2.5,
        first_k_dense_replace=1, sliding_window=None)
    keys = sizes(config, **{"expert_count": 8, "expert_group_count": 1, "expert_group_used_count": 1,
                            "expert_feed_forward_length": 32, "expert_shared_count": 2, "leading_dense_block_count": 1,
                            "expert_gating_func": 2, "expert_weights_scale": 2.5, "expert_weights_norm": True})

    def published(tensors, fields):
        fields["scoring_func"] = "noaux_tc"  # sigmoids
        return tensors

    return Tiny("dots1", config, keys, {**SIGMOID_MOE, **QK_NORMS}, split_experts, scores=biased_scores, n_used=3,
                published=published)


def exaone_moe():
    """Norms of each head's q and k; a window in three of four layers, the other has no RoPE; a first dense layer; sigmoid
    router with a bias for choosing, renormalised, times 2.5; a shared expert."""
    config = transformers.ExaoneMoeConfig(
        **{**SMALL, "num_hidden_layers": 4}, head_dim=16, intermediate_size=64, moe_intermediate_size=32, num_experts=6,
        num_experts_per_tok=2, num_shared_experts=1, sliding_window=WINDOW, sliding_window_pattern=4)
    keys = sizes(config, **{"vocab_size": N_VOCAB, "attention.sliding_window": WINDOW,
                            "attention.sliding_window_pattern": [True, True, True, False], "expert_count": 6,
                            "expert_group_count": 1, "expert_group_used_count": 1, "expert_feed_forward_length": 32,
                            "expert_shared_count": 1, "expert_shared_feed_forward_length": 32,
                            "expert_gating_func": 2, "expert_weights_scale": 2.5, "expert_weights_norm": True,
                            "leading_dense_block_count": 1, "rope.scaling.type": "none"})
    return Tiny("exaone-moe", config, keys, {**SIGMOID_MOE, **QK_NORMS}, split_experts, scores=biased_scores, n_used=2)


MODELS = {
    "qwen3moe": qwen3moe,
    "mixtral": mixtral,
    "mixtral-split": mixtral_split,
    "olmoe": olmoe,
    "qwen2moe": qwen2moe,
    "qwen2moe-fused": qwen2moe_fused,
    "granitemoe": granitemoe,
    "granitemoe-shared": granitemoe_shared,
    "gpt-oss": gpt_oss,
    "gpt-oss-mxfp4": gpt_oss_mxfp4,
    "glm4moe": glm4moe,
    "ernie4_5-moe": ernie,
    "minimax-m2": minimax_m2,
    "deepseek": deepseek,
    "deepseek2-lite": deepseek2_lite,
    "deepseek2-v2": deepseek2_v2,
    "deepseek2-v3": deepseek2_v3,
    "deepseek2-v3-nextn": deepseek2_v3_nextn,
    "mistral4": mistral4,
    "deepseek32": deepseek32,
    "glm-dsa": glm_dsa,
    "deepseek32-chooses": deepseek32_chooses,
    "glm-dsa-chooses": glm_dsa_chooses,
    "smallthinker": smallthinker,
    "smallthinker-sigmoid": smallthinker_sigmoid,
    "qwen3vlmoe": qwen3vlmoe,
    "hunyuan-moe": hunyuan_moe,
    "bailingmoe2": bailingmoe2,
    "dots1": dots1,
    "exaone-moe": exaone_moe,
    "mellum": mellum,
}

if __name__ == "__main__":
    make_all(MODELS)
