"""Makes the tiny random encoders of this folder and what they should give, with the PyPI packages transformers and
gguf.

usage: make_encoder_models.py OUT_DIR [--checkpoints] [NAME...]      (needs torch, transformers, gguf, numpy)

NAME.gguf is as llama.cpp's converters write it, NAME.hidden are little-endian float32 [n_tokens, d_model] of all of
TOKENS after the last layer, computed in float32 by transformers. The committed files came from this script.
"""
import transformers

from tiny_models import CONTEXT, N_VOCAB, Tiny, fused_qkv, make_all, of_rope

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


MODELS = {
    "bert": bert,
    "nomic-bert": nomic_bert,
}

if __name__ == "__main__":
    make_all(MODELS)
