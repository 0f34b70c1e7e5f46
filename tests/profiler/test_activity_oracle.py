"""Activation counts and GPU indexes from the programs that make them: PyTorch's torch.save, and PowerInfer's
way of writing an index with Python's gguf package.

The C++ side is the program activity_dump, found through HEARTH_BUILD_DIR. Run by tests/run.sh; tests that
need PyTorch are skipped if it is not installed.
"""
import os
import pathlib
import random
import struct
import subprocess

import gguf
import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ.get("HEARTH_BUILD_DIR")
pytestmark = pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")


def dump(*arguments):
    done = subprocess.run([pathlib.Path(BUILD) / "tests/activity_dump", *map(str, arguments)],
                          capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.splitlines(), done.stderr


def elements_of(path):
    code, lines, error = dump("tensor", path)
    assert code == 0, error
    return [float.fromhex(line) for line in lines]


def find(model, n_layers, d_ff):
    """The printed sentence, and the ids of each layer, hottest first."""
    code, lines, error = dump("find", model, n_layers, d_ff)
    assert code == 0, error
    return lines[0], [[int(word) for word in line.split()] for line in lines[1:]]


@pytest.mark.parametrize("name", ["int32", "int64", "float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("n", [0, 1, 3, 11008, 70000])
def test_a_saved_vector_is_read_to_the_bit(tmp_path, name, n):
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(n)
    dtype = getattr(torch, name)
    vector = (torch.randint(0, 60000, (n,), generator=generator) if name.startswith("int") else
              60000 * torch.rand(n, generator=generator)).to(dtype)
    torch.save(vector, tmp_path / "activation_0.pt")
    assert elements_of(tmp_path / "activation_0.pt") == vector.double().tolist()


def test_views_and_parameters_of_files_by_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    counts = torch.arange(12, dtype=torch.int64).reshape(3, 4)
    torch.save(counts[1], tmp_path / "row.pt")
    assert elements_of(tmp_path / "row.pt") == [4, 5, 6, 7]
    torch.save(counts[:, 2], tmp_path / "column.pt")
    assert elements_of(tmp_path / "column.pt") == [2, 6, 10]
    torch.save(counts[0].double().requires_grad_(), tmp_path / "gradient.pt")
    assert elements_of(tmp_path / "gradient.pt") == [0, 1, 2, 3]


def test_other_objects_that_pytorch_saves_are_refused_with_a_sentence(tmp_path):
    torch = pytest.importorskip("torch")
    counts = torch.arange(4)
    for saved, options, said in [
            ({"fc1.weight": counts}, {}, "holds more than a tensor"),
            ([counts, counts], {}, "holds more than a tensor"),
            (counts.reshape(2, 2), {}, "of 2 dimensions, expected one"),
            (counts.bool(), {}, "BoolStorage"),
            (counts, {"_use_new_zipfile_serialization": False}, "PyTorch before 1.6"),
            (counts, {"pickle_protocol": 4}, "pickle protocol 4, expected 2"),
            (7, {}, "holds a number, expected one tensor")]:
        torch.save(saved, tmp_path / "a.pt", **options)
        code, _, error = dump("tensor", tmp_path / "a.pt")
        assert code == 2 and said in error


def write_index(path, masks, capacity=1 << 30):
    """Writes like powerinfer-py: a GGUF file whose magic is overwritten afterward."""
    writer = gguf.GGUFWriter(path, "generic.gpu_index")
    for layer, mask in enumerate(masks):
        for name, values in (("gpu_idx", mask), ("gpu_bucket", numpy.flatnonzero(mask))):
            writer.add_tensor(f"blk.{layer}.{name}", values.astype(numpy.int32), raw_shape=values.shape[::-1],
                              raw_dtype=gguf.GGMLQuantizationType.I32)
    writer.add_block_count(len(masks))
    writer.add_uint64("split.vram_capacity", capacity)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with open(path, "r+b") as file:
        file.write(b"PWRI" + struct.pack("<I", 3))


@pytest.mark.parametrize("n_layers,d_ff,shares",
                         [(1, 256, [0.5]), (12, 40, [0.1, 0, 1]), (3, 11008, [0.26, 0.01, 0.99])])
def test_an_index_as_powerinfer_writes_it(tmp_path, n_layers, d_ff, shares):
    chance = random.Random(d_ff)
    masks = []
    for layer in range(n_layers):
        hot = chance.sample(range(d_ff), int(shares[layer % len(shares)] * d_ff))
        masks.append(numpy.isin(numpy.arange(d_ff), hot).astype(numpy.int32))
    model = tmp_path / "m.powerinfer.gguf"
    write_index(f"{model}.generated.gpuidx", masks)
    sentence, order = find(model, n_layers, d_ff)
    assert sentence.startswith("hot neurons of")
    assert order == [[*numpy.flatnonzero(mask).tolist(), *numpy.flatnonzero(mask == 0).tolist()]
                     for mask in masks]
    sentence, order = find(model, n_layers + 1, d_ff)
    assert "of another model" in sentence and not order


def test_layers_of_a_folder_by_pytorch_are_ordered_by_number(tmp_path):
    torch = pytest.importorskip("torch")
    (tmp_path / "activation").mkdir()
    for layer in range(12):
        torch.save(torch.arange(5).roll(layer), tmp_path / f"activation/activation_{layer}.pt")
    code, lines, error = dump("counts", tmp_path / "activation", 12, 5)
    assert code == 0, error
    order = [[int(word) for word in line.split()] for line in lines[1:]]
    assert order == [torch.arange(5).roll(layer).argsort(descending=True).tolist() for layer in range(12)]
