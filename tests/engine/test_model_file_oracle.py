"""ModelFile compared with Python's gguf package: it reads what the package writes, and reads the same as the
package.

The C++ side is the program gguf_dump, found through HEARTH_BUILD_DIR. Run by tests/run.sh.
"""
import os
import pathlib
import subprocess

import gguf
import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ.get("HEARTH_BUILD_DIR")
pytestmark = pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")


def dump(path):
    done = subprocess.run([pathlib.Path(BUILD) / "tests/gguf_dump", path], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    keys, tensors = {}, {}
    for line in done.stdout.splitlines():
        kind, name, *rest = line.split(" ")
        (keys if kind == "key" else tensors)[text_of(name)] = rest
    return keys, tensors


def text_of(word):
    assert word[0] == "x"
    return bytes.fromhex(word[1:]).decode()


def value_of(rest):
    """The Python value of a dumped key: (type, value)."""
    kind, words = rest[0], rest[1:]
    element = kind.removeprefix("array:")
    if element == "string":
        values = [text_of(word) for word in words]
    elif element.startswith("float"):
        values = [float.fromhex(word) for word in words]
    elif element == "bool":
        values = [bool(int(word)) for word in words]
    else:
        values = [int(word) for word in words]
    return kind, values if kind.startswith("array:") else values[0]


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in bytes(data):
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


SCALARS = [
    ("uint8", 200), ("int8", -100), ("uint16", 60000), ("int16", -30000), ("uint32", 4000000000),
    ("int32", -2000000000), ("uint64", 2**63 - 1), ("int64", -(2**63)), ("float32", 0.5), ("float64", 0.1),
    ("bool", True), ("bool", False), ("string", "h\u00e9llo \u2581 \U0001f600"), ("string", "x"),
]
ARRAYS = [
    ("array:int32", [1, -2, 3]), ("array:float32", [0.5, -1.5]), ("array:bool", [True, False]),
    ("array:string", ["<s>", "\u2581the", "\n", "a" * 300]),
]


@pytest.mark.parametrize("alignment", [None, 64])
def test_reads_what_the_writer_writes(tmp_path, alignment):
    path = tmp_path / "written.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    if alignment:
        writer.add_custom_alignment(alignment)
    expected = {"general.architecture": ("string", "llama")}
    if alignment:
        expected["general.alignment"] = ("uint32", alignment)
    for i, (kind, value) in enumerate(SCALARS):
        getattr(writer, "add_" + kind)(f"scalar.{i}", value)
        expected[f"scalar.{i}"] = (kind, value)
    for i, (kind, values) in enumerate(ARRAYS):
        writer.add_array(f"array.{i}", values)
        expected[f"array.{i}"] = (kind, values)

    random = numpy.random.default_rng(7)
    tensors = {}
    for name, shape, kind in [("a.f32", (3, 5), "F32"), ("b.f16", (7,), "F16"), ("c.q8_0", (2, 64), "Q8_0"),
                              ("d.q4_1", (2, 3, 32), "Q4_1"), ("e.bf16", (1, 2, 3, 4), "BF16"),
                              ("f.q5_0", (1, 32), "Q5_0")]:
        values = random.standard_normal(shape, dtype=numpy.float32)
        kind = gguf.GGMLQuantizationType[kind]
        data = gguf.quants.quantize(values, kind)
        raw = None if kind.name in ("F32", "F16") else kind
        writer.add_tensor(name, data, raw_dtype=raw)
        tensors[name] = [kind.name, "[" + ",".join(str(n) for n in reversed(shape)) + "]", str(data.nbytes),
                         fnv1a(data.tobytes())]
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    keys, found = dump(path)
    assert {name: value_of(rest) for name, rest in keys.items()} == expected
    assert found == tensors


def test_reads_the_splits_the_writer_writes(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama", split_max_tensors=2)
    for i in range(5):
        writer.add_tensor(f"t{i}", numpy.full((4,), i, dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    parts = sorted(tmp_path.glob("*.gguf"))
    assert [part.name for part in parts] == [f"model-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    for part in parts:
        keys, tensors = dump(part)
        assert value_of(keys["general.architecture"]) == ("string", "llama")
        assert list(tensors) == [f"t{i}" for i in range(5)]
        assert tensors["t4"][-1] == fnv1a(numpy.full((4,), 4, dtype=numpy.float32).tobytes())


def real_files():
    """The committed model, the default one, and the vocabularies beside the clone; tests of missing files are
    skipped."""
    vocabularies = sorted((ROOT.parent / "shared/tokenizers").glob("*.gguf"),
                          key=lambda path: path.stat().st_size)
    default = pathlib.Path(os.environ.get("HEARTH_TEST_MODEL", "HEARTH_TEST_MODEL is not set"))
    files = [pytest.param(path, id=path.name)
             for path in [ROOT / "tests/data/relu/relu-5m-q8_0.gguf", *vocabularies[:1]]]
    # The package's reader takes ten seconds for each.
    files += [pytest.param(path, id=path.name, marks=pytest.mark.nightly) for path in vocabularies[1:]]
    files.append(pytest.param(default, id="default model", marks=pytest.mark.skipif(
        not default.exists(), reason=f"{default}: no default model; server/fetch-model.sh fetches it")))
    if not vocabularies:
        files.append(pytest.param(None, id="vocabularies",
                                  marks=pytest.mark.skip(reason="../shared/tokenizers is missing")))
    return files


@pytest.mark.parametrize("path", real_files())
def test_reads_real_files_as_the_reader_does(path):
    reader = gguf.GGUFReader(path)
    keys, tensors = dump(path)
    fields = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    assert list(keys) == list(fields)
    for name, field in fields.items():
        kind, value = value_of(keys[name])
        assert value == field.contents(), name
        assert kind.removeprefix("array:") == field.types[-1].name.lower(), name
    assert list(tensors) == [tensor.name for tensor in reader.tensors]
    for tensor in reader.tensors:
        kind, shape, n_bytes, _ = tensors[tensor.name]
        assert kind == tensor.tensor_type.name
        assert shape == "[" + ",".join(str(n) for n in tensor.shape) + "]"
        assert int(n_bytes) == tensor.n_bytes
    if reader.tensors:
        smallest = min(reader.tensors, key=lambda tensor: tensor.n_bytes)
        assert tensors[smallest.name][-1] == fnv1a(smallest.data.tobytes())
