"""Shared by tests of `hearth-profiler convert`: runs it, reads what it wrote, and provides checkpoints to
change."""
import dataclasses
import json
import os
import pathlib
import shutil
import struct
import subprocess

import gguf
import numpy as np

BUILD = os.environ.get("HEARTH_BUILD_DIR")
CHECKPOINTS = pathlib.Path(__file__).resolve().parents[1] / "data/checkpoints"
# Keys that the files of tests/data/arch lack, or whose values differ there: names, and keys that only
# complete converters write.
OTHERWISE = {"general.type", "general.name", "general.quantization_version",
             "tokenizer.ggml.pre", "general.file_type",
             "tokenizer.ggml.padding_token_id", "tokenizer.ggml.unknown_token_id", "GGUF.kv_count"}
# Such keys of some models: the script gives all encoders BERT's vocabulary, which has two types of tokens;
# torch rounds quantiles otherwise; a key has no meaning; files of models with indexers have a longer context.
OTHERWISE_IN = {"modern-bert": "tokenizer.ggml.token_type_count",
                "jina-bert-v3": "tokenizer.ggml.token_type_count",
                "deepseek32": "deepseek32.context_length",
                "glm-dsa": "glm-dsa.context_length",
                "gemma3n": "gemma3n.activation_sparsity_scale",
                "kimi-linear": "kimi-linear.attention.value_length"}
TYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "U8": "u1", "F8_E4M3": "u1", "I32": "<i4"}


def convert(folder, out, *arguments):
    program = [str(pathlib.Path(BUILD) / "hearth-profiler"), "convert", str(folder), "--out", str(out),
               *arguments]
    return subprocess.run(program, capture_output=True, text=True, timeout=120)


def refused(done):
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == "" and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@dataclasses.dataclass
class Contents:
    keys: dict
    tensors: dict


def contents(path):
    reader = gguf.GGUFReader(path)
    return Contents({name: field.contents() for name, field in reader.fields.items()},
                    {t.name: t for t in reader.tensors})


def assert_same_file(made, wanted, by_value=False):
    """Asserts that two files have equal tensors, bit for bit (by_value: after dequantizing), and equal keys
    except for OTHERWISE and OTHERWISE_IN. Returns the keys that only the first has."""
    made, wanted = contents(made), contents(wanted)
    assert sorted(made.tensors) == sorted(wanted.tensors)
    for name, tensor in wanted.tensors.items():
        other = made.tensors[name]
        assert list(other.shape) == list(tensor.shape), (name, other.shape, tensor.shape)
        if by_value:
            values = [gguf.quants.dequantize(t.data, t.tensor_type) for t in (other, tensor)]
            assert np.array_equal(*values), name
            continue
        if name.endswith(".ssm_a"):  # -e^x, which torch may round otherwise
            assert np.allclose(other.data, tensor.data, rtol=1e-6, atol=0), name
            continue
        assert other.tensor_type == tensor.tensor_type, (name, other.tensor_type, tensor.tensor_type)
        assert other.data.tobytes() == tensor.data.tobytes(), name
    skipped = OTHERWISE | {OTHERWISE_IN.get(wanted.keys["general.architecture"])}
    wrong = {name: (made.keys.get(name), value) for name, value in wanted.keys.items()
             if made.keys.get(name) != value and name not in skipped}
    assert wrong == {}
    arch = wanted.keys["general.architecture"]
    more = {name: value
            for name, value in made.keys.items() if name not in wanted.keys and name not in skipped}
    return {name.removeprefix(arch + "."): value for name, value in more.items()}


class Checkpoint:
    """A checkpoint's tensors and config.json, which can be changed and written as one file."""

    def __init__(self, folder):
        self.folder = folder
        self.config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.tensors = {}
        for path in sorted(folder.glob("*.safetensors")):
            data = path.read_bytes()
            length = struct.unpack("<Q", data[:8])[0]
            for name, entry in json.loads(data[8:8 + length]).items():
                if name != "__metadata__":
                    begin, end = (8 + length + at for at in entry["data_offsets"])
                    self.tensors[name] = (
                        entry["dtype"],
                        np.frombuffer(data[begin:end], TYPES[entry["dtype"]]).reshape(entry["shape"]))

    @classmethod
    def copy_of(cls, source, folder):
        shutil.copytree(source, folder)
        return cls(folder)

    def change(self, change, kind):
        """Changes every tensor and its type (a function of the name, or one type for all), and writes the
        checkpoint."""
        self.tensors = {name: (kind(name) if callable(kind) else kind, change(name, data))
                        for name, (_, data) in self.tensors.items()}
        self.write()

    def write(self):
        for old in self.folder.glob("*.safetensors*"):
            old.unlink()
        header, data = {}, b""
        for name, (kind, values) in self.tensors.items():
            raw = np.ascontiguousarray(values).astype(TYPES[kind]).tobytes()
            header[name] = {"dtype": kind, "shape": list(values.shape),
                            "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
        text = json.dumps(header).encode()
        (self.folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
        (self.folder / "config.json").write_text(json.dumps(self.config), encoding="utf-8")
