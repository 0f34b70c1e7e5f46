"""Makes the tiny random mixtures of experts of this folder whose layers have two kinds of attention, with a window and
without, which differ in heads or rotary embedding, and their golden logits, with the PyPI packages transformers (5.24 or
newer) and gguf.

usage: make_window_models.py OUT_DIR [--checkpoints] [NAME...]      (needs torch, transformers, gguf, numpy)

Files are as in make_expert_models.py. The committed files came from this script.
"""
import copy
import dataclasses
import types

import numpy as np
import torch
import transformers
from transformers.models.step3p7.modeling_step3p7 import Step3p7TextConfig, Step3p7TextModel

from tiny_models import (ATTENTION, CHAIN_LENGTH, CONTEXT, EXPERTS, FFN, FFN_NORM, LLAMA, N_VOCAB, OUTER, QK_NORMS, Tiny,
                         fused_qkv, heads_golden, make_all, of_rope, plain_scores, randomise, rms_norm, sizes, split_experts,
                         tensors_of)

WINDOW = 8
SMALL = dict(vocab_size=N_VOCAB, hidden_size=32, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
             max_position_embeddings=CONTEXT, rms_norm_eps=1e-6, tie_word_embeddings=False, pad_token_id=None)
MIXTURE = {**OUTER, **ATTENTION, **QK_NORMS, **FFN_NORM, **FFN, **EXPERTS,
           "mlp.shared_experts.gate_proj": "ffn_gate_shexp", "mlp.shared_experts.up_proj": "ffn_up_shexp",
           "mlp.shared_experts.down_proj": "ffn_down_shexp",
           "mlp.gate.e_score_correction_bias": "exp_probs_b.bias", "self_attn.g_proj": "attn_gate"}


def kinds(pattern):
    return ["full_attention" if kind == "f" else "sliding_attention" for kind in pattern]


def biased_scores(router, x):
    """Sigmoids, and a bias for choosing only."""
    return torch.sigmoid(x @ router.weight.T) + router.e_score_correction_bias


def of_mixture(n_experts, n_used, scale, **more):
    """Keys of a mixture with a first dense layer and a shared expert of 24 neurons."""
    return {"expert_count": n_experts, "expert_used_count": n_used, "expert_feed_forward_length": 24,
            "expert_shared_feed_forward_length": 24, "expert_weights_norm": True, "expert_weights_scale": scale,
            "leading_dense_block_count": 1, "attention.sliding_window": WINDOW, **more}


def laguna():
    """Layer 0 of each four is full, with fewer heads and half of each rotated, by YaRN with a magnitude of its own; a gate
    of attention's output for each head, softplus; sigmoid router with a bias for choosing, renormalised, times 2.5; nothing
    says which layers are full."""
    rope = {"full_attention": of_rope(500000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=16,
                                      attention_factor=1.0, partial_rotary_factor=0.5),
            "sliding_attention": of_rope(partial_rotary_factor=1.0)}
    heads = [4, 6, 6, 6, 4]
    config = transformers.LagunaConfig(
        **SMALL, num_hidden_layers=5, intermediate_size=48, moe_intermediate_size=24, shared_expert_intermediate_size=24,
        num_experts=6, num_experts_per_tok=2, moe_routed_scaling_factor=2.5, layer_types=kinds("fsssf"),
        sliding_window=WINDOW, rope_parameters=rope, num_attention_heads_per_layer=heads, gating=True)
    keys = sizes(config, **of_mixture(6, 2, 2.5), **{
        "attention.head_count": heads, "vocab_size": N_VOCAB, "expert_gating_func": 2, "rope.freq_base": 500000.0,
        "rope.freq_base_swa": 10000.0, "rope.dimension_count": 8, "rope.dimension_count_swa": 16,
        "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16,
        "rope.scaling.yarn_attn_factor": 1.0})
    return Tiny("laguna", config, keys, MIXTURE, split_experts, scores=biased_scores, n_used=2)


def afmoe():
    """Trinity: four norms a layer; embeddings times sqrt(d_model); a gate of attention's output for each element, sigmoid;
    a window in three of four layers, the other has no RoPE; sigmoid router with a bias for choosing, renormalised, times
    2.5."""
    config = transformers.AfmoeConfig(
        **SMALL, num_hidden_layers=4, intermediate_size=48, moe_intermediate_size=24, num_experts=6,
        num_experts_per_tok=2, num_shared_experts=1, num_dense_layers=1, route_scale=2.5, sliding_window=WINDOW,
        mup_enabled=True, rope_parameters=of_rope())
    keys = sizes(config, **of_mixture(6, 2, 2.5), **{"vocab_size": N_VOCAB, "expert_shared_count": 1,
                                                     "expert_gating_func": 2, "rope.dimension_count": 16})
    del keys["expert_shared_feed_forward_length"]
    names = {**MIXTURE, "post_attention_layernorm": "post_attention_norm", "pre_mlp_layernorm": "ffn_norm",
             "post_mlp_layernorm": "post_ffw_norm", "self_attn.gate_proj": "attn_gate",
             "mlp.router.gate": "ffn_gate_inp", "mlp.expert_bias": "exp_probs_b.bias"}

    def build():
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        for layer in model.model.layers[1:]:
            layer.mlp.router.blocks = [layer.mlp]  # which has the bias; a list is no part of the model
        return model

    return Tiny("afmoe", config, keys, names, split_experts, n_used=2, router="mlp.router", build=build,
                scores=lambda router, x: torch.sigmoid(x @ router.gate.weight.T) + router.blocks[0].expert_bias)


def mimo2():
    """Values of 16 numbers where keys have 24, times 0.707; layers with a window have twice the heads of keys, a sink for
    each head and a RoPE base of their own; a third of each head is rotated; the file's window does not count the token
    itself; sigmoid router with a bias for choosing, renormalised; only routers say which layers are mixtures. A last layer,
    which is not run, has numbers in the arrays."""
    rope = {"full_attention": of_rope(500000.0, partial_rotary_factor=0.334),
            "sliding_attention": of_rope(partial_rotary_factor=0.334)}
    config = transformers.MiMoV2FlashConfig(
        **{**SMALL, "head_dim": 24, "num_key_value_heads": 1}, v_head_dim=16, num_hidden_layers=4, intermediate_size=48,
        moe_intermediate_size=24, n_routed_experts=6, num_experts_per_tok=2, layer_types=kinds("fssf"),
        sliding_window=WINDOW + 1, rope_parameters=rope, attention_value_scale=0.707)
    keys = sizes(config, **{
        "block_count": 5, "nextn_predict_layers": 1, "vocab_size": N_VOCAB, "attention.head_count_kv": [1, 2, 2, 1, 2],
        "attention.value_length": 16, "attention.value_scale": 0.707, "attention.sliding_window": WINDOW,
        "attention.sliding_window_pattern": [False, True, True, False, True], "expert_count": 6,
        "expert_feed_forward_length": 24, "expert_gating_func": 2, "rope.freq_base": 500000.0,
        "rope.freq_base_swa": 10000.0, "rope.dimension_count": 8})
    return Tiny("mimo2", config, keys, {**MIXTURE, "self_attn.sinks": "attn_sinks"}, split_experts, scores=biased_scores,
                n_used=2, spreads={"sinks": 1.5}, converts=False)


def mixture_with_qkv():
    """A change that makes a layer's q, k and v one tensor, and its experts two of gates and ups."""
    fuse = fused_qkv()
    return lambda name, data: [one for fused in fuse(name, data) for one in split_experts(*fused)]


def mimo2_nextn():
    """The same with one tensor for q, k and v, and four last layers that predict later tokens (real models have three): heads
    with a window and a dense FFN. Layers add little to the embeddings, so that predictions are often right."""
    model = mimo2()
    model.spreads |= {"embed_tokens": 1.0, "o_proj": 0.05, "down_proj": 0.05}
    model.change = mixture_with_qkv()
    last = copy.deepcopy(model.config)
    last.num_hidden_layers, last.layer_types, last.mlp_layer_types = 1, kinds("s"), ["dense"]
    n_layers, n_heads, rng = model.config.num_hidden_layers, CHAIN_LENGTH + 1, np.random.default_rng(2)
    blocks = [transformers.AutoModelForCausalLM.from_config(last, attn_implementation="eager").float().eval()
              for _ in range(n_heads)]

    def halves(data):
        return torch.from_numpy(data).half().float()

    norms = [{name: halves(1 + 0.2 * rng.standard_normal(32)) for name in ("enorm", "hnorm")} for _ in blocks]
    joins = [halves(np.concatenate([np.eye(32), 0.05 * rng.standard_normal((32, 32))], 1)) for _ in blocks]

    def settle(main):
        for block in blocks:
            randomise(dataclasses.replace(model, settle=lambda one: None), block, rng)
            block.lm_head.weight.copy_(main.lm_head.weight)

    def extra():
        tensors = {}
        for i, (block, norm, join) in enumerate(zip(blocks, norms, joins)):
            prefix = f"blk.{n_layers + i}."
            of_block = dict(tensors_of(dataclasses.replace(model, extra=dict, change=mixture_with_qkv()), block))
            tensors |= {name.replace("blk.0.", prefix): data for name, data in of_block.items() if name.startswith("blk.0.")}
            tensors[prefix + "layer_output_norm.weight"] = of_block["output_norm.weight"]
            tensors |= {f"{prefix}nextn.{name}.weight": weight.numpy() for name, weight in norm.items()}
            tensors[prefix + "nextn.eh_proj.weight"] = join.numpy()
        return tensors

    model.settle, model.extra = settle, extra
    model.nextn = lambda main: heads_golden(main, [
        (block, rms_norm(norm["enorm"]), rms_norm(norm["hnorm"]), join) for block, norm, join in zip(blocks, norms, joins)])
    model.keys |= {"block_count": n_layers + n_heads, "nextn_predict_layers": n_heads,
                   "attention.head_count_kv": [1, 2, 2, 1] + [2] * n_heads,
                   "attention.sliding_window_pattern": [False, True, True, False] + [True] * n_heads}
    return model


def llama4(n_experts=6, d_expert=24, step=2):
    """Layer 3 is full and without RoPE, and its queries grow with the position; in the others, tokens see a chunk of 16
    positions, and q and k are normed after RoPE without weights. Layers 1 and 3 have experts: the sigmoid of one expert's
    logit multiplies its input. Keys that converters leave out make chunks and stretches short."""
    config = transformers.Llama4TextConfig(
        **SMALL, num_hidden_layers=4, intermediate_size=d_expert, intermediate_size_mlp=48, num_local_experts=n_experts,
        num_experts_per_tok=1, interleave_moe_layer_step=step, attention_chunk_size=16, floor_scale=8, attn_scale=0.25,
        rope_parameters=of_rope(500000.0), use_qk_norm=n_experts != 128)
    config._attn_implementation = "eager"
    keys = sizes(config, **{
        "vocab_size": N_VOCAB, "feed_forward_length": 48, "expert_feed_forward_length": d_expert, "expert_count": n_experts,
        "interleave_moe_layer_step": step, "expert_shared_count": 1, "rope.dimension_count": 16,
        "attention.sliding_window": 16, "attention.temperature_length": 8, "attention.temperature_scale": 0.25})
    names = {**{name.replace("mlp.", "feed_forward."): to for name, to in LLAMA.items()},
             "feed_forward.router": "ffn_gate_inp", "feed_forward.experts.gate_up_proj": "ffn_gate_up_exps",
             "feed_forward.experts.down_proj": "ffn_down_exps",
             **{f"feed_forward.shared_expert.{part}_proj": f"ffn_{part}_shexp" for part in ("gate", "up", "down")}}

    def change(name, data):
        return split_experts(name, data.swapaxes(1, 2) if "_exps" in name else data)
    return Tiny("llama4", config, keys, names, change, scores=plain_scores, n_used=1, router="feed_forward.router",
                build=lambda: transformers.Llama4ForCausalLM(config))


def llama4_maverick():
    """llama4 with 128 small experts in one layer; its q and k are not normed."""
    return llama4(128, 8, 4)


class Step35(torch.nn.Module):
    """The language model alone, which transformers has only together with images."""
    def __init__(self, config):
        super().__init__()
        self.config, self.model = config, Step3p7TextModel(config)
        self.lm_head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, ids):
        return types.SimpleNamespace(logits=self.lm_head(self.model(ids).last_hidden_state))


def step35():
    """Layers with a window have more heads, all of each rotated, where full layers rotate half, which no key says; a gate
    of attention's output for each head, sigmoid; norms of 1 + w, baked in; the last two layers clamp the values of experts,
    and otherwise those of the shared expert."""
    config = Step3p7TextConfig(
        **{**SMALL, "rms_norm_eps": 1e-5, "pad_token_id": 0}, num_hidden_layers=4, intermediate_size=48,
        moe_intermediate_size=24, share_expert_dim=24, n_routed_experts=6, num_experts_per_tok=2, sliding_window=WINDOW,
        moe_router_scaling_factor=2.5, layer_types=kinds("fssf"), num_sliding_attention_heads=6,
        mlp_layer_types=["dense"] + ["sparse"] * 3, swiglu_limits=[0.0, 0.0, 0.25, 0.5],
        swiglu_limits_shared=[0.0, 0.0, 0.75, 0.375], rope_theta=[500000.0, 10000.0, 10000.0, 500000.0],
        partial_rotary_factors=[0.5, 1.0, 1.0, 0.5])
    config._attn_implementation = "eager"
    config.allow_global_per_layer_attribute_access = True
    keys = sizes(config, **of_mixture(6, 2, 2.5), **{
        "attention.head_count": [4, 6, 6, 4], "attention.head_count_kv": [2] * 4, "rope.freq_base": 500000.0,
        "rope.freq_base_swa": 10000.0, "attention.sliding_window_pattern": [False, True, True, False],
        "swiglu_clamp_exp": [0.0, 0.0, 0.25, 0.5], "swiglu_clamp_shexp": [0.0, 0.0, 0.75, 0.375],
        "moe_every_n_layers": 1})

    def change(name, data):
        for name, data in split_experts(name, data):
            yield name, data + 1 if name.endswith("norm.weight") else data
    return Tiny("step35", config, keys, MIXTURE, change, norm_base=0.0, scores=biased_scores, n_used=2,
                build=lambda: Step35(config), converts=False)


MODELS = {
    "laguna": laguna,
    "afmoe": afmoe,
    "step35": step35,
    "mimo2": mimo2,
    "mimo2-nextn": mimo2_nextn,
    "llama4": llama4,
    "llama4-maverick": llama4_maverick,
}

if __name__ == "__main__":
    make_all(MODELS)
