"""hearth-profiler quantize for its users: Python's gguf package writes the models and reads the results.

HEARTH_BUILD_DIR locates the program. Run by tests/run.sh.
"""
import os
import pathlib
import signal
import struct
import subprocess
import time

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf import quants

BUILD = os.environ.get("HEARTH_BUILD_DIR")
ROOT = pathlib.Path(__file__).resolve().parents[2]
RELU = ROOT / "tests" / "data" / "relu"
pytestmark = pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")
PLAIN = [Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.MXFP4]


def program(*arguments):
    return [str(pathlib.Path(BUILD) / "hearth-profiler"), *map(str, arguments)]


def run(*arguments, **more):
    return subprocess.run(program(*arguments), capture_output=True, text=True, timeout=120, **more)


def quantize(model, kind, out, *more):
    done = run("quantize", model, "--type", kind, "--out", out, *more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*arguments, **more):
    done = run("quantize", *arguments, **more)
    assert done.returncode == 2 and done.stdout == "", (done.returncode, done.stdout, done.stderr)
    assert done.stderr.count("\n") <= 2
    return done.stderr


def weights(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32) * np.float32(0.02)


def as_type(values, kind):
    return quants.quantize(values, kind) if kind != Type.F32 else values


def write(path, tensors, kind=Type.F16, arch="llama", **keys):
    """Writes a file of these matrices in one type; vectors are F32."""
    writer = gguf.GGUFWriter(path, arch)
    writer.add_uint32("llama.block_count", 1)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
    for name, value in keys.items():
        writer.add_uint16(name.replace("__", "."), value)
    for name, values in tensors.items():
        if values.ndim == 1:
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, as_type(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def read(path):
    data = bytearray(pathlib.Path(path).read_bytes())
    if data[:4] == b"PWRI":
        path = pathlib.Path(str(path) + ".copy")
        path.write_bytes(b"GGUF" + data[4:])
    reader = gguf.GGUFReader(path)
    return ({t.name: t for t in reader.tensors},
            {k: f.contents() for k, f in reader.fields.items() if k[:5] != "GGUF."})


def types(path):
    return {name: t.tensor_type for name, t in read(path)[0].items()}


def leftovers(folder):
    return [p.name for p in folder.iterdir() if "out" in p.name]


@pytest.mark.parametrize("source", [Type.F32, Type.F16, Type.BF16], ids=lambda t: t.name)
@pytest.mark.parametrize("kind", PLAIN, ids=lambda t: t.name)
def test_plain_types_have_the_bits_of_gguf(tmp_path, source, kind):
    name = "blk.0.ffn_up_exps.weight" if kind == Type.MXFP4 else "blk.0.attn_q.weight"
    values = weights(3, 40, 96)
    model = write(tmp_path / "m.gguf", {name: values, "blk.0.attn_norm.weight": weights(96)}, source)
    quantize(model, kind.name, tmp_path / "out.gguf")
    seen = quants.dequantize(as_type(values, source), source) if source != Type.F32 else values
    tensor = read(tmp_path / "out.gguf")[0][name]
    assert tensor.tensor_type == kind and list(tensor.shape) == [96, 40, 3]
    assert tensor.data.tobytes() == quants.quantize(seen, kind).tobytes()


# The bounds are those of tests/kernels/test_quantize_oracle.py.
@pytest.mark.parametrize("kind,bound", [("Q4_K", 0.0708), ("Q5_K_S", 0.0350), ("Q6_K", 0.0175)])
def test_searched_types_are_close_and_the_same_with_any_threads(tmp_path, kind, bound):
    values = weights(300, 512)
    model = write(tmp_path / "m.gguf", {"blk.0.attn_q.weight": values, "output.weight": weights(3, 512)},
                  Type.F32)
    files = []
    for threads in (1, 2, 5):
        quantize(model, kind, tmp_path / f"out{threads}.gguf", "--threads", threads)
        files.append((tmp_path / f"out{threads}.gguf").read_bytes())
    assert files[0] == files[1] == files[2]
    tensor = read(tmp_path / "out1.gguf")[0]["blk.0.attn_q.weight"]
    back = quants.dequantize(tensor.data, tensor.tensor_type)
    assert np.sqrt(np.mean((back - values) ** 2) / np.mean(values ** 2)) < bound


def llama(n_layers, d=256, experts=0):
    tensors = {"token_embd.weight": weights(4, d), "output.weight": weights(4, d),
               "output_norm.weight": weights(d)}
    for i in range(n_layers):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
            stack = experts if name.startswith("ffn") else 0
            tensors[f"blk.{i}.{name}{'_exps' if stack else ''}.weight"] = weights(
                *([stack] if stack else []), 4, d)
        tensors[f"blk.{i}.attn_norm.weight"] = weights(d)
        if experts:
            tensors[f"blk.{i}.ffn_gate_inp.weight"] = weights(experts, d)
            tensors[f"blk.{i}.ffn_gate_exps.bias"] = weights(experts, d)
    return tensors


# Layers with more bits, as llama.cpp's quantizer chooses them.
RICH = {8: [0, 3, 6, 7], 16: [0, 1, 4, 7, 10, 13, 14, 15]}


@pytest.mark.parametrize("n_layers", RICH)
def test_a_medium_mix_gives_some_layers_more(tmp_path, n_layers):
    model = write(tmp_path / "m.gguf", llama(n_layers))
    quantize(model, "q4_k", tmp_path / "out.gguf")
    found = types(tmp_path / "out.gguf")
    for i in range(n_layers):
        rich = Type.Q6_K if i in RICH[n_layers] else Type.Q4_K
        assert found[f"blk.{i}.attn_v.weight"] == found[f"blk.{i}.ffn_down.weight"] == rich, i
        assert found[f"blk.{i}.attn_q.weight"] == found[f"blk.{i}.ffn_gate.weight"] == Type.Q4_K
        assert found[f"blk.{i}.attn_norm.weight"] == Type.F32
    assert found["output.weight"] == Type.Q6_K and found["token_embd.weight"] == Type.Q4_K


@pytest.mark.parametrize("kind,expected", [
    ("Q8_0", {"attn_q": "Q8_0", "output": "Q8_0"}), ("Q6_K", {"attn_q": "Q6_K", "output": "Q6_K"}),
    ("Q4_K_S", {"attn_q": "Q4_K", "attn_v": "Q5_K", "ffn_down": "Q5_K", "output": "Q6_K"}),
    ("Q4_0", {"attn_q": "Q4_0", "ffn_down": "Q4_0", "output": "Q6_K"}),
    ("MXFP4", {"attn_q": "Q8_0", "ffn_up": "MXFP4", "output": "Q8_0"})])
def test_other_mixes(tmp_path, kind, expected):
    quantize(write(tmp_path / "m.gguf", llama(8)), kind, tmp_path / "out.gguf")
    found = types(tmp_path / "out.gguf")
    for name, wanted in expected.items():
        where = f"{name}.weight" if name == "output" else f"blk.0.{name}.weight"
        assert found[where].name == wanted


def test_a_mixture_keeps_routers_and_gives_attention_more(tmp_path):
    quantize(write(tmp_path / "m.gguf", llama(8, experts=4)), "Q4_K_M", tmp_path / "out.gguf")
    tensors, _ = read(tmp_path / "out.gguf")
    found = {name: t.tensor_type.name for name, t in tensors.items()}
    assert found["blk.1.ffn_gate_inp.weight"] == "F16" and found["blk.1.ffn_gate_exps.bias"] == "F16"
    assert found["blk.1.attn_v.weight"] == found["blk.1.attn_k.weight"] == "Q8_0"
    assert found["blk.1.ffn_up_exps.weight"] == "Q4_K" and found["blk.0.ffn_down_exps.weight"] == "Q6_K"
    assert list(tensors["blk.1.ffn_up_exps.weight"].shape) == [256, 4, 4]


def test_a_tied_embedding_is_quantized_like_the_output(tmp_path):
    tensors = llama(1)
    del tensors["output.weight"]
    quantize(write(tmp_path / "m.gguf", tensors), "Q4_K_M", tmp_path / "out.gguf")
    assert types(tmp_path / "out.gguf")["token_embd.weight"] == Type.Q6_K


def test_rows_of_partial_blocks_get_another_type_and_a_message(tmp_path):
    model = write(tmp_path / "m.gguf",
                  {"blk.0.attn_q.weight": weights(4, 96), "blk.1.attn_q.weight": weights(4, 96),
                   "blk.0.attn_k.weight": weights(4, 40), "output.weight": weights(4, 96)}, Type.F32)
    text = quantize(model, "Q4_K", tmp_path / "out.gguf")
    found = types(tmp_path / "out.gguf")
    assert found["blk.0.attn_q.weight"] == Type.Q5_0 and found["output.weight"] == Type.Q8_0
    assert found["blk.0.attn_k.weight"] == Type.F16
    assert ("Q5_0 instead of Q4_K: blk.*.attn_q.weight of 2 tensors, whose rows of 96 weights are "
            "not a multiple of 256" in text)
    assert "F16 instead of Q4_K: blk.*.attn_k.weight" in text


def test_keys_are_kept_and_describe_the_new_file(tmp_path):
    model = write(tmp_path / "m.gguf", llama(1), general__file_type=1, general__odd=7)
    quantize(model, "Q4_K_M", tmp_path / "out.gguf")
    _, before = read(model)
    _, after = read(tmp_path / "out.gguf")
    assert after.pop("general.file_type") == gguf.LlamaFileType.MOSTLY_Q4_K_M
    assert after.pop("general.quantization_version") == gguf.GGML_QUANT_VERSION
    del before["general.file_type"]
    assert after == before and list(after) == list(before)


def test_a_split_model_becomes_one_file(tmp_path):
    tensors = llama(2)
    whole = write(tmp_path / "m.gguf", tensors)
    writer = gguf.GGUFWriter(tmp_path / "s.gguf", "llama", split_max_tensors=9)
    writer.add_uint32("llama.block_count", 1)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
    for name, values in tensors.items():
        vector = values.ndim == 1
        writer.add_tensor(name, values if vector else as_type(values, Type.F16),
                          raw_dtype=None if vector else Type.F16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    parts = sorted(tmp_path.glob("s-0*.gguf"))
    assert len(parts) > 1
    quantize(whole, "Q4_K", tmp_path / "whole-out.gguf")
    quantize(parts[1], "Q4_K", tmp_path / "split-out.gguf")
    assert (tmp_path / "whole-out.gguf").read_bytes() == (tmp_path / "split-out.gguf").read_bytes()


def test_a_quantized_model_is_refused_unless_requested(tmp_path):
    values = weights(4, 256)
    model = write(tmp_path / "m.gguf", {"blk.0.attn_q.weight": values, "output.weight": values}, Type.Q5_0)
    error = refused(model, "--type", "Q4_0", "--out", tmp_path / "out.gguf")
    assert "1 of its tensors are already quantized" in error and "--requantize" in error
    quantize(model, "Q4_0", tmp_path / "out.gguf", "--requantize")
    found = read(tmp_path / "out.gguf")[0]
    seen = quants.dequantize(quants.quantize(values, Type.Q5_0), Type.Q5_0)
    assert found["blk.0.attn_q.weight"].data.tobytes() == quants.quantize(seen, Type.Q4_0).tobytes()
    # More bits would restore nothing, so the tensor stays as it is.
    assert found["output.weight"].data.tobytes() == quants.quantize(values, Type.Q5_0).tobytes()
    assert "there is nothing to do" in refused(model, "--type", "Q8_0", "--out", tmp_path / "o2.gguf",
                                               "--requantize")


@pytest.mark.parametrize("bad,words",
                         [(np.nan, "no number (NaN)"), (np.inf, "infinite"), (-np.inf, "infinite"),
                          (70000.0, "70000")])
def test_weights_that_no_type_can_hold_are_refused(tmp_path, bad, words):
    values = weights(9, 256)
    values[5, 7] = bad
    model = write(tmp_path / "m.gguf", {"blk.0.attn_q.weight": values}, Type.F32)
    for kind in ("Q4_0", "Q4_K"):
        error = refused(model, "--type", kind, "--out", tmp_path / "out.gguf")
        assert "row 5, column 7" in error and words in error and "blk.0.attn_q.weight" in error
    assert leftovers(tmp_path) == []


def test_zeros_and_denormal_weights_are_quantized(tmp_path):
    values = np.zeros((4, 256), np.float32)
    values[1] = 1e-42
    values[2, 3] = np.float32(1e-30)
    for kind in ("Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0"):
        model = write(tmp_path / "m.gguf", {"blk.0.attn_q.weight": values}, Type.F32)
        quantize(model, kind, tmp_path / "out.gguf", "--force")
        tensor = read(tmp_path / "out.gguf")[0]["blk.0.attn_q.weight"]
        assert np.abs(quants.dequantize(tensor.data, tensor.tensor_type)).max() < 1e-29


def test_mistakes_get_one_sentence(tmp_path):
    model = write(tmp_path / "m.gguf", llama(1))
    out = tmp_path / "out.gguf"
    out.write_text("mine")
    assert "--force" in refused(model, "--type", "Q4_K", "--out", out)
    assert out.read_text() == "mine"
    assert "it is the model itself" in refused(model, "--type", "Q4_K", "--out", model, "--force")
    assert "Did you mean Q4_K_M" in refused(model, "--type", "Q4_KM", "--out", out)
    assert "--out is missing" in refused(model, "--type", "Q4_K")
    assert "no such file" in refused(tmp_path / "none.gguf", "--type", "Q4_K", "--out", tmp_path / "o2.gguf")
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(model.read_bytes()[:-5000])
    refused(damaged, "--type", "Q4_K", "--out", tmp_path / "o2.gguf")
    assert not (tmp_path / "o2.gguf").exists()
    dry = run("quantize", model, "--type", "Q4_K", "--dry-run")
    assert dry.returncode == 0 and "bits a weight" in dry.stdout


def test_a_full_disk_leaves_nothing(tmp_path):
    model = write(tmp_path / "m.gguf", {"blk.0.attn_q.weight": weights(64, 4096)}, Type.F32)
    limit = ("ulimit -f 64; exec "
             f"{' '.join(program('quantize', model, '--type', 'Q8_0', '--out', tmp_path / 'out.gguf'))}")
    done = subprocess.run(["bash", "-c", limit], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "writing stopped" in done.stderr
    assert leftovers(tmp_path) == []


def test_ctrl_c_leaves_nothing(tmp_path):
    # Takes one thread some seconds; the signal comes when the file has been started.
    values = np.tile(weights(8, 8192), (512, 1))
    model = write(tmp_path / "m.gguf", {"blk.0.attn_q.weight": values}, Type.F32)
    process = subprocess.Popen(program("quantize", model, "--type", "Q4_K", "--out", tmp_path / "out.gguf",
                                       "--threads", 1),
                               stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not leftovers(tmp_path):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and "the unfinished file is removed" in error
    assert leftovers(tmp_path) == []


def old_importance(entries):
    data = struct.pack("<i", len(entries))
    for name, runs, values in entries:
        data += struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", runs, len(values))
        data += np.asarray(values, np.float32).tobytes()
    return data + struct.pack("<ii", 9, 4) + b"text"


def new_importance(path, name, sums, counts):
    writer = gguf.GGUFWriter(path, "imatrix")
    writer.add_tensor(name + ".in_sum2", sums)
    writer.add_tensor(name + ".counts", counts)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_K"])
def test_importance_matrices_of_both_kinds(tmp_path, kind):
    name, values = "blk.0.ffn_up_exps.weight", weights(2, 32, 256)
    model = write(tmp_path / "m.gguf", {name: values, "output.weight": weights(4, 256)}, Type.F32)
    columns = np.ones((2, 256), np.float32)
    columns[0, ::4], columns[1, 1::4] = 100, 100
    old = tmp_path / "old.dat"
    old.write_bytes(old_importance([(name, 4, (columns * 4).ravel()), ("not.there", 1, [1.0])]))
    new = new_importance(tmp_path / "new.gguf", name, columns * np.float32(8), np.full((2, 1), 8, np.float32))
    plain, first, second = (tmp_path / f"out{i}.gguf" for i in range(3))
    quantize(model, kind, plain)
    assert "importance of 1 tensors" in quantize(model, kind, first, "--importance", old)
    quantize(model, kind, second, "--importance", new)
    assert first.read_bytes() == second.read_bytes() != plain.read_bytes()

    def errors(path):
        tensor = read(path)[0][name]
        square = (quants.dequantize(tensor.data, tensor.tensor_type) - values) ** 2
        return square[0, :, ::4].mean() + square[1, :, 1::4].mean()
    assert errors(first) < 0.9 * errors(plain)


def test_importance_of_another_model_is_refused(tmp_path):
    name = "blk.0.attn_q.weight"
    model = write(tmp_path / "m.gguf", {name: weights(4, 256)}, Type.F32)
    file = tmp_path / "i.dat"

    def error(data):
        file.write_bytes(data)
        return refused(model, "--type", "Q4_K", "--out", tmp_path / "out.gguf", "--importance", file)
    good = old_importance([(name, 4, np.ones(256))])
    assert "has 255 values, expected 256" in error(old_importance([(name, 4, np.ones(255))]))
    assert "it names no tensor" in error(old_importance([("other", 4, np.ones(256))]))
    assert "negative or not a number" in error(old_importance([(name, 4, np.full(256, -1))]))
    assert "negative or not a number" in error(old_importance([(name, 4, np.full(256, np.nan))]))
    for cut in (1, 3, 6, 20, 40, 500):
        error(good[:cut])
    assert leftovers(tmp_path) == []


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(
        (ROOT / "profiler" / "activity" / "prompts" / "held-out" / "mixed.txt").read_bytes()[:3000])
    return path


def perplexity(model, text):
    done = run("perplexity", "--model", model, "--file", text, "--window", 128, "--threads", 1)
    assert done.returncode == 0, done.stderr
    return float(done.stdout.split()[1])


def test_a_quantized_real_model_gives_nearly_the_same_probabilities(tmp_path, text):
    model = RELU / "relu-5m-q8_0.gguf"
    original = perplexity(model, text)
    for kind, bound in (("Q6_K", 1.01), ("Q4_K", 1.08)):
        quantize(model, kind, tmp_path / f"{kind}.gguf", "--requantize")
        assert original * 0.98 < perplexity(tmp_path / f"{kind}.gguf", text) < original * bound, kind


def test_activity_weighs_the_down_projections(tmp_path, text):
    model = tmp_path / "m.gguf"
    model.write_bytes((RELU / "relu-5m-q8_0.gguf").read_bytes())
    activity = tmp_path / "a.activity"
    counted = run("count", "--model", model, "--text", text, "--no-prompts", "--generate", 0, "--threads", 1,
                  "--out", activity)
    assert counted.returncode == 0, counted.stderr
    quantize(model, "Q4_K", tmp_path / "plain-out.gguf", "--requantize")
    said = quantize(model, "Q4_K", tmp_path / "out.gguf", "--requantize", "--importance", activity)
    assert "activity of 4 down projections" in said
    plain, weighted = read(tmp_path / "plain-out.gguf")[0], read(tmp_path / "out.gguf")[0]
    changed = {name
               for name, tensor in plain.items() if tensor.data.tobytes() != weighted[name].data.tobytes()}
    assert changed == {f"blk.{i}.ffn_down.weight" for i in range(4)}
    other = write(tmp_path / "other.gguf", llama(1))
    assert refused(other, "--type", "Q4_K", "--out", tmp_path / "o2.gguf", "--importance", activity)


def test_powerinfer_files_stay_what_they_are(tmp_path):
    made = run("synth", "--shape", "tiny", "--quant", "f16", "--both", "--out", tmp_path / "m.gguf")
    assert made.returncode == 0, made.stderr
    sparse = tmp_path / "m.powerinfer.gguf"
    quantize(sparse, "Q4_0", tmp_path / "out.gguf")
    assert (tmp_path / "out.gguf").read_bytes()[:4] == b"PWRI"
    found = types(tmp_path / "out.gguf")
    assert found["blk.0.fc1.weight"] == Type.Q8_0 and found["blk.0.ffn_down_t.weight"] == Type.Q4_0
