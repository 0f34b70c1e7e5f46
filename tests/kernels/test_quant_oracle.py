"""Dequantization of every tensor type compared with the gguf package's, bit by bit, on new random blocks and
edge cases."""
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Type, quants

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import quant_golden  # noqa: E402
import quant_grids  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = (pathlib.Path(os.environ.get("HEARTH_BUILD_DIR", ROOT / "build" / "release")) / "tests"
        / "dequantize_tool")


@pytest.mark.parametrize("kind", list(quant_golden.HALVES), ids=lambda kind: kind.name)
@pytest.mark.parametrize("seed", [100, 101, 102])
def test_bits_are_those_of_gguf(kind, seed):
    elems, _ = GGML_QUANT_SIZES[kind]
    raw = quant_golden.blocks(kind, max(64, 8192 // elems), seed)
    n = raw.shape[0] * elems
    run = subprocess.run([TOOL, str(int(kind)), str(n)], input=raw.tobytes(), capture_output=True, timeout=60)
    assert run.returncode == 0, run.stderr.decode()
    ours = np.frombuffer(run.stdout, dtype="<f4")
    expected = quant_golden.values(kind, raw)
    wrong = np.flatnonzero(ours.view(np.uint32) != expected.view(np.uint32))
    assert ours.shape == expected.shape
    assert wrong.size == 0, f"element {wrong[0]}: {ours[wrong[0]]!r}, gguf says {expected[wrong[0]]!r}"


def test_golden_file_is_what_the_script_makes(tmp_path):
    quant_golden.main(tmp_path / "golden.bin")
    assert ((tmp_path / "golden.bin").read_bytes()
            == (ROOT / "tests" / "data" / "quant_golden.bin").read_bytes())


def test_grids_are_what_the_script_makes(tmp_path):
    quant_grids.main(tmp_path / "grids.h")
    assert (tmp_path / "grids.h").read_bytes() == (ROOT / "kernels" / "quant" / "grids.h").read_bytes()


def test_every_type_of_gguf_is_compared():
    plain = {Type.F32, Type.F16}
    assert set(quant_golden.HALVES) == plain | set(quants._type_traits)
