"""Quantization compared with the gguf package: plain types bit by bit, and types with a search by their
error."""
import os
import pathlib
import subprocess

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf import quants

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = (pathlib.Path(os.environ.get("HEARTH_BUILD_DIR", ROOT / "build" / "release")) / "tests"
        / "quantize_tool")
TYPES = [Type.F32, Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.MXFP4]


def rows():
    """Rows of 32 in many magnitudes, and rows for which rounding, signs and ties matter."""
    rng = np.random.default_rng(11)
    x = rng.standard_normal((4000, 32), dtype=np.float32)
    x[1000:2000] *= np.exp2(rng.integers(-12, 12, (1000, 1))).astype(np.float32)
    x[2000:2200] = np.abs(x[2000:2200])
    x[2200:2400] = -np.abs(x[2200:2400])
    x[2400:2600] = rng.integers(-8, 9, (200, 32)) / 2  # codes fall on halves
    x[2600:2700, 5] = -x[2600:2700, 9]  # two values equally far from zero
    x[2700] = 0
    x[2701] = 3.25
    x[2702] = 0
    x[2702, 7] = -1e-3
    return x


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_bits_are_those_of_gguf(kind):
    x = rows()
    run = subprocess.run([TOOL, str(int(kind)), str(x.size)], input=x.tobytes(), capture_output=True,
                         timeout=60)
    assert run.returncode == 0, run.stderr.decode()
    expected = quants.quantize(x, kind).tobytes()
    assert len(run.stdout) == len(expected)
    wrong = np.flatnonzero(np.frombuffer(run.stdout, np.uint8) != np.frombuffer(expected, np.uint8))
    assert wrong.size == 0, f"byte {wrong[0]} of {len(expected)}, {wrong.size} differ"


# Root mean square of the errors relative to that of normally distributed weights: measured 0.0704, 0.0346 and
# 0.0173. llama.cpp's own quantizer has 0.0712, 0.0360 and 0.0177 (docs/models.md).
@pytest.mark.parametrize("kind,bound", [(Type.Q4_K, 0.0708), (Type.Q5_K, 0.0350), (Type.Q6_K, 0.0175)],
                         ids=lambda value: getattr(value, "name", ""))
def test_searched_rows_as_gguf_reads_them(kind, bound):
    x = np.random.default_rng(5).standard_normal((1024, 256), dtype=np.float32)
    run = subprocess.run([TOOL, str(int(kind)), str(x.size)], input=x.tobytes(), capture_output=True,
                         timeout=60)
    assert run.returncode == 0, run.stderr.decode()
    back = quants.dequantize(np.frombuffer(run.stdout, np.uint8).reshape(1024, -1), kind)
    error = float(np.sqrt(np.mean((back - x) ** 2) / np.mean(x ** 2)))
    assert 0.8 * bound < error < bound


def test_other_types_are_refused():
    run = subprocess.run([TOOL, str(int(Type.Q2_K)), "256"], input=bytes(1024), capture_output=True,
                         timeout=60)
    assert run.returncode == 1 and b"no such type" in run.stderr
