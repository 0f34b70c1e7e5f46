"""Makes the tiny random mixtures of experts of this folder and their golden logits, with the PyPI packages
transformers and gguf.

usage: make_expert_models.py OUT_DIR [NAME...]      (needs torch, transformers, gguf, numpy)

NAME.gguf is as llama.cpp's converters write it, NAME.logits are little-endian float32 [n_rows, n_vocab] of every 4th
position of TOKENS, computed in float32 by transformers. The committed files came from this script.
"""
import numpy as np
import torch
import transformers

from tiny_models import (ATTENTION, CONTEXT, EXPERTS, FFN_NORM, N_VOCAB, OUTER, QK_NORMS, Tiny, make_all, of_rope, permuted,
                         plain_scores, sizes, split_experts)

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


MODELS = {
    "qwen3moe": qwen3moe,
    "mixtral": mixtral,
    "mixtral-split": mixtral_split,
    "olmoe": olmoe,
    "qwen2moe": qwen2moe,
    "granitemoe": granitemoe,
    "granitemoe-shared": granitemoe_shared,
}

if __name__ == "__main__":
    make_all(MODELS)
