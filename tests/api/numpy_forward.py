"""Computes the hidden states of a small GGUF model in plain numpy and double precision, for comparison with
embeddings.

Written from the models' definitions, without any of the engine's code: llama (adjacent pairs rotate), qwen2
and qwen3 (halves rotate; biases; norms of q and k), without RoPE scaling.
"""
import gguf
import numpy as np


class Model:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        keys = {name: field.contents()
                for name, field in reader.fields.items() if not name.startswith("tokenizer.")}
        self.arch = keys["general.architecture"]
        get = lambda key, default=None: keys.get(f"{self.arch}.{key}", default)
        self.weights = {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in reader.tensors}
        self.n_layers, self.n_heads = get("block_count"), get("attention.head_count")
        self.n_kv_heads = get("attention.head_count_kv", self.n_heads)
        self.head_dim = get("attention.key_length", get("embedding_length") // self.n_heads)
        self.eps, self.base = get("attention.layer_norm_rms_epsilon"), get("rope.freq_base", 10000.0)

    def weight(self, name):
        return self.weights[name + ".weight"].astype(np.float64)

    def norm(self, x, name):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.eps) * self.weight(name)

    def product(self, x, name):
        bias = self.weights.get(name + ".bias")
        return x @ self.weight(name).T + (0 if bias is None else bias)

    def rotated(self, x):
        """x [tokens, heads, head_dim]"""
        half = self.head_dim // 2
        angles = np.arange(len(x))[:, None] * self.base ** (-np.arange(half) * 2 / self.head_dim)
        cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
        first, second = ((x[..., 0::2], x[..., 1::2]) if self.arch == "llama"
                         else (x[..., :half], x[..., half:]))
        turned = first * cos - second * sin, first * sin + second * cos
        return np.stack(turned, -1).reshape(x.shape) if self.arch == "llama" else np.concatenate(turned, -1)

    def heads(self, x, name, n_heads):
        heads = self.product(x, name).reshape(len(x), n_heads, self.head_dim)
        return self.norm(heads, f"{name}_norm") if f"{name}_norm.weight" in self.weights else heads

    def attention(self, x, layer):
        q = self.rotated(self.heads(x, f"{layer}.attn_q", self.n_heads))
        k = self.rotated(self.heads(x, f"{layer}.attn_k", self.n_kv_heads))
        v = self.product(x, f"{layer}.attn_v").reshape(len(x), self.n_kv_heads, self.head_dim)
        k, v = (np.repeat(part, self.n_heads // self.n_kv_heads, axis=1) for part in (k, v))
        scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(self.head_dim)
        scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        attended = np.einsum("hts,shd->thd", scores / scores.sum(-1, keepdims=True), v)
        return self.product(attended.reshape(len(x), -1), f"{layer}.attn_output")

    def ffn(self, x, layer):
        gate = self.product(x, f"{layer}.ffn_gate")
        return self.product(gate / (1 + np.exp(-gate)) * self.product(x, f"{layer}.ffn_up"),
                            f"{layer}.ffn_down")

    def hidden_states(self, tokens):
        """[tokens, d_model], after the final norm."""
        x = self.weights["token_embd.weight"][tokens].astype(np.float64)
        for layer in (f"blk.{i}" for i in range(self.n_layers)):
            x = x + self.attention(self.norm(x, f"{layer}.attn_norm"), layer)
            x = x + self.ffn(self.norm(x, f"{layer}.ffn_norm"), layer)
        return self.norm(x, "output_norm")


def unit(vector):
    return vector / np.linalg.norm(vector)
