"""Makes the tiny random models of this folder and their golden logits, with the PyPI packages transformers and gguf.

usage: make_models.py OUT_DIR [--checkpoints]      (needs torch, transformers, gguf, numpy)

For each architecture and RoPE variant that Hearth's table knows, one model of two layers with random weights that are
exact in float16: NAME.gguf as a converter would write it, and NAME.logits, little-endian float32 [n_rows, n_vocab] of
every 4th position of TOKENS, computed in float32 by transformers. The committed files came from this script.
"""
import pathlib
import sys

import gguf
import numpy as np
import torch
import transformers

from checkpoints import CHECKPOINTS, write_checkpoint
from half_cache import cache_of_halves

N_VOCAB, D_MODEL, D_FF, N_LAYERS, N_HEADS, CONTEXT = 259, 64, 96, 2, 4, 64
TOKENS = [(17 * i * i + 5 * i + 3) % N_VOCAB for i in range(48)]
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LINEAR = {"rope_type": "linear", "factor": 2.0}

MODELS = {
    "llama": ("llama", {"num_key_value_heads": 4}),
    "llama-gqa-tied": ("llama", {"tie_word_embeddings": True}),
    "llama-linear": ("llama", {"rope": LINEAR}),
    "llama-llama3": ("llama", {"rope": LLAMA3}),
    "qwen2": ("qwen2", {}),
    "qwen2-yarn": ("qwen2", {"rope": YARN}),
    "qwen3": ("qwen3", {"head_dim": 32}),
}


def build(arch, changes):
    """A transformers model with float16-exact random weights."""
    changes = dict(changes)
    rope = {"rope_theta": 10000.0, "rope_type": "default", **changes.pop("rope", {})}
    common = dict(vocab_size=N_VOCAB, hidden_size=D_MODEL, intermediate_size=D_FF, num_hidden_layers=N_LAYERS,
                  num_attention_heads=N_HEADS, num_key_value_heads=2, max_position_embeddings=CONTEXT,
                  rms_norm_eps=1e-6, tie_word_embeddings=False, rope_parameters=rope)
    config = {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config,
              "qwen3": transformers.Qwen3Config}[arch](**{**common, **changes})
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            spread = 0.3 if "norm" in name else 1.5 / weight.shape[-1] ** 0.5
            base = 1.0 if "norm" in name else 0.0
            weight.copy_((base + spread * torch.randn_like(weight)).half().float())
    return model, config


def interleave(weight, n_heads):
    """q and k rows from halves to adjacent pairs, as converters permute them for GGUF's llama."""
    rows = weight.reshape(n_heads, 2, weight.shape[0] // n_heads // 2, *weight.shape[1:])
    return rows.swapaxes(1, 2).reshape(weight.shape)


def llama3_divisors(head_dim, rope):
    """By what Llama-3.1 divides each frequency (its published scheme)."""
    divisors = []
    for i in range(head_dim // 2):
        wave = 2 * np.pi * rope["rope_theta"] ** (2 * i / head_dim)
        low = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
        high = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
        if wave < high:
            divisors.append(1.0)
        elif wave > low:
            divisors.append(rope["factor"])
        else:
            smooth = (rope["original_max_position_embeddings"] / wave - rope["low_freq_factor"]) / (
                rope["high_freq_factor"] - rope["low_freq_factor"])
            divisors.append(1.0 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(divisors, dtype=np.float32)


def write_gguf(path, arch, model, config):
    writer = gguf.GGUFWriter(str(path), arch)
    rope = config.rope_parameters
    head_dim = getattr(config, "head_dim", None) or D_MODEL // N_HEADS
    writer.add_name(path.stem)
    writer.add_block_count(N_LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(D_MODEL)
    writer.add_feed_forward_length(D_FF)
    writer.add_head_count(N_HEADS)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(rope["rope_theta"])
    if head_dim != D_MODEL // N_HEADS:
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if rope["rope_type"] in ("linear", "yarn"):
        kind = gguf.RopeScalingType.LINEAR if rope["rope_type"] == "linear" else gguf.RopeScalingType.YARN
        writer.add_rope_scaling_type(kind)
        writer.add_rope_scaling_factor(rope["factor"])
        if rope["rope_type"] == "yarn":
            writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)])
    writer.add_token_scores([0.0] * N_VOCAB)
    writer.add_token_types([gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
                           + [gguf.TokenType.BYTE] * 256)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)

    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[arch.upper()], N_LAYERS)
    for name, weight in model.state_dict().items():
        data = weight.numpy()
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if arch == "llama" and ("q_proj" in name or "k_proj" in name):
            data = interleave(data, N_HEADS if "q_proj" in name else config.num_key_value_heads)
        data = data.astype(np.float16 if data.ndim == 2 else np.float32)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), data)
    if rope["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(head_dim, rope))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    out = pathlib.Path(sys.argv[1])
    for seed, (name, (arch, changes)) in enumerate(MODELS.items()):
        torch.manual_seed(seed)
        model, config = build(arch, changes)
        write_gguf(out / f"{name}.gguf", arch, model, config)
        if CHECKPOINTS in sys.argv:
            write_checkpoint(out / name, model, "llama")
        with torch.no_grad(), cache_of_halves(model):
            logits = model(torch.tensor([TOKENS])).logits[0, ::4]
        logits.numpy().astype("<f4").tofile(out / f"{name}.logits")
        print(name, "logits", tuple(logits.shape), "spread", round(logits.std().item(), 3))


if __name__ == "__main__":
    main()
