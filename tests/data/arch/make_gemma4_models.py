"""Makes the tiny random models of Gemma 3n and 4 of this folder and their golden logits, with the PyPI packages transformers (5.24
or newer) and gguf.

usage: make_gemma4_models.py OUT_DIR [NAME...]      (needs torch, transformers, gguf, numpy)

Files are as in make_expert_models.py. The committed files came from this script.
"""
import pathlib
import sys

import numpy as np
import torch
import transformers

from tiny_models import (ATTENTION, CHAIN_LENGTH, CHAIN_STARTS, CONTEXT, FFN, N_VOCAB, OUTER, QK_NORMS, TOKENS, Tiny, make_all,
                         randomise, sizes, split_experts, tensors_of, write_gguf)

WIDTH, WINDOW, SLIDING_DIM, FULL_DIM = 32, 8, 16, 32
TURNED = 0.25  # of a full layer's head: that many pairs of dimensions turn
SMALL = dict(vocab_size=N_VOCAB, hidden_size=WIDTH, num_attention_heads=4, max_position_embeddings=CONTEXT, rms_norm_eps=1e-6,
             head_dim=SLIDING_DIM, global_head_dim=FULL_DIM, sliding_window=WINDOW, final_logit_softcapping=2.5,
             tie_word_embeddings=True, pad_token_id=None, bos_token_id=1, eos_token_id=2)
NAMES = {**OUTER, **ATTENTION, **QK_NORMS, **FFN, "post_attention_layernorm": "post_attention_norm",
         "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
         "layer_scalar": "layer_output_scale",
         "model.embed_tokens_per_layer": "per_layer_token_embd", "model.per_layer_model_projection": "per_layer_model_proj",
         "model.per_layer_projection_norm": "per_layer_proj_norm", "per_layer_input_gate": "inp_gate",
         "per_layer_projection": "proj", "post_per_layer_input_norm": "post_norm",
         "router.proj": "ffn_gate_inp", "router.scale": "ffn_gate_inp.scale",
         "router.per_expert_scale": "ffn_down_exps.scale", "experts.gate_up_proj": "ffn_gate_up_exps",
         "experts.down_proj": "ffn_down_exps", "pre_feedforward_layernorm_2": "pre_ffw_norm_2",
         "post_feedforward_layernorm_1": "post_ffw_norm_1", "post_feedforward_layernorm_2": "post_ffw_norm_2"}


def kinds(pattern):
    return ["full_attention" if kind == "f" else "sliding_attention" for kind in pattern]


def settle(model):
    """Scales that are about 1 and exact in half precision."""
    for i, layer in enumerate(model.model.layers):
        layer.layer_scalar.fill_(1.0 + 0.125 * (i % 3 - 1))
        if hasattr(layer, "router"):
            for scale in (layer.router.scale, layer.router.per_expert_scale):
                scale.copy_((1.0 + scale).half().float())


def divisors():
    """1 for the pairs that turn in full layers, and a number that stops the others."""
    n_turned = int(FULL_DIM * TURNED / 2)
    return {"rope_freqs.weight": np.array([1.0] * n_turned + [1e30] * (FULL_DIM // 2 - n_turned), dtype=np.float32)}


def tiny(config, n_kv_heads, n_shared=0, change=lambda name, data: [(name, data)], d_ff=None, **more):
    config.allow_global_per_layer_attribute_access = True
    full = [kind == "full_attention" for kind in config.layer_types]
    keys = sizes(config, **{
        "attention.head_count_kv": [n_kv_heads[one] for one in full] if n_kv_heads[0] != n_kv_heads[1] else n_kv_heads[0],
        "attention.key_length": FULL_DIM, "attention.value_length": FULL_DIM, "attention.key_length_swa": SLIDING_DIM,
        "attention.value_length_swa": SLIDING_DIM, "attention.sliding_window": WINDOW,
        "attention.sliding_window_pattern": [not one for one in full], "attention.shared_kv_layers": n_shared,
        "embedding_length_per_layer_input": config.hidden_size_per_layer_input,
        "rope.dimension_count": FULL_DIM, "rope.dimension_count_swa": SLIDING_DIM, "rope.freq_base": 1000000.0,
        "rope.freq_base_swa": 10000.0, "final_logit_softcapping": 2.5})
    if d_ff is not None:
        keys["feed_forward_length"] = d_ff
    keys |= more.pop("keys", {})
    return Tiny("gemma4", config, keys, NAMES, change, extra=divisors, settle=settle, **more)


def gemma4():
    """Heads of full layers are twice as long, and fewer for keys; their values are the keys before norm and RoPE, of which
    a quarter turns; values are normed without weights; scores are not scaled; layers scale the residual stream."""
    config = transformers.Gemma4TextConfig(
        **SMALL, num_hidden_layers=6, layer_types=kinds("ssfssf"), intermediate_size=48, num_key_value_heads=2,
        num_global_key_value_heads=1, attention_k_eq_v=True, hidden_size_per_layer_input=0)
    return with_assistant(tiny(config, (2, 1)))


def with_assistant(target):
    """Makes an assistant beside the model, which drafts from the model's hidden states and from the keys and values of its
    last layers, as transformers' SinglePositionMultiTokenCandidateGenerator does. The assistant sees one position less than
    its window, since the model has no key of the newest token yet."""
    shape = {**SMALL, "hidden_size": 24, "num_attention_heads": 2}
    text = transformers.Gemma4TextConfig(
        **shape, num_hidden_layers=4, layer_types=kinds("sssf"), intermediate_size=40, num_key_value_heads=2,
        num_global_key_value_heads=1, attention_k_eq_v=True, hidden_size_per_layer_input=0, vocab_size_per_layer_input=0,
        num_kv_shared_layers=4)
    config = transformers.Gemma4AssistantConfig(text_config=text, backbone_hidden_size=WIDTH)
    config._attn_implementation = text._attn_implementation = "eager"
    assistant = tiny(text, (2, 1), n_shared=4)
    assistant.arch, assistant.names = "gemma4-assistant", {
        **NAMES, "pre_projection": "nextn.pre_projection.weight",
        "post_projection": "nextn.post_projection.weight"}
    assistant.keys |= {"embedding_length_out": WIDTH, "nextn_predict_layers": 4}

    def soften(model):
        """Makes attention so soft that rounded activations change logits little."""
        settle(model)
        for layer in model.model.layers:
            layer.self_attn.q_norm.weight.mul_(0.25)

    assistant.settle = soften

    def golden(main):
        model = transformers.Gemma4AssistantForCausalLM(config).float().eval()
        randomise(assistant, model, np.random.default_rng(4))
        write_gguf(pathlib.Path(sys.argv[1]) / "gemma4-assistant.gguf", assistant, tensors_of(assistant, model))
        tokens = torch.tensor(TOKENS)
        rows = [torch.zeros(1, N_VOCAB)]
        for start in [*range(4, len(TOKENS), 4), *CHAIN_STARTS]:
            seen = main.model(tokens[None, :start], return_shared_kv_states=True)
            shared = dict(seen.shared_kv_states)
            shared["sliding_attention"] = tuple(part[:, :, 1 - WINDOW:] for part in shared["sliding_attention"])
            hidden, token, guesses = seen.last_hidden_state[:, -1:], tokens[None, start:start + 1], []
            for _ in range(CHAIN_LENGTH + 1 if len(rows) >= len(TOKENS) // 4 else 1):
                x = torch.cat([main.get_input_embeddings()(token), hidden], -1)
                out = model(inputs_embeds=x, position_ids=torch.tensor([[start]]), shared_kv_states=shared)
                guesses.append(out.logits[0])
                token, hidden = out.logits.argmax(-1), out.last_hidden_state
            rows += guesses[-CHAIN_LENGTH:] if len(guesses) > 1 else guesses
        return torch.cat(rows)

    target.nextn = lambda main: golden(main)
    return target


def gemma4_e2b():
    """An embedding of each token for each layer; the last layers read the keys and values of layers before them, have
    wider FFNs, and have tensors of keys and values that published files keep and no one reads."""
    n_shared, shared_heads = 4, {}
    config = transformers.Gemma4TextConfig(
        **SMALL, num_hidden_layers=8, layer_types=kinds("sssfsssf"), intermediate_size=48, num_key_value_heads=1,
        attention_k_eq_v=False, hidden_size_per_layer_input=24, vocab_size_per_layer_input=N_VOCAB,
        num_kv_shared_layers=n_shared, use_double_wide_mlp=True)
    for i in range(8 - n_shared, 8):
        dim = FULL_DIM if config.layer_types[i] == "full_attention" else SLIDING_DIM
        shared_heads |= {f"blk.{i}.attn_{part}.weight": np.ones((dim, WIDTH)) for part in "kv"}
        shared_heads[f"blk.{i}.attn_k_norm.weight"] = np.ones(dim)
    model = tiny(config, (1, 1), n_shared=n_shared, d_ff=[48] * 4 + [96] * 4)
    model.extra = lambda: {**divisors(), **shared_heads}
    return model


def router_scores(router, x):
    """What the router computes before its softmax."""
    return router.proj(router.norm(x) * router.scale * router.scalar_root_size)


def gemma4_moe(fused=True):
    """Experts beside the dense FFN, with norms of their own; their weights are renormalised, then scaled for each."""
    config = transformers.Gemma4TextConfig(
        **SMALL, num_hidden_layers=4, layer_types=kinds("ssff"), intermediate_size=48,
        num_key_value_heads=2, num_global_key_value_heads=1, attention_k_eq_v=True, hidden_size_per_layer_input=0,
        enable_moe_block=True, num_experts=8, top_k_experts=3, moe_intermediate_size=24)
    return tiny(config, (2, 1), keys={"expert_count": 8, "expert_used_count": 3, "expert_feed_forward_length": 24},
                change=(lambda name, data: [(name, data)]) if fused else split_experts, scores=router_scores,
                router="router", n_used=3)


def gemma4_moe_split():
    """The same weights and logits with a tensor for the gates of experts and one for their ups."""
    model = gemma4_moe(fused=False)
    model.seed = "gemma4-moe"
    return model


N_STREAMS, LAUREL = 4, 8
STREAMS = {f"model.altup_{part}projections.{i}": f"altup_{to}proj.{i}"
           for part, to in (("", ""), ("unembed_", "unembd_")) for i in range(N_STREAMS - 1)}
NAMES_3N = {**NAMES, **STREAMS, "altup.correct_output_scale": "altup_correct_scale",
            "altup.correction_coefs": "altup_correct_coef", "altup.prediction_coefs": "altup_predict_coef",
            "altup.modality_router": "altup_router", "altup.router_norm": "altup_router_norm",
            "laurel.linear_left": "laurel_l", "laurel.linear_right": "laurel_r",
            "laurel.post_laurel_norm": "laurel_post_norm"}


def stacked():
    """A change that puts the matrices of all streams into one tensor."""
    parts = {}

    def change(name, data):
        if "proj." not in name or not name.startswith("altup_"):
            return [(name, data)]
        whole = name.split(".")[0] + ".weight"
        found = parts.setdefault(whole, [])
        found.append(data)
        return [(whole, np.stack(found))] if len(found) == N_STREAMS - 1 else []
    return change


def gemma3n():
    """Four streams, of which layers compute the first; laurel beside attention; the gates of the first two layers are cut
    at their mean plus 1.645 and 0.5 deviations; an embedding of each token for each layer; the last two layers read the
    keys and values of layers before them; the window's layers are four of five unless the file says otherwise."""
    types, shares = kinds("sfsfsf"), [0.95, 0.6914625, 0.0, 0.0, 0.0, 0.0]
    config = transformers.Gemma3nTextConfig(
        **{name: value for name, value in SMALL.items() if name != "global_head_dim"}, num_hidden_layers=6,
        layer_types=types, intermediate_size=48, num_key_value_heads=2, vocab_size_per_layer_input=N_VOCAB,
        hidden_size_per_layer_input=24, altup_num_inputs=N_STREAMS, num_kv_shared_layers=2, laurel_rank=LAUREL,
        activation_sparsity_pattern=shares)
    config._attn_implementation = "eager"
    keys = sizes(config, **{
        "feed_forward_length": [48] * 6, "attention.sliding_window": WINDOW, "attention.shared_kv_layers": 2,
        "attention.sliding_window_pattern": [kind != "full_attention" for kind in types],
        "rope.freq_base": 1000000.0, "rope.freq_base_swa": 10000.0, "final_logit_softcapping": 2.5,
        "embedding_length_per_layer_input": 24, "altup.active_idx": 0, "altup.num_inputs": N_STREAMS,
        "activation_sparsity_scale": [torch.distributions.Normal(0, 1).icdf(torch.tensor(share)).item() for share in shares]})
    return Tiny("gemma3n", config, keys, NAMES_3N, stacked(),
                build=lambda: transformers.Gemma3nForCausalLM(config), spreads={"correct_output_scale": 1.0, "coefs": 0.5})


MODELS = {
    "gemma3n": gemma3n,
    "gemma4": gemma4,
    "gemma4-e2b": gemma4_e2b,
    "gemma4-moe": gemma4_moe,
    "gemma4-moe-split": gemma4_moe_split,
}

if __name__ == "__main__":
    make_all(MODELS)
