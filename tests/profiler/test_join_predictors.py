"""hearth-profiler join-predictors: PowerInfer's predictors and a dense model become a file of PowerInfer's
kind.

Python's own pickler writes the state dicts, with stand-ins for the names of torch, which is not installed
here; the same bytes were compared with PyTorch's. HEARTH_BUILD_DIR locates the program. Run by tests/run.sh.
"""
import collections
import io
import json
import os
import pathlib
import pickle
import subprocess
import zipfile

import numpy as np
import pytest

from test_quantize import run
from test_synth import Model

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARCH = ROOT / "tests" / "data" / "arch"
pytestmark = pytest.mark.skipif(not os.environ.get("HEARTH_BUILD_DIR"), reason="HEARTH_BUILD_DIR is not set")


class Storage:
    def __init__(self, kind, key, values):
        self.kind, self.key, self.values = kind, key, values


class Global:
    """Pickles as the name of something in a module that need not exist here."""

    def __init__(self, module, name):
        self.module, self.name = module, name


class Tensor:
    def __init__(self, storage, shape, strides, offset=0):
        self.storage, self.shape, self.strides, self.offset = storage, shape, strides, offset


class Pickler(pickle._Pickler):
    dispatch = pickle._Pickler.dispatch.copy()

    def save_global_name(self, obj):
        self.write(b"c" + f"{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    def save_tensor(self, obj):
        self.save(Global("torch._utils", "_rebuild_tensor_v2"))
        self.save((obj.storage, obj.offset, obj.shape, obj.strides, False, collections.OrderedDict()))
        self.write(b"R")
        self.memoize(obj)

    def persistent_id(self, obj):
        if not isinstance(obj, Storage):
            return None
        return ("storage", Global("torch", obj.kind), obj.key, "cpu", obj.values.size)

    dispatch[Global] = save_global_name
    dispatch[Tensor] = save_tensor


class State(collections.OrderedDict):
    """Reduces like a state dict of torch: an OrderedDict with its items, and _metadata as an attribute."""

    def __reduce__(self):
        metadata = collections.OrderedDict([("", {"version": 1}), ("fc1", {"version": 1})])
        return collections.OrderedDict, (), {"_metadata": metadata}, None, iter(self.items())


KINDS = {np.float16: "HalfStorage", np.float32: "FloatStorage"}


def save(path, tensors, turned=False):
    """tensors: names to matrices. Writes them like torch.save(module.state_dict(), path)."""
    state, storages = State(), []
    for name, values in tensors.items():
        storage = Storage(KINDS[values.dtype.type], str(len(storages)), values.T.copy() if turned else values)
        strides = (1, values.shape[0]) if turned else (*values.shape[1:], 1)
        state[name] = Tensor(storage, values.shape, strides)
        storages.append(storage)
    stream = io.BytesIO()
    Pickler(stream, protocol=2).dump(state)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("state/data.pkl", stream.getvalue())
        archive.writestr("state/byteorder", "little")
        for storage in storages:
            archive.writestr(f"state/data/{storage.key}", storage.values.tobytes())
    return path


def predictors_of(model):
    """The predictors in a PowerInfer file, one dict per layer."""
    layers = []
    while f"blk.{len(layers)}.fc1.weight" in model.raw:
        layers.append({f"fc{k}.weight": model[f"blk.{len(layers)}.fc{k}.weight"].astype(np.float16)
                       for k in (1, 2)})
    return layers


def folder_of(path, layers, threshold=None, **more):
    path.mkdir()
    for i, layer in enumerate(layers):
        save(path / f"model_{i}.pt", layer, **more)
    if threshold is not None:
        (path / "config.json").write_text(json.dumps({"model_type": "x", "sparse_threshold": threshold}))
    return path


def copied(path, to):
    to.write_bytes(path.read_bytes())
    return to


# make_sparse_models.py made each file of tests/data/arch/ like PowerInfer's converters do.
@pytest.mark.parametrize("name", ["relu-llama", "bamboo", "opt", "falcon-7b"])
@pytest.mark.parametrize("turned", [False, True])
def test_the_file_is_what_powerinfer_makes(tmp_path, name, turned):
    expected = Model(copied(ARCH / f"{name}.powerinfer.gguf", tmp_path / "expected.gguf"))
    threshold = float(expected.keys["powerinfer.sparse_threshold"])
    folder = folder_of(tmp_path / "p", predictors_of(expected), threshold, turned=turned)
    out = tmp_path / "out.powerinfer.gguf"
    done = run("join-predictors", ARCH / f"{name}.gguf", "--predictors", folder,
               "--out", out, "--predictor-type", "f16",
               "--ffn-activation", "drelu" if name == "bamboo" else "relu")
    assert done.returncode == 0, done.stderr
    joined = Model(out)
    assert joined.magic == b"PWRI"
    assert set(joined.raw) - {"output.weight"} == set(expected.raw) - {"output.weight"}
    assert [n for n in joined.raw if ".fc" in n] == list(joined.raw)[-2 * len(predictors_of(expected)):]
    for tensor, made in joined.raw.items():
        if tensor not in expected.raw:
            continue  # it has an output of its own where the dense model's is tied
        assert list(made.shape) == list(expected.raw[tensor].shape), tensor
        if ".fc" in tensor:
            assert np.array_equal(joined[tensor],
                                  expected[tensor].astype(np.float16).astype(np.float32)), tensor
        else:  # the same weights, quantized to another type in each file
            off = np.sqrt(np.mean((joined[tensor] - expected[tensor]) ** 2) / np.mean(expected[tensor] ** 2))
            assert off < 0.15, (tensor, off)
    assert joined.keys["powerinfer.sparse_threshold"] == pytest.approx(threshold)


def test_the_predicted_mode_gives_the_same_text_with_joined_predictors(tmp_path):
    relu = ROOT / "tests" / "data" / "relu"
    original = relu / "relu-5m-q4_0.powerinfer.gguf"
    layers = predictors_of(Model(copied(original, tmp_path / "original.gguf")))
    out = tmp_path / "out.powerinfer.gguf"
    done = run("join-predictors", relu / "relu-5m-q8_0.gguf",
               "--predictors", folder_of(tmp_path / "p", layers), "--out", out)
    assert done.returncode == 0, done.stderr
    assert "4 layers with predictors of rank 64 to 96, proposed from 0 on" in done.stdout
    text = tmp_path / "text.txt"
    text.write_bytes(
        (ROOT / "profiler" / "activity" / "prompts" / "held-out" / "mixed.txt").read_bytes()[:2000])
    results = []
    for model in (out, original):
        scored = run("perplexity", "--model", model, "--file", text, "--window", 128,
                     "--sparsity", "predicted", "--threads", 1)
        assert scored.returncode == 0 and "predicted" in scored.stdout, (scored.stdout, scored.stderr)
        results.append(float(scored.stdout.split()[1]))
    assert abs(results[0] / results[1] - 1) < 0.05  # Q8_0 compared with Q4_0


def test_mistakes_get_one_sentence(tmp_path):
    layers = predictors_of(Model(copied(ARCH / "relu-llama.powerinfer.gguf", tmp_path / "m.gguf")))
    model, out = ARCH / "relu-llama.gguf", tmp_path / "out.gguf"

    def refused(predictors, of=model, *more):
        done = run("join-predictors", of, "--predictors", predictors, "--out", out, *more)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, (done.stdout, done.stderr)
        assert not out.exists() and not list(tmp_path.glob("*.part"))
        return done.stderr
    assert "no such folder" in refused(tmp_path / "none")
    assert "model_1.pt: there is no such file" in refused(folder_of(tmp_path / "short", layers[:1]))
    assert "belongs to another model" in refused(folder_of(tmp_path / "long", layers + layers[:1]))
    narrow = [{**layer, "fc1.weight": layer["fc1.weight"][:, :-1]} for layer in layers]
    assert "belongs to another model" in refused(folder_of(tmp_path / "narrow", narrow))
    nameless = [{"fc1.weight": layer["fc1.weight"]} for layer in layers]
    assert 'no tensor "fc2.weight"' in refused(folder_of(tmp_path / "nameless", nameless))
    biased = [{**layer, "fc1.bias": np.zeros(4, np.float16)} for layer in layers]
    assert "expected two" in refused(folder_of(tmp_path / "biased", biased))
    infinite = [{**layer, "fc2.weight": np.full_like(layer["fc2.weight"], np.inf)} for layer in layers]
    assert "not a finite number" in refused(folder_of(tmp_path / "infinite", infinite))
    good = folder_of(tmp_path / "good", layers, threshold="high")
    assert 'sparse_threshold is "high", expected a number' in refused(good)
    (good / "config.json").write_text('{"sparse_threshold": [0.5]}')
    assert 'sparse_threshold is "[0.5]", expected a number' in refused(good)
    # recursive printing would overflow the stack
    deep = '{"sparse_threshold": ' + "[" * 400_000 + "]" * 400_000 + "}"
    (good / "config.json").write_text(deep)
    assert "it is not a JSON object" in refused(good)
    (good / "config.json").unlink()
    assert "has predictors, expected the dense model" in refused(good, ARCH / "relu-llama.powerinfer.gguf")
    assert "--ffn-activation" in refused(good, ARCH / "llama.gguf")
    whole = (good / "model_1.pt").read_bytes()
    for cut in (0, 3, 60, len(whole) // 2, len(whole) - 5):
        (good / "model_1.pt").write_bytes(whole[:cut])
        refused(good)
