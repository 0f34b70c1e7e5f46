"""Synthetic models for their users: files that Python's gguf package can read, activity that is as planted
while a model runs, and one message for every mistake. The forward pass here is plain numpy and shares no code
with Hearth's.

HEARTH_BUILD_DIR locates the program. Run by tests/run.sh.
"""
import os
import pathlib
import subprocess

import gguf
import numpy as np
import pytest
from gguf import quants

BUILD = os.environ.get("HEARTH_BUILD_DIR")
SHAPES = ["tiny", "tiny-bamboo", "tiny-falcon", "tiny-opt"]
pytestmark = pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")


def synth(*arguments):
    program = [str(pathlib.Path(BUILD) / "hearth-profiler"), "synth", *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, timeout=120)


def refused(done):
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    return done.stderr


class Model:
    """A file's keys and dequantized tensors. Replaces PowerInfer's magic, which is the only difference."""

    def __init__(self, path):
        data = bytearray(path.read_bytes())
        self.magic = bytes(data[:4])
        data[:4] = b"GGUF"
        copy = path.with_suffix(".copy")
        copy.write_bytes(data)
        reader = gguf.GGUFReader(copy)
        self.keys = {name: field.contents() for name, field in reader.fields.items()}
        self.raw = {t.name: t for t in reader.tensors}
        self.arch = self.keys["general.architecture"]
        self.cache = {}

    def key(self, name):
        return self.keys[f"{self.arch}.{name}"]

    def __getitem__(self, name):
        if name not in self.cache:
            t = self.raw[name]
            self.cache[name] = quants.dequantize(t.data,
                                                 t.tensor_type).reshape(t.shape[::-1]).astype(np.float32)
        return self.cache[name]


def rope(x, position, neox):
    half = x.shape[-1] // 2
    angle = position * 10000.0 ** (-np.arange(half) / half)
    a, b = (x[..., :half], x[..., half:]) if neox else (x[..., ::2], x[..., 1::2])
    pair = a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)
    return np.concatenate(pair, -1) if neox else np.stack(pair, -1).reshape(x.shape)


def greedy(model, n_tokens):
    """Decodes from token 300. Returns which neurons fired and which were predicted, one row per token and
    layer."""
    arch, layers, heads, kv_heads = (model.arch, model.key("block_count"), model.key("attention.head_count"),
                                     model.key("attention.head_count_kv"))
    width = model.key("embedding_length") // heads
    gated = arch in ("llama", "bamboo")

    def norm(x):
        x = x if gated else x - x.mean()
        return x / np.sqrt((x * x).mean() + 1e-5)

    cache = [([], []) for _ in range(layers)]
    fired, predicted, token = [], [], 300
    for position in range(n_tokens):
        x = model["token_embd.weight"][token].copy()
        if arch == "opt":
            x += model["position_embd.weight"][position + 2]
        for i in range(layers):
            t = lambda name: model[f"blk.{i}.{name}.weight"]  # noqa: E731
            n = norm(x)
            if arch == "falcon":
                q, k, v = np.split(t("attn_qkv") @ n, [heads * width, (heads + kv_heads) * width])
            else:
                q, k, v = t("attn_q") @ n, t("attn_k") @ n, t("attn_v") @ n
            q, k, v = q.reshape(heads, width), k.reshape(kv_heads, width), v.reshape(kv_heads, width)
            if arch != "opt":
                q, k = rope(q, position, arch == "falcon"), rope(k, position, arch == "falcon")
            keys, values = cache[i]
            keys.append(np.repeat(k, heads // kv_heads, 0))
            values.append(np.repeat(v, heads // kv_heads, 0))
            scores = np.einsum("hw,thw->ht", q, np.array(keys)) / np.sqrt(width)
            weights = np.exp(scores - scores.max(1, keepdims=True))
            weights /= weights.sum(1, keepdims=True)
            attention = t("attn_output") @ np.einsum("ht,thw->hw", weights, np.array(values)).ravel()
            seen = x
            if arch != "falcon":
                x = x + attention
                seen, n = x, norm(x)
            predicted.append(t("fc2") @ np.maximum(t("fc1") @ seen, 0) >= 0)
            up = t("ffn_up") @ n
            if arch == "bamboo":
                neurons = np.maximum(t("ffn_gate") @ n, 0) * np.maximum(up, 0)
            else:
                neurons = np.maximum(t("ffn_gate") @ n, 0) * up if gated else np.maximum(up, 0)
            fired.append(neurons != 0)
            x = x + neurons @ t("ffn_down_t") + (attention if arch == "falcon" else 0)
        token = int(np.argmax(model["token_embd.weight" if arch == "opt" else "output.weight"] @ norm(x)))
    return np.array(fired), np.array(predicted)


@pytest.mark.parametrize("shape, active",
                         [(shape, 0.18) for shape in SHAPES] + [("tiny", 0.06), ("tiny", 0.4)])
def test_activity_is_as_planted_while_the_model_runs(tmp_path, shape, active):
    done = synth("--shape", shape, "--active", active, "--quant", "q8_0", "--pwri",
                 "--out", tmp_path / "m.gguf")
    assert done.returncode == 0, done.stderr
    fired, predicted = greedy(Model(tmp_path / "m.gguf"), 48)
    by_layer = fired.reshape(48, -1, fired.shape[1]).mean((0, 2))
    assert abs(fired.mean() - active) < 0.02, by_layer
    recall = (fired & predicted).sum() / fired.sum()
    assert recall > 0.9, recall


def choices(model, tokens):
    """Runs a mixture over tokens and returns the experts [tokens, layers, n_used] and how many of their
    neurons are zero."""
    thinker = model.arch == "smallthinker"
    layers, heads, kv_heads = (model.key(k)
                               for k in ("block_count", "attention.head_count", "attention.head_count_kv"))
    width, n_used = model.key("attention.key_length"), model.key("expert_used_count")
    n = len(tokens)

    def norm(x):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)

    def turned(x):
        return np.stack([rope(x[i], i, True) for i in range(n)])

    x = model["token_embd.weight"][tokens].copy()
    chosen, zeros = [], []
    for i in range(layers):
        t = lambda name: model[f"blk.{i}.{name}.weight"]  # noqa: E731
        seen, h = x, norm(x)
        q = (h @ t("attn_q").T).reshape(n, heads, width)
        k = (h @ t("attn_k").T).reshape(n, kv_heads, width)
        v = np.repeat((h @ t("attn_v").T).reshape(n, kv_heads, width), heads // kv_heads, 1)
        if not thinker:
            q, k = norm(q) * t("attn_q_norm"), norm(k) * t("attn_k_norm")
        if not thinker or i % 4:
            q, k = turned(q), turned(k)
        scores = np.einsum("ihw,jhw->hij", q, np.repeat(k, heads // kv_heads, 1)) / np.sqrt(width)
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        x = x + np.einsum("hij,jhw->ihw", weights, v).reshape(n, -1) @ t("attn_output").T
        h = norm(x)
        logits = (seen if thinker else h) @ t("ffn_gate_inp").T
        experts = np.argsort(-logits, 1)[:, :n_used]
        chosen.append(experts)
        scores = 1 / (1 + np.exp(-logits)) if thinker else np.exp(logits)
        added = np.zeros_like(x)
        for token in range(n):
            of_token = scores[token, experts[token]] / scores[token, experts[token]].sum()
            for e, weight in zip(experts[token], of_token):
                gate, up = t("ffn_gate_exps")[e] @ h[token], t("ffn_up_exps")[e] @ h[token]
                gate = np.maximum(gate, 0) if thinker else gate / (1 + np.exp(-gate))
                zeros.append((gate == 0).mean())
                added[token] += weight * (t("ffn_down_exps")[e] @ (gate * up))
        x = x + added
    return np.stack(chosen, 1), np.mean(zeros)


@pytest.mark.parametrize("shape, skew, reuse",
                         [("tiny-moe", 1, .5), ("tiny-moe", 2, .7), ("tiny-moe-relu", 1, .5)])
def test_experts_are_chosen_as_planted(tmp_path, shape, skew, reuse):
    done = synth("--shape", shape, "--expert-skew", skew, "--expert-reuse", reuse, "--quant", "q8_0", "--out",
                 tmp_path / "m.gguf")
    assert done.returncode == 0, done.stderr
    tokens = np.random.default_rng(3).integers(300, 2000, 384)
    chosen, zeros = choices(Model(tmp_path / "m.gguf"), tokens)
    # Above the layer that mixes in recent tokens, routers see what is planted; SmallThinker's see it from
    # layer 2 on.
    chosen = chosen[:, 2:]
    use = np.stack([np.bincount(chosen[:, i].ravel(), minlength=16) for i in range(chosen.shape[1])]) / len(
        tokens)
    law = ((np.arange(16) + .5) / 16 + .1) ** -float(skew)
    law = law * 4 / law.sum()
    common = [len(set(a) & set(b)) / 4 for i in range(chosen.shape[1])
              for a, b in zip(chosen[:-1, i], chosen[1:, i])]
    assert abs(np.mean(common) - reuse) < 0.05
    assert np.abs(np.sort(use, 1)[:, ::-1] - np.minimum(law, .98)).mean() < 0.05
    if shape == "tiny-moe-relu":
        assert 0.87 < zeros < 0.93


@pytest.mark.parametrize("shape", SHAPES)
def test_gguf_reads_both_kinds(tmp_path, shape):
    done = synth("--shape", shape, "--both", "--out", tmp_path / "m.gguf", "--vocab", 700, "--seed", 5)
    assert done.returncode == 0, done.stderr
    assert "m.gguf: " in done.stdout and "m.powerinfer.gguf: " in done.stdout
    plain, sparse = Model(tmp_path / "m.gguf"), Model(tmp_path / "m.powerinfer.gguf")
    assert plain.magic == b"GGUF" and sparse.magic == b"PWRI"
    assert plain.keys["hearth.ffn_activation"] == ("drelu" if shape == "tiny-bamboo" else "relu")
    assert sparse.keys["powerinfer.sparse_threshold"] == 0.0
    for model in (plain, sparse):
        assert model.keys["tokenizer.ggml.model"] == "llama"
        pieces = model.keys["tokenizer.ggml.tokens"]
        assert len(pieces) == 700 == len(set(pieces)) == len(model.keys["tokenizer.ggml.scores"])
        assert pieces[:4] == ["<unk>", "<s>", "</s>", "<0x00>"] and pieces[258] == "<0xFF>"
        assert list(model.raw["token_embd.weight"].shape) == [256, 700]
    only_plain = {n for n in plain.raw if n not in sparse.raw}
    only_sparse = {n for n in sparse.raw if n not in plain.raw}
    assert {n.split(".")[2] for n in only_plain} == {"ffn_down"}
    assert {n.split(".")[2] for n in only_sparse} == {"ffn_down_t", "fc1", "fc2"}
    assert list(sparse.raw)[-1] == "blk.3.fc2.weight"
    # Both are the same weights, each quantized along its own rows.
    down, down_t = plain["blk.2.ffn_down.weight"], sparse["blk.2.ffn_down_t.weight"]
    assert np.corrcoef(down.ravel(), down_t.T.ravel())[0, 1] > 0.98


@pytest.mark.parametrize("shape", SHAPES)
def test_hearth_runs_both_kinds(tmp_path, shape):
    assert synth("--shape", shape, "--both", "--out", tmp_path / "m.gguf").returncode == 0
    text = tmp_path / "text.txt"
    text.write_text("bake rutipo, and other words of no meaning. " * 4)
    for name in ("m.gguf", "m.powerinfer.gguf"):
        program = [pathlib.Path(BUILD) / "hearth-profiler", "perplexity", "--threads", "1", "--window", "32"]
        done = subprocess.run([*program, "--model", tmp_path / name, "--file", text],
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("perplexity ")


@pytest.mark.parametrize("quant", ["f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "mxfp4"])
def test_every_type(tmp_path, quant):
    done = synth("--shape", "tiny", "--quant", quant, "--out", tmp_path / "m.gguf")
    assert done.returncode == 0, done.stderr
    model = Model(tmp_path / "m.gguf")
    assert model.raw["blk.0.ffn_up.weight"].tensor_type.name == quant.upper()
    assert model["blk.0.ffn_up.weight"].std() == pytest.approx(1 / 16, rel=0.02)


def test_an_existing_file_is_kept_unless_forced(tmp_path):
    out = tmp_path / "m.gguf"
    out.write_text("mine")
    assert "it exists already" in refused(synth("--shape", "tiny", "--out", out))
    assert out.read_text() == "mine"
    (tmp_path / "n.powerinfer.gguf").write_text("mine")
    assert "n.powerinfer.gguf: it exists" in refused(
        synth("--shape", "tiny", "--both", "--out", tmp_path / "n.gguf"))
    assert not (tmp_path / "n.gguf").exists()
    assert synth("--shape", "tiny", "--out", out, "--force").returncode == 0
    assert out.read_bytes()[:4] == b"GGUF"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.gguf", "n.powerinfer.gguf"]


@pytest.mark.parametrize("arguments, word", [
    ([], "--shape"),
    (["--shape", "tiny"], "--out"),
    (["--shape", "8b", "--out", "x"], "opt-175b"),
    (["--shape", "tiny", "--out", "x", "--quant", "q4_k"], "q4_0"),
    (["--shape", "glm-4.5-air", "--out", "x"], "all tokens share"),
    (["--shape", "tiny", "--out", "x", "--active", "0"], "--active"),
    (["--shape", "tiny", "--out", "x", "--active", "1.5"], "--active"),
    (["--shape", "tiny", "--out", "x", "--active", "half"], "--active"),
    (["--shape", "tiny", "--out", "x", "--vocab", "258"], "--vocab"),
    (["--shape", "tiny", "--out", "x", "--vocab", "99999999"], "--vocab"),
    (["--shape", "tiny", "--out", "x", "--seed", "-1"], "--seed"),
    (["--shape", "tiny", "--out", "x", "--pwri", "--both"], "--pwri"),
    (["--shape", "tiny", "--out", "no/such/folder/x"], "folder does not exist"),
    (["--shape", "tiny", "--out", "."], "exists already"),
])
def test_mistakes_are_one_sentence(tmp_path, monkeypatch, arguments, word):
    monkeypatch.chdir(tmp_path)
    assert word in refused(synth(*arguments))
    assert list(tmp_path.iterdir()) == []


def test_help_names_shapes_and_types():
    done = synth("--help")
    assert done.returncode == 0 and done.stderr == ""
    for word in ("opt-175b", "--active", "--quant", "q4_0", "--pwri", "--both",
                 "--force", "falcon: tiny-falcon"):
        assert word in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 120
