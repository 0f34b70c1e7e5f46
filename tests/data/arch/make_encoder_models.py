"""Makes the tiny random encoders of this folder and what they should give, with the PyPI packages transformers and
gguf.

usage: make_encoder_models.py OUT_DIR [--checkpoints] [NAME...]      (needs torch, transformers, gguf, numpy)

NAME.gguf is as llama.cpp's converters write it, NAME.hidden are little-endian float32 [n_tokens, d_model] of all of
TOKENS after the last layer, computed in float32 by transformers. NAME.vectors [3, d_model] are the embeddings of the
texts of LENGTHS, as sentence-transformers computes them from a mean. The committed files came from this script.
"""
import numpy as np
import safetensors.torch
import torch
import transformers

from checkpoints import write_json, write_pooling
from jina_bert import JinaBert
from tiny_models import CONTEXT, LLAMA, N_VOCAB, Tiny, fused_qkv, make_all, of_rope, sizes

LENGTHS = (3, 40, 200)  # of the texts of NAME.vectors: the first tokens of the sequence of TOKENS
LONG = 256

COMMON = dict(vocab_size=N_VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
              max_position_embeddings=CONTEXT, type_vocab_size=2, layer_norm_eps=1e-12, hidden_dropout_prob=0.0,
              attention_probs_dropout_prob=0.0)
KEYS = {"block_count": 2, "context_length": CONTEXT, "embedding_length": 64, "feed_forward_length": 96,
        "attention.head_count": 4, "attention.layer_norm_epsilon": 1e-12, "attention.causal": False}
OUTER = {"embeddings.word_embeddings": "token_embd", "embeddings.token_type_embeddings": "token_types",
         "embeddings.position_embeddings": "position_embd", "embeddings.LayerNorm": "token_embd_norm",
         "pooler.dense": ""}


def bert():
    """Attention to all tokens; learned positions and row 0 of the token types; layer norms after each sum; biases;
    exact gelu."""
    names = {**OUTER, "attention.self.query": "attn_q", "attention.self.key": "attn_k",
             "attention.self.value": "attn_v", "attention.output.dense": "attn_output",
             "attention.output.LayerNorm": "attn_output_norm",
             "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
    return Tiny("bert", transformers.BertConfig(**COMMON), {**KEYS, "pooling_type": 2}, names, layers=("layer",),
                auto=transformers.AutoModel, vocabulary="bert", hidden=True)


def nomic_bert():
    """bert with RoPE instead of positions, SwiGLU, q, k and v in one tensor, and no biases but the norms'."""
    config = transformers.NomicBertConfig(**COMMON, rope_parameters=of_rope(1000.0))
    names = {**OUTER, "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
             "self_attn.o_proj": "attn_output", "post_attention_layernorm": "attn_output_norm",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
             "post_mlp_layernorm": "layer_output_norm"}
    return Tiny("nomic-bert", config, {**KEYS, "rope.freq_base": 1000.0, "pooling_type": 1}, names, fused_qkv(),
                auto=transformers.AutoModel, vocabulary="bert", hidden=True)


def jina_bert_v3():
    """bert with RoPE instead of positions, and one token type; q, k and v in one tensor."""
    config = transformers.JinaEmbeddingsV3Config(**{**COMMON, "type_vocab_size": 1, "layer_norm_eps": 1e-5},
                                                 rope_parameters=of_rope(20000.0))
    names = {**OUTER, "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
             "self_attn.o_proj": "attn_output", "post_attention_layernorm": "attn_output_norm", "mlp.fc1": "ffn_up",
             "mlp.fc2": "ffn_down", "post_mlp_layernorm": "layer_output_norm"}
    keys = {**KEYS, "attention.layer_norm_epsilon": 1e-5, "rope.freq_base": 20000.0, "pooling_type": 1}
    return Tiny("jina-bert-v3", config, keys, names, fused_qkv(), auto=transformers.AutoModel, vocabulary="bert",
                hidden=True)


JINA_V2_NAMES = {
    "embeddings.word_embeddings": "token_embd", "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm", "attention.self.query": "attn_q", "attention.self.key": "attn_k",
    "attention.self.value": "attn_v", "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm", "mlp.gated_layers": "ffn_up", "mlp.wo": "ffn_down",
    "mlp.layernorm": "layer_output_norm"}


def jina_bert_v2():
    """bert with slopes (ALiBi) instead of positions, and GEGLU, whose gate and up are in ffn_up."""
    model = JinaBert()
    return Tiny("jina-bert-v2", model.config, {**KEYS, "context_length": LONG, "pooling_type": 1}, JINA_V2_NAMES,
                layers=("layer",), build=lambda: model, vocabulary="bert", hidden=True, more_golden=vectors)


def jina_bert_v2_split():
    """Six heads, which are no power of two; gate and up are apart, as before 2025."""
    def change(name, data):
        if "ffn_up" not in name:
            return [(name, data)]
        gate, up = np.split(data, 2)
        return [(name.replace("ffn_up", "ffn_gate"), gate), (name, up)]
    model = JinaBert(num_attention_heads=6, hidden_size=96)
    keys = {**KEYS, "context_length": LONG, "embedding_length": 96, "attention.head_count": 6, "pooling_type": 1}
    return Tiny("jina-bert-v2", model.config, keys, JINA_V2_NAMES, change, layers=("layer",), build=lambda: model,
                vocabulary="bert", hidden=True, converts=False)


def long_text(n):
    return torch.tensor([[(17 * i * i + 5 * i + 3) % N_VOCAB for i in range(n)]])


def vectors(model, *dense):
    """Golden embeddings: the mean of a text's tokens, through the dense layers, with length 1."""
    rows = []
    for n in LENGTHS:
        vector = model(long_text(n)).last_hidden_state[0].mean(0)
        for weight in dense:
            vector = weight @ vector
        rows.append(torch.nn.functional.normalize(vector, dim=0))
    return {"vectors": torch.stack(rows)}


MODERN_NAMES = {
    "embeddings.tok_embeddings": "token_embd", "embeddings.norm": "token_embd_norm", "final_norm": "output_norm",
    "attn_norm": "attn_norm", "attn.Wqkv": "attn_qkv", "attn.Wo": "attn_output", "mlp_norm": "ffn_norm",
    "mlp.Wi": "ffn_up", "mlp.Wo": "ffn_down"}
MODERN_KEYS = {**KEYS, "block_count": 5, "context_length": LONG, "attention.layer_norm_epsilon": 1e-5,
               "rope.freq_base": 160000.0, "rope.freq_base_swa": 10000.0, "rope.scaling.type": "none",
               "attention.sliding_window": 16, "vocab_size": N_VOCAB, "hidden_activation": "gelu",
               "attention.sliding_window_pattern": [False, True, True, False, True]}


def modern_config(**more):
    return transformers.ModernBertConfig(
        vocab_size=N_VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=5, num_attention_heads=4,
        max_position_embeddings=LONG, local_attention=16, pad_token_id=0, bos_token_id=2, eos_token_id=3,
        cls_token_id=2, sep_token_id=3, **more)


def modern_bert():
    """RoPE with two bases; layers 0 and 3 are full, the others see 8 tokens to either side; the first layer has no
    norm before attention; ffn_up holds gate and up."""
    keys = {**MODERN_KEYS, "pooling_type": 1, "classifier.pooling_type": 2}
    return Tiny("modern-bert", modern_config(), keys, MODERN_NAMES, auto=transformers.AutoModel, vocabulary="bert",
                hidden=True, more_golden=vectors)


def modern_bert_silu():
    """Granite Embedding R2: SiLU instead of gelu."""
    keys = {**MODERN_KEYS, "attention.sliding_window_pattern": 3, "hidden_activation": "silu", "pooling_type": 2}
    return Tiny("modern-bert", modern_config(hidden_activation="silu"), keys, MODERN_NAMES,
                auto=transformers.AutoModel, vocabulary="bert", hidden=True, converts=False)


def eurobert():
    """llama with attention to all tokens, and without an output matrix."""
    config = transformers.EuroBertConfig(
        vocab_size=N_VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=CONTEXT, rope_parameters=of_rope(250000.0), bos_token_id=1,
        eos_token_id=2, pad_token_id=0, mask_token_id=0)
    keys = sizes(config, pooling_type=1, **{"attention.causal": False, "rope.scaling.type": "none"})
    names = {name.removeprefix("model."): to for name, to in LLAMA.items()}
    return Tiny("eurobert", config, keys, names, auto=transformers.AutoModel, hidden=True)


def gemma_embedding():
    """gemma3 whose tokens see all tokens, or 8 to either side in layers 0 to 4; two dense layers after the mean."""
    config = transformers.Gemma3TextConfig(
        vocab_size=N_VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=7, num_attention_heads=4,
        num_key_value_heads=1, head_dim=32, query_pre_attn_scalar=32, max_position_embeddings=LONG, sliding_window=16,
        use_bidirectional_attention=True, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    keys = {"block_count": 7, "context_length": LONG, "embedding_length": 64, "feed_forward_length": 96,
            "attention.head_count": 4, "attention.head_count_kv": 1, "attention.key_length": 32,
            "attention.value_length": 32, "attention.layer_norm_rms_epsilon": 1e-6, "attention.sliding_window": 16,
            "rope.freq_base": 1000000.0, "rope.freq_base_swa": 10000.0, "pooling_type": 1, "dense_2_feat_in": 64,
            "dense_2_feat_out": 160, "dense_3_feat_in": 160, "dense_3_feat_out": 64}
    names = {"embed_tokens": "token_embd", "norm": "output_norm", **LAYER_OF_GEMMA}
    random = torch.Generator().manual_seed(7)
    dense = [(torch.randn(rows, cols, generator=random) * 1.5 / cols ** 0.5).half().float()
             for rows, cols in ((160, 64), (64, 160))]

    def change(name, data):
        return [(name, data + 1 if name.endswith("norm.weight") else data)]

    def write_dense(folder):
        modules = write_pooling(folder, "mean_tokens")
        for i, weight in enumerate(dense):
            module = folder / f"{2 + i}_Dense"
            module.mkdir()
            modules.append({"path": module.name, "type": "sentence_transformers.models.Dense"})
            write_json(module / "config.json", {"in_features": weight.shape[1], "out_features": weight.shape[0],
                                                "bias": False, "activation_function": "torch.nn.modules.linear.Identity"})
            safetensors.torch.save_file({"linear.weight": weight.half()}, module / "model.safetensors")
        write_json(folder / "modules.json", modules)

    return Tiny("gemma-embedding", config, keys, names, change, norm_base=0.0, auto=transformers.AutoModel,
                hidden=True, more_golden=lambda model: vectors(model, *dense), files=write_dense,
                extra=lambda: {f"dense_{2 + i}.weight": weight.numpy() for i, weight in enumerate(dense)})


LAYER_OF_GEMMA = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}

MODELS = {
    "bert": bert,
    "nomic-bert": nomic_bert,
    "jina-bert-v3": jina_bert_v3,
    "jina-bert-v2": jina_bert_v2,
    "jina-bert-v2-split": jina_bert_v2_split,
    "modern-bert": modern_bert,
    "modern-bert-silu": modern_bert_silu,
    "eurobert": eurobert,
    "gemma-embedding": gemma_embedding,
}

if __name__ == "__main__":
    make_all(MODELS)
