"""Makes the tiny random models of the architectures that PowerInfer has, and their golden logits, with the PyPI
packages transformers and gguf.

usage: make_sparse_models.py OUT_DIR [--checkpoints] [--f16]      (needs torch, transformers, gguf, numpy)

Each model is written twice: NAME.gguf as llama.cpp's converters write it, and NAME.powerinfer.gguf as PowerInfer's do
(magic PWRI, down projections transposed, a random predictor of another rank in each layer). Weights are F16, Q8_0 and
Q4_0. NAME.logits are little-endian float32 [n_rows, n_vocab] of every 4th position of TOKENS, computed in float32 by
transformers on the file's own weights, dequantised. NAME.powerinfer.predicted.logits are those of a pass where only
the neurons count that the predictors propose: fc2 relu(fc1 x) at or above the file's threshold, x the residual stream
before the FFN (before the layer for falcon). No predictor's logit lies close to the threshold, so that rounding cannot
turn a proposal. The committed files came from this script.

With --f16 the models are such as PowerInfer itself loads, to be held against it: F16 only, contexts of 2,048, output
matrices of their own.
"""
import pathlib
import sys

import gguf
import numpy as np
import torch
import transformers

import make_models
from checkpoints import CHECKPOINTS, write_checkpoint
from make_models import D_FF, D_MODEL, N_HEADS, N_LAYERS, N_VOCAB, TOKENS, interleave

FOR_POWERINFER = "--f16" in sys.argv[2:]
CONTEXT = 2048 if FOR_POWERINFER else make_models.CONTEXT
HEAD_DIM = D_MODEL // N_HEADS
RANKS = [32, 24]
MARGIN = 0.02  # of the standard deviation of a predictor's logits; engines are off by a thousandth or so
F16, F32, Q4_0, Q8_0 = (gguf.GGMLQuantizationType[name] for name in ("F16", "F32", "Q4_0", "Q8_0"))
# name: architecture, key/value heads, threshold of its predictors
MODELS = {
    "relu-llama": ("llama", 2, 0.0),
    "bamboo": ("bamboo", 2, 0.25),
    "falcon-7b": ("falcon", 1, 0.0),
    "falcon-40b": ("falcon", 2, -0.5),
    "opt": ("opt", 4, 0.0),
}


def falcon_rows(n_kv_heads):
    """Orders of rows: of a fused tensor of groups (some q heads, k, v) as GGUF has them, all q, all k, all v."""
    heads = np.arange(N_HEADS + 2 * n_kv_heads).reshape(n_kv_heads, -1)
    order = np.concatenate([heads[:, :-2].ravel(), heads[:, -2], heads[:, -1]])
    return (order[:, None] * HEAD_DIM + np.arange(HEAD_DIM)).ravel()


class Roles:
    """Where one transformers model has what a GGUF file wants."""

    def __init__(self, name, activation):
        self.name = name
        self.arch, self.n_kv_heads, self.threshold = MODELS[name]
        self.activation = activation
        self.model = transformers.AutoModelForCausalLM.from_config(self.config(), attn_implementation="eager")
        self.model = self.model.float().eval()
        body = self.model.model.decoder if self.arch == "opt" else (
            self.model.transformer if self.arch == "falcon" else self.model.model)
        self.layers = body.h if self.arch == "falcon" else body.layers
        if self.arch == "bamboo":
            for layer in self.layers:
                layer.mlp.forward = lambda x, mlp=layer.mlp: mlp.down_proj(
                    torch.relu(mlp.gate_proj(x)) * torch.relu(mlp.up_proj(x)))

    def config(self):
        if self.arch == "opt":
            return transformers.OPTConfig(
                vocab_size=N_VOCAB, hidden_size=D_MODEL, ffn_dim=D_FF, num_hidden_layers=N_LAYERS,
                num_attention_heads=N_HEADS, max_position_embeddings=CONTEXT, word_embed_proj_dim=D_MODEL,
                activation_function=self.activation, dropout=0.0, attention_dropout=0.0)
        if self.arch == "falcon":
            two_norms = self.name == "falcon-40b"
            return transformers.FalconConfig(
                vocab_size=N_VOCAB, hidden_size=D_MODEL, ffn_hidden_size=D_FF, num_hidden_layers=N_LAYERS,
                num_attention_heads=N_HEADS, num_kv_heads=self.n_kv_heads, new_decoder_architecture=two_norms,
                multi_query=not two_norms, parallel_attn=True, bias=False, alibi=False, activation=self.activation,
                max_position_embeddings=CONTEXT, tie_word_embeddings=two_norms and not FOR_POWERINFER,
                attention_dropout=0.0, hidden_dropout=0.0)
        return transformers.LlamaConfig(
            vocab_size=N_VOCAB, hidden_size=D_MODEL, intermediate_size=D_FF, num_hidden_layers=N_LAYERS,
            num_attention_heads=N_HEADS, num_key_value_heads=self.n_kv_heads, max_position_embeddings=CONTEXT,
            rms_norm_eps=1e-6, tie_word_embeddings=False, hidden_act=self.activation,
            rope_parameters={"rope_theta": 10000.0, "rope_type": "default"})

    def parameters(self):
        """(GGUF's name, parameter) of every tensor a plain file has."""
        if self.arch == "opt":
            names = {"model.decoder.embed_tokens": "token_embd", "model.decoder.embed_positions": "position_embd",
                     "model.decoder.final_layer_norm": "output_norm", "self_attn.q_proj": "attn_q",
                     "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.out_proj": "attn_output",
                     "self_attn_layer_norm": "attn_norm", "final_layer_norm": "ffn_norm", "fc1": "ffn_up",
                     "fc2": "ffn_down"}
        elif self.arch == "falcon":
            names = {"transformer.word_embeddings": "token_embd", "transformer.ln_f": "output_norm",
                     "lm_head": "output", "self_attention.query_key_value": "attn_qkv",
                     "self_attention.dense": "attn_output", "input_layernorm": "attn_norm", "ln_mlp": "attn_norm",
                     "ln_attn": "attn_norm_2", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"}
        else:
            names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
                     "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
                     "self_attn.o_proj": "attn_output", "input_layernorm": "attn_norm",
                     "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
                     "mlp.down_proj": "ffn_down"}
        for name, parameter in self.model.named_parameters():  # tied ones once
            stem, suffix = name.rsplit(".", 1)
            if stem in names:
                yield f"{names[stem]}.{suffix}", parameter
                continue
            parts = stem.split(".")
            at = next(i for i, part in enumerate(parts) if part.isdigit())
            yield f"blk.{parts[at]}.{names['.'.join(parts[at + 1:])]}.{suffix}", parameter

    def to_file(self, name, data, back=False):
        """Rows in the file's order, or (back) in transformers'."""
        if self.arch == "falcon" and "attn_qkv" in name:
            order = falcon_rows(self.n_kv_heads)
            return data[np.argsort(order) if back else order]
        if self.arch in ("llama", "bamboo") and ("attn_q." in name or "attn_k." in name):
            n_heads = N_HEADS if "attn_q." in name else self.n_kv_heads
            if not back:
                return interleave(data, n_heads)
            return data.reshape(n_heads, -1, 2, data.shape[-1]).swapaxes(1, 2).reshape(data.shape)
        return data

    def published(self, tensors, config):
        """transformers lacks Bamboo's class, which is llama's but for its name and the activation."""
        if self.arch == "bamboo":
            config.update(architectures=["BambooForCausalLM"], model_type="bamboo")
        return tensors

    def masked(self, predictors):
        """Hooks that let only proposed neurons through, in the layers that have a predictor; returns their handles and
        the dict of every layer's predictor input."""
        inputs, handles = {}, []
        for i, layer in enumerate(self.layers):
            seen = {"opt": lambda: layer.final_layer_norm, "falcon": lambda: layer}.get(
                self.arch, lambda: layer.post_attention_layernorm)()
            down = {"opt": lambda: layer.fc2, "falcon": lambda: layer.mlp.dense_4h_to_h}.get(
                self.arch, lambda: layer.mlp.down_proj)()

            def keep(_, args, kwargs, i=i):
                x = args[0] if args else kwargs["hidden_states"]
                inputs[i] = x.reshape(-1, D_MODEL)

            def mask(_, args, i=i):
                if i >= len(predictors):
                    return None
                fc1, fc2 = predictors[i]
                wanted = torch.relu(inputs[i] @ fc1.T) @ fc2.T >= self.threshold
                return (args[0] * wanted.reshape(args[0].shape),)

            handles.append(seen.register_forward_pre_hook(keep, with_kwargs=True))
            handles.append(down.register_forward_pre_hook(mask))
        return handles, inputs

    def logits(self, predictors=None):
        """Of all positions; with predictors masked, and then the predictors' inputs too."""
        handles, inputs = self.masked(predictors) if predictors is not None else ([], {})
        with torch.no_grad():
            logits = self.model(torch.tensor([TOKENS])).logits[0]
        for handle in handles:
            handle.remove()
        return logits, inputs


def stored(data, dtype):
    """The bytes a file has for these floats, and what they stand for."""
    if dtype in (F16, F32):
        data = data.astype(np.float16 if dtype == F16 else np.float32)
        return data, data.astype(np.float32)
    quantised = gguf.quants.quantize(data.astype(np.float32), dtype)
    return quantised, gguf.quants.dequantize(quantised, dtype).astype(np.float32)


def dtype_of(name, shape, powerinfer):
    if len(shape) == 1:
        return F32
    if FOR_POWERINFER:
        return F16
    if "fc" in name:
        return (Q8_0 if "fc2" in name else Q4_0) if shape[1] % 32 == 0 and shape[0] % 32 == 0 else F16
    for part, plain, sparse in (("attn_", Q8_0, Q4_0), ("ffn_gate", F16, Q8_0), ("ffn_up", Q4_0, F16),
                                ("ffn_down", Q8_0, Q4_0), ("position", F16, F16)):
        if part in name:
            return sparse if powerinfer else plain
    return Q8_0


def randomise(roles, rng):
    for name, parameter in roles.parameters():
        norm = "norm" in name
        spread = 0.3 if norm or parameter.ndim == 1 else 1.5 / parameter.shape[-1] ** 0.5
        base = 1.0 if norm and name.endswith("weight") else 0.0
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(base + spread * rng.standard_normal(tuple(parameter.shape))))


def tensors_of(roles, powerinfer):
    """The file's tensors; sets the model's weights to what they stand for."""
    tensors = {}
    for name, parameter in roles.parameters():
        data = roles.to_file(name, parameter.detach().numpy())
        turned = powerinfer and "ffn_down" in name
        if turned:
            name = name.replace("ffn_down", "ffn_down_t")
        if turned and data.ndim == 2:
            data = np.ascontiguousarray(data.T)
        dtype = dtype_of(name, data.shape, powerinfer)
        raw, values = stored(data, dtype)
        tensors[name] = (raw, dtype)
        if turned and values.ndim == 2:
            values = values.T
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(roles.to_file(name, values, back=True))))
    return tensors


def make_predictors(roles, tensors, rng):
    """Random predictors, layer by layer, since the next one reads what this one lets through."""
    predictors = []
    for i in range(N_LAYERS):
        _, inputs = roles.logits(predictors)
        x = inputs[i].numpy()
        rank = RANKS[i]
        shape1, shape2 = (rank, D_MODEL), (D_FF, rank)
        type1, type2 = dtype_of("fc1", shape1, True), dtype_of("fc2", shape2, True)
        raw1, fc1 = stored(rng.standard_normal(shape1) / np.std(x) / D_MODEL ** 0.5, type1)
        hidden = np.maximum(x @ fc1.T, 0)
        rows = []
        while len(rows) < D_FF:
            row = rng.standard_normal((1, rank)) / (np.mean(hidden ** 2) * rank) ** 0.5
            if np.abs(stored(row, type2)[1] @ hidden.T - roles.threshold).min() > MARGIN:
                rows.append(row[0])
        raw2, fc2 = stored(np.stack(rows), type2)
        tensors[f"blk.{i}.fc1.weight"] = (raw1, type1)
        tensors[f"blk.{i}.fc2.weight"] = (raw2, type2)
        predictors.append((torch.from_numpy(fc1), torch.from_numpy(fc2)))
    return predictors


def add_vocabulary(writer, arch):
    specials = ["<s>", "<pad>", "</s>"] if arch == "opt" else ["<unk>", "<s>", "</s>"]
    if arch in ("llama", "bamboo"):
        writer.add_tokenizer_model("llama")
        writer.add_token_list(specials + [f"<0x{b:02X}>" for b in range(256)])
        writer.add_token_scores([0.0] * N_VOCAB)
        writer.add_token_types([2, 3, 3] + [6] * 256)
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        return
    # As files of these two are: byte-level BPE without the name of a pre-tokenizer.
    printable = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b]
    others = [b for b in range(256) if b not in printable]
    letters = [chr(b) if b in printable else chr(256 + others.index(b)) for b in range(256)]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(specials + letters)
    writer.add_token_types([3, 3, 3] + [1] * 256)
    writer.add_token_merges(["\u0120 a"])
    writer.add_eos_token_id(2)


def write_gguf(path, roles, tensors, powerinfer):
    writer = gguf.GGUFWriter(str(path), roles.arch)
    writer.add_name(path.stem)
    writer.add_block_count(N_LAYERS)
    # PowerInfer counts the two rows before the first position.
    writer.add_context_length(CONTEXT + 2 if roles.arch == "opt" else CONTEXT)
    writer.add_embedding_length(D_MODEL)
    writer.add_feed_forward_length(D_FF)
    writer.add_head_count(N_HEADS)
    if roles.arch != "opt":
        writer.add_head_count_kv(roles.n_kv_heads)
    if roles.arch == "falcon":
        writer.add_layer_norm_eps(roles.model.config.layer_norm_epsilon)
        writer.add_tensor_data_layout("jploski")
    elif roles.arch != "opt":
        writer.add_layer_norm_rms_eps(roles.model.config.rms_norm_eps)
        writer.add_rope_dimension_count(HEAD_DIM)
    if roles.name == "relu-llama" and not powerinfer:
        writer.add_string("hearth.ffn_activation", "relu")
    if powerinfer:
        writer.add_float32("powerinfer.sparse_threshold", roles.threshold)
    add_vocabulary(writer, roles.arch)
    for name, (raw, dtype) in tensors.items():
        writer.add_tensor(name, raw, raw_dtype=dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if powerinfer:
        with open(path, "r+b") as file:
            file.write(b"PWRI")


def write_logits(path, logits):
    logits[::4].numpy().astype("<f4").tofile(path)


def main():
    out = pathlib.Path(sys.argv[1])
    for seed, name in enumerate(MODELS):
        for powerinfer in (False, True):
            arch = MODELS[name][0]
            roles = Roles(name, "gelu" if arch == "falcon" and not powerinfer else "relu")
            rng = np.random.default_rng(seed)
            randomise(roles, rng)
            tensors = tensors_of(roles, powerinfer)
            stem = name + (".powerinfer" if powerinfer else "")
            dense, _ = roles.logits()
            write_logits(out / f"{stem}.logits", dense)
            line = [stem, "spread", round(dense.std().item(), 3)]
            if powerinfer:
                predictors = make_predictors(roles, tensors, rng)
                predicted, inputs = roles.logits(predictors)
                write_logits(out / f"{stem}.predicted.logits", predicted)
                shares = [(torch.relu(inputs[i] @ a.T) @ b.T >= roles.threshold).float().mean().item()
                          for i, (a, b) in enumerate(predictors)]
                line += ["predicted off by", round((predicted - dense).abs().max().item(), 3), "shares",
                         [round(share, 2) for share in shares]]
            write_gguf(out / f"{stem}.gguf", roles, tensors, powerinfer)
            if CHECKPOINTS in sys.argv and not powerinfer:
                kind = {"falcon": "gpt2", "opt": "opt"}.get(arch, "llama")
                write_checkpoint(out / name, roles.model, kind, roles.published, half=False)
            print(*line)


if __name__ == "__main__":
    main()
