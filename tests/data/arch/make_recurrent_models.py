"""Makes the tiny random models of this folder whose layers keep a recurrent state (gated delta nets), and their
golden logits, with the PyPI packages transformers (5.24 or newer) and gguf.

usage: make_recurrent_models.py OUT_DIR [NAME...]      (needs torch, transformers, gguf, numpy)

Files are as in make_expert_models.py, except that only keys and values are rounded to half precision for the golden
logits: states stay float32. Before a model is written, transformers must agree with itself: prompts cut in two at
several places, and token by token, give the logits of the whole prompt. The committed files came from this script.
"""
import copy
import dataclasses
import statistics

import numpy as np
import torch
import transformers

from tiny_models import (ATTENTION, EXPERTS, FFN, N_VOCAB, OUTER, QK_NORMS, TOKENS, Tiny, fused_qkv, make_all, nextn_golden,
                         of_rope, plain_scores, randomise, rms_norm, sizes, split_experts, tensors_of)

D_MODEL, HEAD_DIM, N_K_HEADS, N_V_HEADS, STATE, TAPS, N_ROT = 32, 32, 2, 6, 16, 4, 8
AGREEMENT = 2e-4  # of logits between cuts of one prompt, in their standard deviations
SMALL = dict(vocab_size=N_VOCAB, hidden_size=D_MODEL, num_hidden_layers=5, num_attention_heads=4, num_key_value_heads=2,
             head_dim=HEAD_DIM, max_position_embeddings=4096, rms_norm_eps=1e-6, tie_word_embeddings=False,
             pad_token_id=None, linear_num_key_heads=N_K_HEADS, linear_num_value_heads=N_V_HEADS,
             linear_key_head_dim=STATE, linear_value_head_dim=STATE, linear_conv_kernel_dim=TAPS)
MIXTURE = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=48)
SECTIONS = [2, 1, 1]  # of the pairs of dimensions: time, height, width

DELTA = {"linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate",
         "linear_attn.in_proj_a": "ssm_alpha", "linear_attn.in_proj_b": "ssm_beta",
         "linear_attn.in_proj_qkvz": "ssm_in", "linear_attn.in_proj_ba": "ssm_ba", "linear_attn.conv1d": "ssm_conv1d",
         "linear_attn.A_log": "ssm_a", "linear_attn.dt_bias": "ssm_dt.bias", "linear_attn.norm": "ssm_norm",
         "linear_attn.out_proj": "ssm_out"}
NAMES = {**OUTER, **ATTENTION, **QK_NORMS, **FFN, **EXPERTS, **DELTA, "post_attention_layernorm": "post_attention_norm",
         "mlp.shared_expert_gate": "ffn_gate_inp_shexp", "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
         "mlp.shared_expert.up_proj": "ffn_up_shexp", "mlp.shared_expert.down_proj": "ffn_down_shexp"}
# Taps that all matter, and time steps and decays (see settle) with which a state remembers dozens of tokens.
SPREADS = {"conv1d": 0.5, "A_log": 1.0, "dt_bias": 1.0}


def settle(model):
    """Makes weights of gated norms lie around 1 (those of others lie around 0, and the model adds 1), decays uniform in
    0.01 to 1, and time steps lie around -1."""
    for layer in model.model.layers:
        delta = getattr(layer, "linear_attn", None)
        if delta is None:
            continue
        delta.norm.weight.copy_((1.0 + delta.norm.weight).half().float())
        decay = [0.01 + 0.99 * statistics.NormalDist().cdf(z) for z in delta.A_log.tolist()]
        delta.A_log.copy_(torch.tensor(decay).log().half().float())
        delta.dt_bias.copy_((delta.dt_bias - 1.0).half().float())


def tiled(data, axis, unit, config):
    """Moves value heads of `unit` rows from the checkpoint's order, in which those of one key head are neighbors, to one
    in which neighbors have neighboring key heads."""
    n_k, n_v = config.linear_num_key_heads, config.linear_num_value_heads
    data = np.moveaxis(data, axis, 0)
    heads = data.reshape(n_k, n_v // n_k, unit, *data.shape[1:]).swapaxes(0, 1)
    return np.moveaxis(heads.reshape(data.shape), 0, axis)


def as_tiled(name, data, config):
    """Returns a tensor of qwen35 or qwen35moe with its value heads in the order of files."""
    part = name.split(".")[2] if name.startswith("blk.") else ""
    keys = 2 * config.linear_num_key_heads * STATE  # rows or channels of q and k
    if part in ("attn_qkv", "ssm_conv1d") and data.shape[0] == keys + config.linear_num_value_heads * STATE:
        return np.concatenate([data[:keys], tiled(data[keys:], 0, STATE, config)])
    if part == "attn_gate":
        return tiled(data, 0, STATE, config)
    if part in ("ssm_alpha", "ssm_beta", "ssm_a", "ssm_dt"):
        return tiled(data, 0, 1, config)
    return tiled(data, 1, STATE, config) if part == "ssm_out" else data


def regrouped(name, data, config):
    """Splits rows of qwen3next, which are grouped by key head (q, k, v, z), into all q, k and v, and all z."""
    n_k, values = config.linear_num_key_heads, config.linear_num_value_heads // config.linear_num_key_heads * STATE
    q, k, v, z = np.split(data.reshape(n_k, -1, data.shape[1]), np.cumsum([STATE, STATE, values]), axis=1)
    flat = [part.reshape(-1, data.shape[1]) for part in (q, k, v, z)]
    return [(name.replace("ssm_in", "attn_qkv"), np.concatenate(flat[:3])),
            (name.replace("ssm_in", "attn_gate"), flat[3])]


def changes(config, legacy=False):
    """What converters change on the way from a checkpoint to a file. legacy: the projections stay as in the checkpoint,
    as in files of the first converter of qwen3next."""
    def change(name, data):
        if name.endswith("ssm_a.weight"):
            name, data = name.removesuffix(".weight"), -torch.exp(torch.from_numpy(data)).numpy()
        elif name.endswith("ssm_conv1d.weight"):
            data = data.squeeze(1)
        elif name.endswith("norm.weight") and not name.endswith("ssm_norm.weight"):
            data = data + 1
        if name.endswith("ssm_in.weight") and not legacy:
            return regrouped(name, data, config)
        if not isinstance(config, transformers.Qwen3NextConfig):
            data = as_tiled(name, data, config)
        return split_experts(name, data)
    return change


def check_cuts(model):
    """Fails if transformers gives other logits for a prompt that is cut, with the states and keys of a cache."""
    with torch.no_grad():
        whole = model(torch.tensor([TOKENS])).logits[0]
        for ends in ([1], [2], [3], [16], [17], [1, 2, 3, 19, 20], list(range(1, len(TOKENS)))):
            cache, rows = transformers.DynamicCache(config=model.config), []
            for begin, end in zip([0, *ends], [*ends, len(TOKENS)]):
                rows.append(model(torch.tensor([TOKENS[begin:end]]), cache=cache, use_cache=True).logits[0])
            worst = ((torch.cat(rows) - whole).abs().max() / whole.std()).item()
            assert worst < AGREEMENT, (ends, worst)


def tiny(arch, config, kind, change=None, mixture=False):
    """The keys are those of converters of autumn 2026."""
    full = [layer == "full_attention" for layer in config.layer_types]
    keys = sizes(config, **{"rope.dimension_count": N_ROT, "ssm.conv_kernel": TAPS, "ssm.state_size": STATE,
                            "ssm.group_count": config.linear_num_key_heads,
                            "ssm.time_step_rank": config.linear_num_value_heads,
                            "ssm.inner_size": config.linear_num_value_heads * STATE,
                            "attention.recurrent_layers": [not one for one in full],
                            "full_attention_interval": full.index(True) + 1})
    if "mrope_section" in config.rope_parameters:
        keys["rope.dimension_sections"] = [*SECTIONS, 0]
    if mixture:
        keys |= {"expert_count": MIXTURE["num_experts"], "expert_feed_forward_length": MIXTURE["moe_intermediate_size"],
                 "expert_shared_feed_forward_length": MIXTURE["shared_expert_intermediate_size"]}
    return Tiny(arch, config, keys, NAMES, change or changes(config), norm_base=0.0, spreads=SPREADS, settle=settle,
                scores=plain_scores if mixture else None, n_used=MIXTURE["num_experts_per_tok"], check=check_cuts,
                build=lambda: build(kind, config))


def build(kind, config):
    config._attn_implementation = "eager"
    return kind(config)


def rope(**more):
    return of_rope(partial_rotary_factor=N_ROT / HEAD_DIM, **more)


def of_dense(**changed):
    config = transformers.Qwen3_5TextConfig(**{**SMALL, **changed}, intermediate_size=48,
                                            rope_parameters=rope(mrope_section=list(SECTIONS)))
    return config, transformers.Qwen3_5ForCausalLM


def qwen35():
    """Three value heads of each key head, tiled; gates of attention; layer 3 is full, and the last layer is not."""
    return tiny("qwen35", *of_dense())


def qwen35_equal():
    """As many value heads as key heads; every third layer is full, by the interval only."""
    model = tiny("qwen35", *of_dense(linear_num_value_heads=N_K_HEADS, full_attention_interval=3))
    del model.keys["attention.recurrent_layers"]
    return model


def qwen35_tied():
    """Tied; attn_qkv in the full layer too, with its gates; neither an interval nor an array."""
    config, kind = of_dense(tie_word_embeddings=True)
    model = tiny("qwen35", config, kind)
    fuse, converted = fused_qkv(), changes(config)
    model.change = lambda name, data: [pair for one in converted(name, data) for pair in fuse(*one)]
    del model.keys["attention.recurrent_layers"], model.keys["full_attention_interval"]
    return model


def qwen35_nextn():
    """The same with a last layer that predicts later tokens. Layers add little to the embeddings, in the last layer too,
    so that its predictions are often right."""
    config, kind = of_dense()
    model = tiny("qwen35", config, kind)
    model.spreads = {**SPREADS, "embed_tokens": 1.0, "o_proj": 0.006, "out_proj": 0.006, "down_proj": 0.006}
    last = copy.deepcopy(config)
    last.num_hidden_layers, last.layer_types = 1, ["full_attention"]
    block = build(kind, last).float().eval()
    n_layers, rng = config.num_hidden_layers, np.random.default_rng(35)
    norms = {name: torch.from_numpy(1 + spread * rng.standard_normal(D_MODEL)).half().float()
             for name, spread in (("enorm", 0.03), ("hnorm", 0.3))}
    join = np.concatenate([np.eye(D_MODEL), 0.02 * rng.standard_normal((D_MODEL, D_MODEL))], 1)
    join = torch.from_numpy(join).half().float()

    def settle_both(main):
        settle(main)
        randomise(dataclasses.replace(model, settle=lambda one: None), block, rng)
        block.lm_head.weight.copy_(main.lm_head.weight)
        block.model.norm.weight.copy_(main.model.norm.weight)

    def extra():
        prefix = f"blk.{n_layers}."
        own = {name.replace("blk.0.", prefix): data
               for name, data in tensors_of(dataclasses.replace(model, extra=dict), block) if name.startswith("blk.0.")}
        head = {prefix + "nextn.shared_head_norm.weight": (block.model.norm.weight + 1).detach().numpy()}
        return own | head | {prefix + "nextn.eh_proj.weight": join.numpy(),
                             **{f"{prefix}nextn.{name}.weight": norm.numpy() for name, norm in norms.items()}}

    model.settle, model.extra = settle_both, extra
    model.keys |= {"block_count": n_layers + 1, "nextn_predict_layers": 1}
    model.keys["attention.recurrent_layers"] = [*model.keys["attention.recurrent_layers"], False]
    model.nextn = lambda main: nextn_golden(main, block, rms_norm(norms["enorm"]), rms_norm(norms["hnorm"]), join)
    return model


def qwen35moe():
    """A mixture with a gated shared expert in every layer, so no feed_forward_length."""
    config = transformers.Qwen3_5MoeTextConfig(**SMALL, **MIXTURE, rope_parameters=rope(mrope_section=list(SECTIONS)))
    return tiny("qwen35moe", config, transformers.Qwen3_5MoeForCausalLM, mixture=True)


def qwen35moe_ollama():
    """The same as Ollama writes it: three sections, ssm_dt without a suffix, heads by layer, a router of one dimension for
    the shared expert, and tensors of an encoder of images and of a further layer in the file."""
    model = qwen35moe()
    converted = model.change

    def change(name, data):
        for name, data in converted(name, data):
            if name.endswith("ffn_gate_inp_shexp.weight"):
                data = data[0]
            yield name.replace("ssm_dt.bias", "ssm_dt"), data

    recurrent = model.keys.pop("attention.recurrent_layers")
    model.keys |= {"attention.head_count_kv": [0 if one else 2 for one in recurrent], "rope.dimension_sections": SECTIONS,
                   "ssm.v_head_reordered": True, "rope.mrope_interleaved": True, "norm_top_k_prob": True,
                   "vision.block_count": 1, "image_token_id": 5}
    model.change, model.seed = change, "qwen35moe"
    model.extra = lambda: {"v.blk.0.attn_norm.weight": np.ones(8, np.float32), "mm.0.bias": np.ones(8, np.float32),
                           "mtp.norm.weight": np.ones(D_MODEL, np.float32)}
    return model


def of_next(**more):
    config = transformers.Qwen3NextConfig(**SMALL, **MIXTURE, intermediate_size=48, norm_topk_prob=True,
                                          rope_parameters=rope())
    return tiny("qwen3next", config, transformers.Qwen3NextForCausalLM, changes(config, **more), mixture=True)


def qwen3next():
    """Value heads grouped by key heads; beta and alpha packed in ssm_ba."""
    return of_next()


def qwen3next_legacy():
    """The same as in files of December 2025: q, k, v and z packed in ssm_in; nothing says which layers are full."""
    model = of_next(legacy=True)
    del model.keys["attention.recurrent_layers"], model.keys["full_attention_interval"]
    model.seed = "qwen3next"
    return model


KIMI_NAMES = {
    **OUTER, **ATTENTION, **FFN, **EXPERTS, "post_attention_layernorm": "ffn_norm",
    "self_attn.conv1d": "ssm_conv1d", "self_attn.forget_gate.f_a_proj": "ssm_f_a", "self_attn.forget_gate.f_b_proj": "ssm_f_b",
    "self_attn.forget_gate.A_log": "ssm_a", "self_attn.forget_gate.dt_bias": "ssm_dt.bias", "self_attn.b_proj": "ssm_beta",
    "self_attn.g_a_proj": "ssm_g_a", "self_attn.g_b_proj": "ssm_g_b", "self_attn.o_norm": "ssm_norm",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b", "mlp.gate.e_score_correction_bias": "exp_probs_b.bias",
    **{f"mlp.shared_experts.{part}_proj": f"ffn_{part}_shexp" for part in ("gate", "up", "down")}}
KIMI_HEADS, LATENT, NOPE, SHARED_KEY = 3, 24, 12, 8


def kimi_linear():
    """Layer 2 has latent attention without RoPE; in the others, each row of a state has its own decay, from a vector as
    short as a head, as the gate, whose activation is a sigmoid; q, k and v have tensors of their own. First layer dense;
    sigmoid router with a bias for choosing, renormalised, times 2.5. The norms' epsilon is not that of q and k."""
    n_heads = KIMI_HEADS
    types = ["linear_attention"] * 2 + ["full_attention"] + ["linear_attention"]
    config = transformers.KimiLinearConfig(
        vocab_size=N_VOCAB, hidden_size=D_MODEL, intermediate_size=48, moe_intermediate_size=24, num_hidden_layers=4,
        num_attention_heads=n_heads, num_key_value_heads=n_heads, n_shared_experts=1, routed_scaling_factor=2.5,
        kv_lora_rank=LATENT, q_lora_rank=None, qk_rope_head_dim=SHARED_KEY, v_head_dim=STATE, qk_nope_head_dim=NOPE,
        num_experts_per_tok=2, norm_topk_prob=True, max_position_embeddings=4096, rms_norm_eps=1e-5, pad_token_id=None,
        num_local_experts=6, layer_types=types, linear_head_dim=STATE, linear_num_heads=n_heads,
        linear_conv_kernel_dim=TAPS)
    keys = {"block_count": 4, "context_length": 4096, "embedding_length": D_MODEL, "feed_forward_length": 48,
            "attention.head_count": n_heads, "attention.head_count_kv": [0, 0, 1, 0], "vocab_size": N_VOCAB,
            "attention.layer_norm_rms_epsilon": 1e-5, "ssm.conv_kernel": TAPS, "kda.head_dim": STATE,
            "attention.kv_lora_rank": LATENT, "rope.dimension_count": SHARED_KEY, "rope.freq_base": 10000.0,
            "attention.key_length": LATENT + SHARED_KEY, "attention.value_length": 72,
            "attention.key_length_mla": NOPE + SHARED_KEY, "attention.value_length_mla": STATE, "expert_count": 6,
            "expert_used_count": 2, "expert_feed_forward_length": 24, "expert_shared_count": 1, "expert_gating_func": 2,
            "leading_dense_block_count": 1, "expert_weights_scale": 2.5}

    def change(name, data):
        if name.endswith("ssm_a.weight"):
            return [(name.removesuffix(".weight"), -torch.exp(torch.from_numpy(data)).numpy())]
        if "ssm_conv1d" in name:
            return [(name.replace("conv1d", f"conv1d_{part}"), rows.reshape(1, -1, 1, TAPS))
                    for part, rows in zip("qkv", np.split(data, 3))]
        if "attn_kv_b" in name:
            heads = data.reshape(n_heads, NOPE + STATE, LATENT)
            return [(name.replace("kv_b", "k_b"), heads[:, :NOPE].swapaxes(1, 2)),
                    (name.replace("kv_b", "v_b"), heads[:, NOPE:])]
        return split_experts(name, data)

    def settle_gates(model):
        for gate in (module for module in model.modules() if hasattr(module, "A_log")):
            decay = [0.01 + 0.49 * statistics.NormalDist().cdf(z) for z in gate.A_log.flatten().tolist()]
            gate.A_log.copy_(torch.tensor(decay).log().half().float().view(gate.A_log.shape))
            gate.dt_bias.copy_((gate.dt_bias - 1.0).half().float())

    def build():
        config._attn_implementation = "eager"
        return transformers.KimiLinearForCausalLM(config)
    return Tiny("kimi-linear", config, keys, KIMI_NAMES, change, spreads=SPREADS, settle=settle_gates, check=check_cuts,
                build=build, n_used=2,
                scores=lambda router, x: (x @ router.weight.T).sigmoid() + router.e_score_correction_bias)


MODELS = {
    "qwen35": qwen35,
    "qwen35-equal": qwen35_equal,
    "qwen35-tied": qwen35_tied,
    "qwen35-nextn": qwen35_nextn,
    "qwen35moe": qwen35moe,
    "qwen35moe-ollama": qwen35moe_ollama,
    "qwen3next": qwen3next,
    "qwen3next-legacy": qwen3next_legacy,
    "kimi-linear": kimi_linear,
}

if __name__ == "__main__":
    make_all(MODELS)
