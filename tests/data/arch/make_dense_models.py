"""Makes the tiny random models of further dense architectures of this folder and their golden logits, with the PyPI
packages transformers and gguf.

usage: make_dense_models.py OUT_DIR [--checkpoints] [NAME...]      (needs torch, transformers, gguf, numpy)

NAME.gguf is as llama.cpp's converters write it, NAME.logits are little-endian float32 [n_rows, n_vocab] of every 4th
position of TOKENS, computed in float32 by transformers. The committed files came from this script.
"""
import math

import numpy as np
import transformers

from make_models import LLAMA3, llama3_divisors
from tiny_models import (ATTENTION, CONTEXT, FFN, FFN_NORM, LLAMA, N_VOCAB, OUTER, QK_NORMS, SECTIONS, VISION, Tiny,
                         make_all, of_rope, of_vision, permuted, sizes)

WINDOW = 8
SMALL = dict(vocab_size=N_VOCAB, hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=CONTEXT, rms_norm_eps=1e-6, pad_token_id=None, bos_token_id=1, eos_token_id=2)
WIDE = {**SMALL, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "rope_parameters": of_rope()}
# Layer norms' epsilon; files of these have their own short lists of keys.
LAYER_NORMS = {**{key: value for key, value in WIDE.items() if key != "rms_norm_eps"}, "layer_norm_eps": 1e-5}
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


def granite():
    """Four multipliers: of embeddings, of branches, of scores (no 1/sqrt) and a divisor of logits. Adjacent pairs."""
    config = transformers.GraniteConfig(**WIDE, embedding_multiplier=6.0, residual_multiplier=0.375,
                                        attention_multiplier=0.25, logits_scaling=3.0)
    keys = sizes(config, **{"vocab_size": N_VOCAB, "rope.dimension_count": 16, "embedding_scale": 6.0,
                            "residual_scale": 0.375, "attention.scale": 0.25, "logit_scale": 3.0})
    return Tiny("granite", config, keys, LLAMA, permuted(4, 2))


OLMO2 = {**OUTER, **ATTENTION, **FFN, **QK_NORMS, "post_attention_layernorm": "post_attention_norm",
         "post_feedforward_layernorm": "post_ffw_norm"}


def olmo2():
    """No norm before attention and FFN, one after each; norms over the whole q and k."""
    config = transformers.Olmo2Config(**WIDE)
    return Tiny("olmo2", config, sizes(config), OLMO2)


def olmo3():
    """olmo2 with a window in three of four layers, by an array in the file; YaRN in the others only."""
    rope = {"full_attention": of_rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=16),
            "sliding_attention": of_rope()}
    config = transformers.Olmo3Config(**{**WIDE, "intermediate_size": 64, "num_hidden_layers": 4,
                                         "rope_parameters": rope}, sliding_window=WINDOW)
    keys = sizes(config, **{"rope.freq_base": 10000.0, "rope.freq_base_swa": 10000.0, "rope.scaling.type": "yarn",
                            "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16,
                            "attention.sliding_window": WINDOW,
                            "attention.sliding_window_pattern": [True, True, True, False]})
    return Tiny("olmo2", config, keys, OLMO2)


def short_keys(config, **more):
    """As converters write that do not start from the common list; they have no rope.freq_base."""
    keys = sizes(config, **{"attention.layer_norm_epsilon": config.layer_norm_eps, **more})
    return {key: value for key, value in keys.items() if key != "rope.freq_base"}


def phi2():
    """Parallel attention and FFN behind one layer norm; biases everywhere, of the output too; RoPE on half a head."""
    config = transformers.PhiConfig(**{**LAYER_NORMS, "hidden_size": 32, "intermediate_size": 128,
                                       "num_attention_heads": 2, "num_key_value_heads": 2,
                                       "rope_parameters": of_rope(partial_rotary_factor=0.5)})
    names = {**OUTER, **ATTENTION, "model.final_layernorm": "output_norm", "self_attn.dense": "attn_output",
             "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down"}
    return Tiny("phi2", config, short_keys(config, **{"rope.dimension_count": 8}), names)


def phi3(n_rot=16, window=None, **rope):
    """q, k and v in one tensor, gate and up in another."""
    rope = of_rope(partial_rotary_factor=n_rot / 16, **rope)
    original = rope.setdefault("original_max_position_embeddings", CONTEXT)
    config = transformers.Phi3Config(**{**WIDE, "rope_parameters": rope}, sliding_window=window,
                                     original_max_position_embeddings=original)
    keys = sizes(config, **{"rope.scaling.original_context_length": original, "rope.dimension_count": n_rot,
                            "attention.sliding_window": window or 0})
    factors = {f"rope_factors_{name}.weight": np.array(rope[f"{name}_factor"], dtype=np.float32)
               for name in ("long", "short") if f"{name}_factor" in rope}
    if factors:
        keys["rope.scaling.attn_factor"] = math.sqrt(1 + math.log(CONTEXT / original) / math.log(original))
    names = {**OUTER, **ATTENTION, **FFN_NORM, "self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up",
             "mlp.down_proj": "ffn_down"}
    return Tiny("phi3", config, keys, names, extra=lambda: factors)


def phi3_long():
    """Long factors, since tokens are more than the original context; a window in all layers."""
    return phi3(window=WINDOW, rope_type="longrope", original_max_position_embeddings=32,
                short_factor=[1.0 + 0.05 * i for i in range(8)], long_factor=[1.5 + 0.75 * i for i in range(8)])


def phi3_short():
    """Short factors, since nothing is longer than the original context; RoPE on three quarters of each head; no
    window."""
    return phi3(n_rot=12, rope_type="longrope", short_factor=[1.0 + 0.3 * i for i in range(6)],
                long_factor=[2.0 + 2.0 * i for i in range(6)])


def glm4():
    """Norms before and after attention and FFN; q, k and v biases; gate and up in one tensor; adjacent pairs in half
    of each head."""
    config = transformers.Glm4Config(**{**SMALL, "rope_parameters": of_rope(partial_rotary_factor=0.5)},
                                     num_hidden_layers=2, head_dim=16, attention_bias=True)
    names = {**OUTER, **ATTENTION, **FFN_NORM, "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
             "post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm"}
    return Tiny("glm4", config, sizes(config, **{"rope.dimension_count": 8}), names)


def nemotron():
    """Layer norms of 1 + w, baked in; no gate, squared relu; RoPE on half of each head."""
    config = transformers.NemotronConfig(**{**LAYER_NORMS, "rope_parameters": of_rope(partial_rotary_factor=0.5)},
                                         norm_eps=1e-5)
    keys = sizes(config, **{"attention.layer_norm_epsilon": 1e-5, "attention.layer_norm_rms_epsilon": 1e-5,
                            "vocab_size": N_VOCAB, "rope.dimension_count": 8, "rope.scaling.type": "none"})
    return Tiny("nemotron", config, keys, LLAMA, plus_one, norm_base=0.0)


def command_r(norms=False):
    """Parallel attention and FFN behind one layer norm without bias; logits times a scale; adjacent pairs; tied."""
    config = transformers.CohereConfig(**LAYER_NORMS, logit_scale=0.25, use_qk_norm=norms)
    keys = sizes(config, **{"attention.layer_norm_epsilon": 1e-5, "logit_scale": 0.25, "rope.scaling.type": "none"})
    return Tiny("command-r", config, keys, {**LLAMA, **QK_NORMS})


def command_r_plus():
    """The same with layer norms of q and k, each head its own."""
    return command_r(norms=True)


def cohere2():
    """command-r with a window in three of four layers; the others have no RoPE."""
    config = transformers.Cohere2Config(**{**LAYER_NORMS, "intermediate_size": 64, "num_hidden_layers": 4},
                                        logit_scale=0.25, sliding_window=WINDOW)
    keys = sizes(config, **{"attention.layer_norm_epsilon": 1e-5, "logit_scale": 0.25, "rope.scaling.type": "none",
                            "attention.sliding_window": WINDOW, "vocab_size": N_VOCAB, "rope.dimension_count": 16})
    return Tiny("cohere2", config, keys, LLAMA)


def starcoder2():
    """Layer norms; biases everywhere; no gate, tanh gelu; tied."""
    config = transformers.Starcoder2Config(**LAYER_NORMS, norm_epsilon=1e-5, use_bias=True, sliding_window=None)
    names = {**LLAMA, "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
    return Tiny("starcoder2", config, sizes(config, **{"attention.layer_norm_epsilon": 1e-5}), names)


def gpt2():
    """Learned positions from row 0 on; layer norms; q, k and v in one tensor; biases; tied; no RoPE."""
    config = transformers.GPT2Config(vocab_size=N_VOCAB, n_positions=CONTEXT, n_embd=64, n_layer=2, n_head=4,
                                     bos_token_id=1, eos_token_id=2)
    keys = {"block_count": 2, "context_length": CONTEXT, "embedding_length": 64, "feed_forward_length": 256,
            "attention.head_count": 4, "attention.layer_norm_epsilon": 1e-5}
    names = {"transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm",
             "ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm",
             "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}

    def change(name, data):  # its layers have inputs by outputs
        return [(name, data.T if name.startswith("blk.") and data.ndim == 2 else data)]
    return Tiny("gpt2", config, keys, names, change)


def gptneox(parallel=True):
    """Parallel attention and FFN, each behind a layer norm of its own; exact gelu; RoPE on a quarter of each head."""
    config = transformers.GPTNeoXConfig(**{**LAYER_NORMS, "rope_parameters": of_rope(partial_rotary_factor=0.25)},
                                        use_parallel_residual=parallel)
    keys = short_keys(config, **{"rope.dimension_count": 4, "use_parallel_residual": parallel})
    keys.pop("attention.head_count_kv", None)
    names = {"gpt_neox.embed_in": "token_embd", "gpt_neox.final_layer_norm": "output_norm", "embed_out": "output",
             "lm_head": "output", "input_layernorm": "attn_norm", "attention.query_key_value": "attn_qkv",
             "attention.dense": "attn_output", "post_attention_layernorm": "ffn_norm", "mlp.dense_h_to_4h": "ffn_up",
             "mlp.dense_4h_to_h": "ffn_down"}

    def change(name, data):  # from q, k, v of each head to all q, all k, all v
        if "attn_qkv" in name:
            data = data.reshape(4, 3, 16, -1).swapaxes(0, 1).reshape(data.shape)
        return [(name, data)]
    return Tiny("gptneox", config, keys, names, change)


def gptneox_sequential():
    """Attention first, then FFN."""
    return gptneox(parallel=False)


def stablelm(parallel=False):
    """Layer norms; q, k and v biases; SwiGLU; RoPE on a quarter of each head."""
    config = transformers.StableLmConfig(**{**LAYER_NORMS, "rope_parameters": of_rope(partial_rotary_factor=0.25)},
                                         use_parallel_residual=parallel, use_qkv_bias=not parallel,
                                         qk_layernorm=parallel)
    keys = short_keys(config, **{"rope.dimension_count": 4, "use_parallel_residual": parallel})
    names = {**LLAMA, **{f"self_attn.{part}_layernorm.norms.{head}": f"attn_{part}_norm"
                         for part in "qk" for head in range(4)}}
    heads = {}

    def change(name, data):  # a file has the norms of all heads in one tensor
        if "attn_q_norm" not in name and "attn_k_norm" not in name:
            return [(name, data)]
        heads.setdefault(name, []).append(data)
        complete = len(heads[name]) == (4 if "attn_q" in name else 2)
        return [(name, np.stack(heads[name]))] if complete else []
    return Tiny("stablelm", config, keys, names, change)


def stablelm_parallel():
    """Parallel attention and FFN behind one norm; no biases; layer norms of q and k, each head its own."""
    return stablelm(parallel=True)


def mistral3():
    """Ministral 3: llama with YaRN that scales neither cos and sin nor scores, and queries that grow with the
    position."""
    rope = of_rope(1000000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=32.0,
                   beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.5)
    config = transformers.Ministral3Config(**{**WIDE, "rope_parameters": rope}, head_dim=32)
    keys = sizes(config, **{"vocab_size": N_VOCAB, "rope.dimension_count": 32, "attention.temperature_scale": 0.5,
                            "rope.scaling.yarn_log_multiplier": 1.0})
    return Tiny("mistral3", config, keys, LLAMA, permuted(4, 2))


def smollm3():
    """llama whose every fourth layer has no RoPE; tied."""
    config = transformers.SmolLM3Config(**{**WIDE, "intermediate_size": 64, "num_hidden_layers": 4},
                                        tie_word_embeddings=True)
    keys = sizes(config, **{"vocab_size": N_VOCAB, "rope.dimension_count": 16})
    return Tiny("smollm3", config, keys, LLAMA, permuted(4, 2))


def exaone4():
    """Norms only after attention and FFN, and of each head's q and k; a window in three of four layers, by an array in
    the file; the other layers have no RoPE."""
    config = transformers.Exaone4Config(**{**WIDE, "intermediate_size": 64, "num_hidden_layers": 4},
                                        sliding_window=WINDOW, sliding_window_pattern=4)
    keys = sizes(config, **{"vocab_size": N_VOCAB, "attention.sliding_window": WINDOW,
                            "attention.sliding_window_pattern": [True, True, True, False]})
    return Tiny("exaone4", config, keys, OLMO2)


def hunyuan():
    """llama in halves, with norms of each head's q and k after RoPE."""
    config = transformers.HunYuanDenseV1Config(**WIDE, head_dim=32)
    names = {**LLAMA, "self_attn.query_layernorm": "attn_q_norm", "self_attn.key_layernorm": "attn_k_norm"}
    return Tiny("hunyuan-dense", config, sizes(config), names)


def qwen3vl():
    """qwen3 as the language model of Qwen3-VL, which has three axes of positions; tied."""
    text = {**WIDE, "rope_parameters": of_rope(5000000.0, mrope_section=SECTIONS, mrope_interleaved=True)}
    config = transformers.Qwen3VLConfig(text_config=dict(text, head_dim=8, tie_word_embeddings=True),
                                        vision_config=dict(VISION, out_hidden_size=64), tie_word_embeddings=True)
    return of_vision("qwen3vl", transformers.Qwen3VLForConditionalGeneration, config, sizes(config.text_config),
                     {**LLAMA, **QK_NORMS})


def seed_oss():
    """qwen2 whose heads are wider than d_model / n_heads, and whose norm before the FFN is called post_attention_norm."""
    config = transformers.SeedOssConfig(**WIDE, head_dim=32, attention_bias=True)
    names = {**LLAMA, "post_attention_layernorm": "post_attention_norm"}
    return Tiny("seed_oss", config, sizes(config), names)


def ernie4_5():
    """llama with adjacent pairs that need no permutation; heads wider than d_model / n_heads; tied."""
    config = transformers.Ernie4_5Config(**WIDE, head_dim=32, tie_word_embeddings=True)
    return Tiny("ernie4_5", config, sizes(config), LLAMA)


def arcee():
    """llama without a gate; squared relu."""
    config = transformers.ArceeConfig(**WIDE)
    return Tiny("arcee", config, sizes(config, **{"vocab_size": N_VOCAB, "rope.dimension_count": 16}), LLAMA, permuted(4, 2))


def apertus():
    """Norms of each head's q and k; no gate, xIELU with numbers of each layer, which are keys of the file; llama3's
    frequencies."""
    n_layers = 2
    rope = dict(LLAMA3, rope_theta=10000.0)
    config = transformers.ApertusConfig(**{**WIDE, "rope_parameters": rope})
    keys = sizes(config, **{"vocab_size": N_VOCAB, "rope.dimension_count": 16})
    names = {**LLAMA, **QK_NORMS, "attention_layernorm": "attn_norm", "feedforward_layernorm": "ffn_norm",
             **{f"mlp.act_fn.{part}": "" for part in ("alpha_p", "alpha_n", "beta", "eps")}}
    alphas = {"alpha_p": [0.25, -0.5], "alpha_n": [-0.75, 0.5], "beta": [0.5, 0.75], "eps": [-2.0**-20, -2.0**-10]}

    def settle(model):
        for i, layer in enumerate(model.model.layers):
            for name, values in alphas.items():
                getattr(layer.mlp.act_fn, name).fill_(values[i])

    assert all(len(values) == n_layers == config.num_hidden_layers for values in alphas.values())
    return Tiny("apertus", config, keys, names, settle=settle, whole_keys={f"xielu.{k}": v for k, v in alphas.items()},
                extra=lambda: {"rope_freqs.weight": llama3_divisors(16, rope)})


MODELS = {
    "gemma": gemma,
    "gemma2": gemma2,
    "gemma3": gemma3,
    "granite": granite,
    "olmo2": olmo2,
    "olmo3": olmo3,
    "phi2": phi2,
    "phi3": phi3,
    "phi3-long": phi3_long,
    "phi3-short": phi3_short,
    "glm4": glm4,
    "nemotron": nemotron,
    "command-r": command_r,
    "command-r-plus": command_r_plus,
    "cohere2": cohere2,
    "starcoder2": starcoder2,
    "gpt2": gpt2,
    "gptneox": gptneox,
    "gptneox-sequential": gptneox_sequential,
    "stablelm": stablelm,
    "stablelm-parallel": stablelm_parallel,
    "mistral3": mistral3,
    "smollm3": smollm3,
    "exaone4": exaone4,
    "hunyuan-dense": hunyuan,
    "qwen3vl": qwen3vl,
    "seed_oss": seed_oss,
    "ernie4_5": ernie4_5,
    "arcee": arcee,
    "apertus": apertus,
}

if __name__ == "__main__":
    make_all(MODELS)
