"""Jina's BERT with ALiBi (embeddings 2, rerankers 1), written from the papers and the published configuration, because
transformers has no class of it. make_encoder_models.py and make_rank_models.py build their models from it.

It sees all tokens. The score of a query and a key loses slope * distance, by Press et al. 2022 ("Train short, test long").
The sum of a token's embedding and of row 0 or 1 of the token types is normed, without positions. Layer norms come after
each sum. The FFN is wo(gelu(a) * b), where gated_layers gives a, then b. Names of parameters are those of the published
checkpoints.
"""
import json
import math
import pathlib
import types

import safetensors.torch
import torch
from torch import nn

from make_models import N_VOCAB

CONFIG = dict(vocab_size=N_VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
              max_position_embeddings=256, type_vocab_size=2, layer_norm_eps=1e-12, feed_forward_type="geglu",
              position_embedding_type="alibi", hidden_act="gelu", model_type="bert", tie_word_embeddings=False)


def slopes(n_heads):
    """The geometric sequences of the paper, and those of its code if the number of heads is not a power of two."""
    def powers(n):
        return [2.0 ** (-8.0 * (i + 1) / n) for i in range(n)]
    lower = 2 ** int(math.log2(n_heads))
    return powers(lower) + powers(2 * lower)[::2][:n_heads - lower]


class Attention(nn.Module):
    def __init__(self, width, n_heads, eps):
        super().__init__()
        self.n_heads = n_heads
        self.self = nn.ModuleDict({name: nn.Linear(width, width) for name in ("query", "key", "value")})
        self.output = nn.ModuleDict({"dense": nn.Linear(width, width), "LayerNorm": nn.LayerNorm(width, eps)})

    def forward(self, x):
        n = len(x)
        q, k, v = (self.self[name](x).view(n, self.n_heads, -1).transpose(0, 1) for name in ("query", "key", "value"))
        k, v = k.half().to(x.dtype), v.half().to(x.dtype)  # as a cache has them
        at = torch.arange(n)
        distance = (at[:, None] - at[None, :]).abs()
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
        scores = scores - torch.tensor(slopes(self.n_heads), dtype=x.dtype)[:, None, None] * distance
        attended = (scores.softmax(-1) @ v).transpose(0, 1).reshape(n, -1)
        return self.output["LayerNorm"](x + self.output["dense"](attended))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = Attention(config.hidden_size, config.num_attention_heads, config.layer_norm_eps)
        self.mlp = nn.ModuleDict({
            "gated_layers": nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False),
            "wo": nn.Linear(config.intermediate_size, config.hidden_size),
            "layernorm": nn.LayerNorm(config.hidden_size, config.layer_norm_eps)})

    def forward(self, x):
        x = self.attention(x)
        gate, up = self.mlp["gated_layers"](x).chunk(2, -1)
        return self.mlp["layernorm"](x + self.mlp["wo"](nn.functional.gelu(gate) * up))


class JinaBert(nn.Module):
    """labels: the number of scores of a pair; 0 for embeddings, which have no pooler."""
    def __init__(self, labels=0, **more):
        super().__init__()
        self.config = types.SimpleNamespace(**{**CONFIG, **more})
        config, width = self.config, self.config.hidden_size
        kind = "JinaBertForSequenceClassification" if labels else "JinaBertForMaskedLM"
        self.published = {**CONFIG, **more, "architectures": [kind]}
        self.embeddings = nn.ModuleDict({
            "word_embeddings": nn.Embedding(config.vocab_size, width),
            "token_type_embeddings": nn.Embedding(config.type_vocab_size, width),
            "LayerNorm": nn.LayerNorm(width, config.layer_norm_eps)})
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))})
        if labels:
            self.pooler = nn.ModuleDict({"dense": nn.Linear(width, width)})
            self.classifier = nn.Linear(width, labels)
        self.labels = labels

    def forward(self, tokens, token_type_ids=None):
        kinds = torch.zeros_like(tokens) if token_type_ids is None else token_type_ids
        x = self.embeddings["word_embeddings"](tokens[0]) + self.embeddings["token_type_embeddings"](kinds[0])
        x = self.embeddings["LayerNorm"](x)
        for layer in self.encoder["layer"]:
            x = layer(x)
        if not self.labels:
            return types.SimpleNamespace(last_hidden_state=x[None])
        return types.SimpleNamespace(logits=self.classifier(self.pooler["dense"](x[:1]).tanh()), last_hidden_state=x[None])

    def save_pretrained(self, folder):
        safetensors.torch.save_file(self.state_dict(), pathlib.Path(folder) / "model.safetensors")
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(self.published))
