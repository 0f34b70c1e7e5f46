"""Writes the table of docs/predictions.md: which models fit which cards, and how fast `hearth-profiler plan`
says they will be.

    docs/figures/which_model.py [build/release/hearth-profiler]            writes it into the page
    docs/figures/which_model.py --print [build/release/hearth-profiler]    prints it

`plan` reads no weights, so a model is a GGUF file of the right sizes that holds nothing: a head, and then a
hole as large as the weights would be. Needs the package gguf (tests/requirements-all.txt) and a few seconds.
"""
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/predictions.md"
MACHINES = ROOT / "profiler/machine/machines"
BEGIN, END = "<!-- table: docs/figures/which_model.py -->", "<!-- end of table -->"
CONTEXT = 4096

# By the card's memory. Each is a file in profiler/machine/machines.
CARDS = [("8 GB", "rtx4060-laptop", "RTX 4060 Laptop"),
         ("12 GB", "rtx3060", "RTX 3060"), ("16 GB", "rtx5060ti", "RTX 5060 Ti"),
         ("24 GB", "rtx3090", "RTX 3090"), ("24 GB", "rtx4090", "RTX 4090"), ("32 GB", "rtx5090", "RTX 5090"),
         ("48 GB", "rtxa6000", "RTX A6000")]


class Dense:
    """A dense model by the sizes in its own configuration."""

    def __init__(self, architecture, layers, width, ffn, heads, kv_heads, vocabulary, head=0):
        self.architecture, self.layers, self.width, self.ffn, self.heads, self.kv_heads = (
            architecture, layers, width, ffn, heads, kv_heads)
        self.vocabulary, self.head = vocabulary, head or width // heads

    def matrices(self):
        """(name, rows, columns) of the matrices with the file's type."""
        q, kv = self.heads * self.head, self.kv_heads * self.head
        for layer in range(self.layers):
            yield from ((f"blk.{layer}.{name}.weight", rows, columns) for name, rows, columns in [
                ("attn_q", q, self.width), ("attn_k", kv, self.width),
                ("attn_v", kv, self.width), ("attn_output", self.width, q),
                ("ffn_gate", self.ffn, self.width), ("ffn_up", self.ffn, self.width),
                ("ffn_down", self.width, self.ffn)])

    def vectors(self):
        """(name, length) of the norms."""
        yield "output_norm.weight", self.width
        for layer in range(self.layers):
            yield from ((f"blk.{layer}.{name}.weight", self.width) for name in ("attn_norm", "ffn_norm"))
            if self.architecture != "llama":
                yield from ((f"blk.{layer}.{name}.weight", self.head)
                            for name in ("attn_q_norm", "attn_k_norm"))

    def write(self, path):
        import gguf  # here, so that the page's test can say that it is missing
        import numpy

        out = gguf.GGUFWriter(path, self.architecture)
        out.add_block_count(self.layers)
        out.add_context_length(32768)
        out.add_embedding_length(self.width)
        out.add_feed_forward_length(self.ffn)
        out.add_head_count(self.heads)
        out.add_head_count_kv(self.kv_heads)
        out.add_key_length(self.head)
        out.add_value_length(self.head)
        out.add_rope_dimension_count(self.head)
        out.add_layer_norm_rms_eps(1e-5)
        out.add_rope_freq_base(1e6)
        out.add_vocab_size(self.vocabulary)
        n_bytes = 0

        def add(name, shape, kind):
            nonlocal n_bytes
            size, columns = 1, shape[-1]
            for length in shape:
                size *= length
            block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
            assert columns % block == 0, name
            # gguf takes the shape of a quantized tensor in bytes.
            in_bytes = (*shape[:-1], columns // block * block_bytes) if block > 1 else shape
            out.add_tensor_info(name, in_bytes, numpy.dtype("uint8" if block > 1 else "float32"),
                                size // block * block_bytes, raw_dtype=kind)
            n_bytes += -(-(size // block * block_bytes) // 32) * 32

        kinds = gguf.GGMLQuantizationType
        add("token_embd.weight", (self.vocabulary, self.width), kinds.Q4_K)
        add("output.weight", (self.vocabulary, self.width), kinds.Q6_K)
        for name, rows, columns in self.matrices():
            add(name, (rows, columns), kinds.Q4_K)
        for name, length in self.vectors():
            add(name, (length,), kinds.F32)
        out.write_header_to_file()
        out.write_kv_data_to_file()
        out.write_ti_data_to_file()
        out.close()
        with open(path, "r+b") as file:
            file.truncate(-(-file.seek(0, 2) // 32) * 32 + n_bytes)


def shape(*arguments):
    return ["--shape", *arguments]


# (what people call it, type, model)
MODELS = [
    ("Gemma 4 E4B", "Q4_0", shape("gemma-4-e4b")),
    ("Llama 3.1 8B", "Q4_K", Dense("llama", 32, 4096, 14336, 32, 8, 128256)),
    ("Qwen3 14B", "Q4_K", Dense("qwen3", 40, 5120, 17408, 40, 8, 151936, head=128)),
    ("Mistral Small 24B", "Q4_K", Dense("llama", 40, 5120, 32768, 32, 8, 131072, head=128)),
    ("Qwen3.6 27B", "Q4_0", shape("qwen3.6-27b")),
    ("Llama 3.3 70B", "Q4_K", Dense("llama", 80, 8192, 28672, 64, 8, 128256)),
    ("Llama 2 70B with ReLU and predictors", "Q4_0", shape("70b")),
    ("gpt-oss 20B", "MXFP4", shape("gpt-oss-20b")),
    ("Gemma 4 26B-A4B", "Q4_0", shape("gemma-4-26b-a4b")),
    ("Qwen3 30B-A3B", "Q4_0", shape("qwen3-30b-a3b")),
    ("Nemotron 3 Nano", "Q4_0", shape("nemotron-3-nano")),
    ("Qwen3.6 35B-A3B", "Q4_0", shape("qwen3.6-35b-a3b")),
    ("GLM-4.5-Air", "Q4_0", shape("glm-4.5-air")),
    ("gpt-oss 120B", "MXFP4", shape("gpt-oss-120b")),
]


def rate(value):
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"


def planned(program, model, machine):
    """(size in GB or None, the table's cell)"""
    command = [program, "plan", *map(str, model), "--machine", MACHINES / f"{machine}.toml",
               "--slots", "1", "--context", str(CONTEXT),
               "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        if " need" not in done.stderr:
            sys.exit(f"which_model.py: {' '.join(map(str, command))}: {done.stderr}")
        return None, "no"
    plan = json.loads(done.stdout)
    best = plan["best"]
    speed = rate(best["decode_tokens_per_s"])
    if ("layers" in plan and best["gpu"] and best["device_layers"] == len(plan["layers"])
        and best["hot_share"] > 0.999):
        cell = f"**{speed}**"
    else:
        # RAM may keep copies of experts that the card has.
        rest = best["ram_bytes"] - best.get("ram_copy_bytes", 0)
        share = 100 * best["vram_bytes"] / (best["vram_bytes"] + rest)
        cell = f"{speed}, {share:.0f}\u00a0%"  # a non-breaking space
    return plan["weight_bytes"], cell


def table(program, models=None):
    """The table's head, and a row for each model (for all if none are given)."""
    lines = ["| model | GB | " + " | ".join(f"{size}: {card}" for size, _, card in CARDS) + " |",
             "|---|---|" + "---|" * len(CARDS)]
    with tempfile.TemporaryDirectory() as folder:
        for i, (name, kind, model) in enumerate(models or MODELS):
            if isinstance(model, Dense):
                path = pathlib.Path(folder) / f"{i}.gguf"
                model.write(path)
                model = ["--model", path]
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                found = list(pool.map(lambda card, model=model: planned(program, model, card[1]), CARDS))
            size = next(n for n, _ in found if n)
            lines.append(
                f"| {name}, {kind} | {size / 1e9:.1f} | " + " | ".join(cell for _, cell in found) + " |")
    return "\n".join(lines)


def main(arguments):
    only_print = arguments[:1] == ["--print"]
    program = (arguments[only_print:] or [ROOT / "build/release/hearth-profiler"])[0]
    made = table(program)
    if only_print:
        print(made)
        return
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n\n{made}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
