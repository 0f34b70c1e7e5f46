"""Makes the tiny random models of further dense architectures of this folder and their golden logits, with the PyPI
packages transformers and gguf.

usage: make_dense_models.py OUT_DIR [NAME...]      (needs torch, transformers, gguf, numpy)

NAME.gguf is as llama.cpp's converters write it, NAME.logits are little-endian float32 [n_rows, n_vocab] of every 4th
position of TOKENS, computed in float32 by transformers. The committed files came from this script.
"""
import transformers

from tiny_models import ATTENTION, CONTEXT, FFN, LLAMA, N_VOCAB, OUTER, QK_NORMS, Tiny, make_all, of_rope, sizes

WINDOW = 8
SMALL = dict(vocab_size=N_VOCAB, hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=CONTEXT, rms_norm_eps=1e-6, pad_token_id=None, bos_token_id=1, eos_token_id=2)
FOUR_NORMS = {**OUTER, **ATTENTION, **FFN, "post_attention_layernorm": "post_attention_norm",
              "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}


def plus_one(name, data):
    """Files hold what norms multiply by; the model adds 1 to what it learned."""
    return [(name, data + 1 if name.endswith("norm.weight") else data)]


def gemma():
    """Embeddings times sqrt(d_model), tied; one key/value head; GeGLU; norms of 1 + w, baked in; no keys of RoPE."""
    config = transformers.GemmaConfig(**{**SMALL, "num_key_value_heads": 1}, num_hidden_layers=2, head_dim=16,
                                      rope_parameters=of_rope())
    keys = sizes(config)
    del keys["rope.freq_base"]
    return Tiny("gemma", config, keys, LLAMA, plus_one, norm_base=0.0)


def gemma2():
    """gemma with norms after attention and FFN, soft caps of scores and logits, a window in even layers."""
    config = transformers.Gemma2Config(**SMALL, num_hidden_layers=4, head_dim=32, query_pre_attn_scalar=32,
                                       sliding_window=WINDOW, attn_logit_softcapping=3.0, final_logit_softcapping=2.5,
                                       rope_parameters=of_rope())
    keys = sizes(config, **{"attn_logit_softcapping": 3.0, "final_logit_softcapping": 2.5,
                            "attention.sliding_window": WINDOW})
    del keys["rope.freq_base"]
    return Tiny("gemma2", config, keys, FOUR_NORMS, plus_one, norm_base=0.0)


def gemma3():
    """gemma2 without caps, with norms of each head's q and k; windows in five of six layers, which have a RoPE base of
    their own; the others' is scaled (linear)."""
    rope = {"full_attention": of_rope(1000000.0, rope_type="linear", factor=8.0), "sliding_attention": of_rope()}
    config = transformers.Gemma3TextConfig(**SMALL, num_hidden_layers=6, head_dim=32, query_pre_attn_scalar=32,
                                           sliding_window=WINDOW, rope_parameters=rope)
    keys = sizes(config, **{"rope.freq_base": 1000000.0, "rope.freq_base_swa": 10000.0, "rope.scaling.type": "linear",
                            "rope.scaling.factor": 8.0, "attention.sliding_window": WINDOW})
    return Tiny("gemma3", config, keys, {**FOUR_NORMS, **QK_NORMS}, plus_one, norm_base=0.0)


MODELS = {
    "gemma": gemma,
    "gemma2": gemma2,
    "gemma3": gemma3,
}

if __name__ == "__main__":
    make_all(MODELS)
