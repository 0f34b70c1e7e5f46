"""Makes the tiny random models of LFM2 of this folder, whose layers mix tokens by short convolutions or attention, and
their golden logits, with the PyPI packages transformers (5.24 or newer) and gguf.

usage: make_lfm2_models.py OUT_DIR [NAME...]      (needs torch, transformers, gguf, numpy)

Files are as in make_expert_models.py, except that only keys and values are rounded to half precision for the golden
logits: the inputs of convolutions stay float32. Before a model is written, transformers must agree with itself: a prompt
gives the same logits token by token as at once. The committed files came from this script.
"""
import torch
import transformers

from tiny_models import N_VOCAB, TOKENS, Tiny, make_all, of_rope, sizes, split_experts

AGREEMENT = 2e-4  # of logits between cuts of one prompt, in their standard deviations
SMALL = dict(vocab_size=N_VOCAB, hidden_size=64, num_attention_heads=4, num_key_value_heads=2, norm_eps=1e-5,
             max_position_embeddings=4096, pad_token_id=None, bos_token_id=1, eos_token_id=2,
             rope_parameters=of_rope(1000000.0))
NAMES = {"model.embed_tokens": "token_embd", "model.embedding_norm": "token_embd_norm", "lm_head": "output",
         "operator_norm": "attn_norm", "ffn_norm": "ffn_norm", "conv.conv": "shortconv.conv.weight",
         "conv.in_proj": "shortconv.in_proj.weight", "conv.out_proj": "shortconv.out_proj.weight",
         "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.out_proj": "attn_output", "self_attn.q_layernorm": "attn_q_norm",
         "self_attn.k_layernorm": "attn_k_norm", "feed_forward.w1": "ffn_gate", "feed_forward.w3": "ffn_up",
         "feed_forward.w2": "ffn_down", "feed_forward.gate": "ffn_gate_inp",
         "feed_forward.experts.gate_up_proj": "ffn_gate_up_exps", "feed_forward.experts.down_proj": "ffn_down_exps",
         "feed_forward.expert_bias": "exp_probs_b.bias"}


def kinds(pattern):
    return ["full_attention" if kind == "f" else "conv" for kind in pattern]


def change(name, data):
    if ".shortconv.conv." in name:
        data = data.squeeze(1)
    return split_experts(name, data)


def check_cuts(model):
    """Fails if transformers gives other logits for a prompt token by token, with its caches."""
    with torch.no_grad():
        whole = model(torch.tensor([TOKENS])).logits[0]
        cache, rows = transformers.DynamicCache(config=model.config), []
        for token in TOKENS:
            rows.append(model(torch.tensor([[token]]), cache=cache, use_cache=True).logits[0])
        worst = ((torch.cat(rows) - whole).abs().max() / whole.std()).item()
        assert worst < AGREEMENT, worst


def tiny(arch, config, kind, **more):
    """The keys are those of converters of autumn 2026."""
    keys = sizes(config, **{
        "attention.head_count_kv": [config.num_key_value_heads if one == "full_attention" else 0
                                    for one in config.layer_types],
        "attention.layer_norm_rms_epsilon": config.norm_eps, "vocab_size": N_VOCAB,
        "shortconv.l_cache": config.conv_L_cache, **more.pop("keys", {})})

    def build():
        config._attn_implementation = "eager"
        return kind(config)
    return Tiny(arch, config, keys, NAMES, change, build=build, spreads={"conv.conv": 0.5}, check=check_cuts, **more)


def lfm2(taps=3, pattern="cfcc", **more):
    """Tied; one layer of attention."""
    config = transformers.Lfm2Config(**SMALL, intermediate_size=96, block_auto_adjust_ff_dim=False, conv_L_cache=taps,
                                     num_hidden_layers=len(pattern), layer_types=kinds(pattern), **more)
    return tiny("lfm2", config, transformers.Lfm2ForCausalLM)


def lfm2_wide():
    """Four taps; its own output matrix; begins and ends with attention; the last norm has the name of older files."""
    model = lfm2(taps=4, pattern="fccf", tie_word_embeddings=False)
    model.names = {**NAMES, "model.embedding_norm": "output_norm"}
    return model


def lfm2moe():
    """A dense layer, then mixtures whose experts are chosen by sigmoids plus a bias."""
    config = transformers.Lfm2MoeConfig(**SMALL, intermediate_size=96, num_hidden_layers=4, layer_types=kinds("ccfc"),
                                        num_dense_layers=1, num_experts=8, num_experts_per_tok=3,
                                        moe_intermediate_size=32, use_expert_bias=True, norm_topk_prob=True)
    biases = {}

    def scores(gate, x):
        return (x @ gate.weight.T).sigmoid() + biases[gate]

    def settle(model):
        for layer in model.model.layers:
            if hasattr(layer.feed_forward, "expert_bias"):
                biases[layer.feed_forward.gate] = layer.feed_forward.expert_bias
    return tiny("lfm2moe", config, transformers.Lfm2MoeForCausalLM, scores=scores, router="feed_forward.gate", n_used=3,
                settle=settle,
                keys={"leading_dense_block_count": 1, "expert_count": 8, "expert_feed_forward_length": 32,
                      "expert_gating_func": 2})


MODELS = {"lfm2": lfm2, "lfm2-wide": lfm2_wide, "lfm2moe": lfm2moe}

if __name__ == "__main__":
    make_all(MODELS)
