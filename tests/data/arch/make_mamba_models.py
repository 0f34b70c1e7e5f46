"""Makes the tiny random models of this folder with layers of Mamba-2, and their golden logits, with the PyPI packages
transformers (5.24 or newer) and gguf.

usage: make_mamba_models.py OUT_DIR [NAME...]      (needs torch, transformers, gguf, numpy)

Files are as in make_recurrent_models.py: only keys and values are rounded to half precision for the golden logits, which
come from one pass over the whole prompt. Before a model is written, transformers must give the same logits token by
token. The committed files came from this script.
"""
import statistics

import numpy as np
import torch
import transformers

from tiny_models import (ATTENTION, EXPERTS, FFN, FFN_NORM, N_VOCAB, OUTER, TOKENS, Tiny, make_all, of_rope, permuted,
                         plain_scores, sizes, split_experts)

D_MODEL, HEAD_DIM, STATE, TAPS, GROUPS = 32, 16, 24, 4, 2
AGREEMENT = 2e-4  # of logits between cuts of one prompt, in their standard deviations
MAMBA = {"in_proj": "ssm_in", "conv1d": "ssm_conv1d", "A_log": "ssm_a", "D": "ssm_d", "dt_bias": "ssm_dt.bias",
         "norm": "ssm_norm", "out_proj": "ssm_out"}
# Taps that all matter, and time steps and decays (see settle) with which a state remembers dozens of tokens.
SPREADS = {"conv1d.weight": 0.5, "A_log": 1.0, "dt_bias": 1.0}


def settle(model):
    """Makes decays uniform in 0.01 to 1, lets time steps lie around -1, and lifts the limit from steps that transformers
    computes otherwise in prompts than token by token."""
    for module in model.modules():
        if not hasattr(module, "A_log"):
            continue
        module.time_step_limit = (0.0, float("inf"))
        decay = [0.01 + 0.99 * statistics.NormalDist().cdf(z) for z in module.A_log.tolist()]
        module.A_log.copy_(torch.tensor(decay).log().half().float())
        module.dt_bias.copy_((module.dt_bias - 1.0).half().float())


def converted(name, data, groups=GROUPS):
    """What converters change in the tensors of Mamba-2."""
    if name.endswith(("ssm_a.weight", "ssm_d.weight")):
        data = data.reshape(-1, 1)
        if "ssm_a" in name:
            data = -torch.exp(torch.from_numpy(data)).numpy()
        return [(name.removesuffix(".weight"), data)]
    if name.endswith("ssm_conv1d.weight"):
        data = data.squeeze(1)
    elif name.endswith("ssm_norm.weight"):
        data = data.reshape(groups, -1)
    return [(name, data)]


def check_cuts(model):
    """Fails if transformers gives other logits for a prompt token by token, with the states and keys of a cache."""
    with torch.no_grad():
        whole = model(torch.tensor([TOKENS])).logits[0]
        cache, rows = transformers.DynamicCache(config=model.config), []
        for token in TOKENS:
            out = model(torch.tensor([[token]]), cache=cache, use_cache=True)
            rows.append(out.logits[0])
        worst = ((torch.cat(rows) - whole).abs().max() / whole.std()).item()
        assert worst < AGREEMENT, worst


def of_ssm(heads, head_dim, groups=GROUPS):
    return {"ssm.conv_kernel": TAPS, "ssm.state_size": STATE, "ssm.group_count": groups, "ssm.time_step_rank": heads,
            "ssm.inner_size": heads * head_dim}


NEMOTRON = dict(vocab_size=N_VOCAB, hidden_size=D_MODEL, num_attention_heads=4, num_key_value_heads=2, head_dim=HEAD_DIM,
                max_position_embeddings=4096, ssm_state_size=STATE, n_groups=GROUPS, conv_kernel=TAPS, chunk_size=16,
                tie_word_embeddings=False, pad_token_id=None)
EXPERT, SHARED, LATENT, N_EXPERTS, N_USED = 32, 48, 16, 8, 3
NEMOTRON_NAMES = {"model.embeddings": "token_embd", "model.norm_f": "output_norm", "lm_head": "output", "norm": "attn_norm",
                  **{f"mixer.{name}": to for name, to in MAMBA.items()},
                  "mixer.q_proj": "attn_q", "mixer.k_proj": "attn_k", "mixer.v_proj": "attn_v",
                  "mixer.o_proj": "attn_output", "mixer.up_proj": "ffn_up", "mixer.down_proj": "ffn_down",
                  "mixer.gate": "ffn_gate_inp", "mixer.gate.e_score_correction_bias": "exp_probs_b.bias",
                  "mixer.experts.up_proj": "ffn_up_exps", "mixer.experts.down_proj": "ffn_down_exps",
                  "mixer.shared_experts.up_proj": "ffn_up_shexp", "mixer.shared_experts.down_proj": "ffn_down_shexp",
                  "mixer.fc1_latent_proj": "ffn_latent_down", "mixer.fc2_latent_proj": "ffn_latent_up"}


def sigmoid_scores(router, x):
    return (x @ router.weight.T).sigmoid() + router.e_score_correction_bias


def eager(kind, config):
    config._attn_implementation = "eager"
    return kind(config)


def nemotron(arch, pattern, width, heads=5, head_dim=12, groups=1, **more):
    """pattern: a letter for each block: M Mamba-2, * attention, - or E an FFN of `width` neurons. The inner width is not
    twice the model's."""
    types = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}
    config = transformers.NemotronHConfig(**{**NEMOTRON, "n_groups": groups}, **more, mamba_num_heads=heads,
                                          mamba_head_dim=head_dim, layers_block_type=[types[one] for one in pattern])
    keys = sizes(config, **of_ssm(heads, head_dim, groups), **{"attention.layer_norm_epsilon": 1e-5,
                 "attention.layer_norm_rms_epsilon": 1e-5, "rope.dimension_count": D_MODEL // 4, "vocab_size": N_VOCAB,
                 "attention.head_count_kv": [2 if one == "*" else 0 for one in pattern],
                 "feed_forward_length": [width if one in "-E" else 0 for one in pattern]})
    model = Tiny(arch, config, keys, NEMOTRON_NAMES, lambda name, data: converted(name, data, groups), spreads=SPREADS,
                 settle=settle, build=lambda: eager(transformers.NemotronHForCausalLM, config), check=check_cuts)
    if "E" not in pattern:
        del keys["expert_used_count"]
        return model
    model.scores, model.router, model.n_used = sigmoid_scores, "mixer.gate", N_USED
    keys |= {"expert_count": N_EXPERTS, "expert_shared_count": 1, "expert_feed_forward_length": EXPERT,
             "expert_shared_feed_forward_length": SHARED, "expert_weights_norm": True, "expert_weights_scale": 2.5,
             "expert_group_count": 1, "expert_group_used_count": 1}
    return model


def nemotron_h():
    """Blocks of every kind; the last is an FFN. One group, heads of 12 columns."""
    return nemotron("nemotron_h", "M-*-M-", 40, intermediate_size=40)


EXPERTS_OF_NANO = dict(n_routed_experts=N_EXPERTS, num_experts_per_tok=N_USED, moe_intermediate_size=EXPERT,
                       n_shared_experts=1, moe_shared_expert_intermediate_size=SHARED, routed_scaling_factor=2.5)


def nemotron_h_moe():
    """As Nemotron 3 Nano: experts without gates, chosen by biased sigmoids, and a shared expert; two groups; attention is
    the last block but one."""
    return nemotron("nemotron_h_moe", "MEME*M", EXPERT, heads=6, head_dim=16, groups=GROUPS, **EXPERTS_OF_NANO)


def nemotron_h_latent():
    """As Nemotron 3 Super: experts read and write vectors of a quarter of the width."""
    model = nemotron("nemotron_h_moe", "MEME*M", EXPERT, heads=6, head_dim=16, groups=GROUPS, moe_latent_size=LATENT,
                     **EXPERTS_OF_NANO)
    model.keys["moe_latent_size"] = LATENT
    return model


SCALES = dict(embedding_multiplier=6.0, residual_multiplier=0.375, attention_multiplier=0.25, logits_scaling=3.0)
GRANITE_NAMES = {**OUTER, **ATTENTION, **FFN_NORM, **{f"mamba.{name}": to for name, to in MAMBA.items()},
                 "block_sparse_moe.router": "ffn_gate_inp", "block_sparse_moe.experts.gate_up_proj": "ffn_gate_up_exps",
                 "block_sparse_moe.experts.down_proj": "ffn_down_exps"}


def granite(pattern, experts, rope=False):
    heads, head_dim = 4, 16
    config = transformers.GraniteMoeHybridConfig(
        vocab_size=N_VOCAB, hidden_size=D_MODEL, num_attention_heads=4, num_key_value_heads=2, **SCALES,
        intermediate_size=EXPERT, shared_intermediate_size=SHARED, num_local_experts=N_EXPERTS if experts else 0,
        num_experts_per_tok=N_USED, num_hidden_layers=len(pattern), max_position_embeddings=4096, pad_token_id=None,
        layer_types=["full_attention" if one == "*" else "linear_attention" for one in pattern],
        position_embedding_type="rope" if rope else None, mamba_n_heads=heads, mamba_d_head=head_dim, mamba_d_state=STATE,
        mamba_n_groups=GROUPS, mamba_d_conv=TAPS, mamba_expand=2, mamba_chunk_size=16, rms_norm_eps=1e-5,
        tie_word_embeddings=experts)
    keys = sizes(config, **of_ssm(heads, head_dim), **{
        "attention.head_count_kv": [2 if one == "*" else 0 for one in pattern], "vocab_size": N_VOCAB,
        "feed_forward_length": EXPERT if experts else SHARED, "expert_shared_feed_forward_length": SHARED,
        "rope.dimension_count": D_MODEL // 4, "embedding_scale": 6.0, "residual_scale": 0.375, "attention.scale": 0.25,
        "logit_scale": 3.0, "rope.freq_base": 10000.0})
    if not rope:
        keys["rope.scaling.finetuned"] = False
    names, permute = dict(GRANITE_NAMES), permuted(4, 2)
    if experts:
        names |= {"shared_mlp.input_linear": "ffn_gate_up_shexp", "shared_mlp.output_linear": "ffn_down_shexp"}
        keys["expert_count"] = N_EXPERTS
    else:
        names |= {"shared_mlp.input_linear": "ffn_gate_up", "shared_mlp.output_linear": "ffn_down"}
        del keys["expert_used_count"]

    def change(name, data):
        if "ffn_gate_up." in name:
            half = data.shape[0] // 2
            return [(name.replace("gate_up", "gate"), data[:half]), (name.replace("gate_up", "up"), data[half:])]
        return [pair for one in converted(name, data) for pair in permute(*one)]
    return Tiny("granitehybrid", config, keys, names, change, spreads=SPREADS, settle=settle, check=check_cuts,
                scores=plain_scores if experts else None, router="block_sparse_moe.router", n_used=N_USED,
                build=lambda: eager(transformers.GraniteMoeHybridForCausalLM, config))


def granitehybrid():
    """As Granite 4 H: experts and a shared one in every layer, four multipliers, no rotary embedding."""
    return granite("MM*M", experts=True)


def granitehybrid_dense():
    """Without experts, and with a rotary embedding (as in Bamba)."""
    return granite("M*M", experts=False, rope=True)


FALCON_NAMES = {**OUTER, **ATTENTION, **{f"mamba.{name}": to for name, to in MAMBA.items()}, "pre_ff_layernorm": "ffn_norm",
                "model.final_layernorm": "output_norm", "feed_forward.gate_proj": "ffn_gate", "feed_forward.up_proj": "ffn_up",
                "feed_forward.down_proj": "ffn_down"}


def falcon_h1(norm=False):
    """Attention and Mamba-2 beside each other in each layer. The multipliers, which converters multiply into weights, are
    powers of two. norm: the output of the scan is normed and then gated; without, it is gated only."""
    heads, head_dim = 4, 20
    config = transformers.FalconH1Config(
        vocab_size=N_VOCAB, hidden_size=D_MODEL, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, head_dim=HEAD_DIM, max_position_embeddings=4096, mamba_d_ssm=heads * head_dim,
        mamba_n_heads=heads, mamba_d_head=head_dim, mamba_n_groups=GROUPS, mamba_d_state=STATE, mamba_d_conv=TAPS,
        mamba_chunk_size=16, mamba_rms_norm=norm, mamba_norm_before_gate=True, rope_parameters=of_rope(1e5),
        tie_word_embeddings=False, pad_token_id=None, embedding_multiplier=4.0, lm_head_multiplier=2.0, key_multiplier=0.5,
        attention_in_multiplier=2.0, attention_out_multiplier=4.0, ssm_in_multiplier=2.0, ssm_out_multiplier=2.0,
        mlp_multipliers=[2.0, 4.0], ssm_multipliers=[1.0, 0.5, 1.0, 2.0, 0.5])
    keys = sizes(config, **of_ssm(heads, head_dim), vocab_size=N_VOCAB)
    factors = {"ffn_down": 4.0, "ffn_gate": 2.0, "attn_q": 2.0, "attn_v": 2.0, "attn_output": 4.0, "ssm_out": 2.0,
               "output": 2.0, "token_embd": 4.0}

    def change(name, data):
        part = name.split(".")[-2]
        if part == "ssm_in":
            inner, rows = heads * head_dim, GROUPS * STATE
            parts = np.split(data, np.cumsum([inner, inner, rows, rows]))
            data = np.concatenate([2.0 * factor * one for factor, one in zip(config.ssm_multipliers, parts)])
        if part == "ffn_norm" and not norm:  # as llama.cpp's converter names it
            name = name.removesuffix(".weight")
        return converted(name, data * np.float32(factors.get(part, 1.0)))
    return Tiny("falcon-h1", config, keys, FALCON_NAMES, change, spreads=SPREADS, settle=settle, check=check_cuts,
                build=lambda: eager(transformers.FalconH1ForCausalLM, config))


def falcon_h1_norm():
    return falcon_h1(norm=True)


def mamba2():
    """Mamba-2 alone: a layer is one norm and one scan. The file says that there are no heads of attention."""
    heads, head_dim = 4, 16
    config = transformers.Mamba2Config(
        vocab_size=N_VOCAB, hidden_size=D_MODEL, num_hidden_layers=3, num_heads=heads, head_dim=head_dim, state_size=STATE,
        n_groups=GROUPS, conv_kernel=TAPS, chunk_size=16, pad_token_id=None)
    keys = {"block_count": 3, "context_length": 2**20, "embedding_length": D_MODEL, "feed_forward_length": 0,
            "attention.head_count": 0, "attention.layer_norm_rms_epsilon": 1e-5, "vocab_size": N_VOCAB,
            **of_ssm(heads, head_dim)}
    names = {"backbone.embeddings": "token_embd", "backbone.norm_f": "output_norm", "lm_head": "output", "norm": "attn_norm",
             **{f"mixer.{name}": to for name, to in MAMBA.items()}}
    return Tiny("mamba2", config, keys, names, converted, spreads=SPREADS, settle=settle, check=check_cuts,
                build=lambda: eager(transformers.Mamba2ForCausalLM, config))


MODELS = {
    "falcon-h1": falcon_h1,
    "falcon-h1-norm": falcon_h1_norm,
    "nemotron_h": nemotron_h,
    "nemotron_h_moe": nemotron_h_moe,
    "nemotron_h_latent": nemotron_h_latent,
    "granitehybrid": granitehybrid,
    "granitehybrid-dense": granitehybrid_dense,
    "mamba2": mamba2,
}

if __name__ == "__main__":
    make_all(MODELS)
