"""Rebuilds the tiny random models of tests/data/arch with transformers and runs architectures_test on them.
This checks that the committed files equal what their scripts make, and that the engine agrees with today's
transformers.

Needs torch and transformers, which the tests' own environment leaves out because of their size.
"""
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "tests/data/arch"
MAKERS = ("make_models.py", "make_sparse_models.py", "make_expert_models.py", "make_dense_models.py",
          "make_encoder_models.py", "make_recurrent_models.py", "make_gemma4_models.py",
          "make_mamba_models.py", "make_lfm2_models.py", "make_window_models.py", "make_rank_models.py")
SUFFIXES = (".gguf", ".logits", ".hidden", ".vectors", ".scores")
BUILD = pathlib.Path(os.environ.get("HEARTH_BUILD_DIR", ROOT / "build/release"))
TEST = BUILD / "tests/architectures_test"


def python_with_torch():
    """This interpreter, or the one that HEARTH_TORCH_PYTHON names, if it has what the scripts import."""
    python = os.environ.get("HEARTH_TORCH_PYTHON", sys.executable)
    check = subprocess.run([python, "-c", "import torch, transformers, gguf"], capture_output=True, text=True)
    if check.returncode != 0:
        reason = check.stderr.strip().splitlines()[-1]
        pytest.skip(
            f"{python} cannot make models: {reason}; pip install torch transformers gguf, or name a Python "
            "that has them in HEARTH_TORCH_PYTHON. The committed models are tested by architectures_test")
    return python


@pytest.mark.skipif(not TEST.exists(), reason=f"{TEST} is not built")
def test_models_made_now_give_the_logits_of_transformers(tmp_path):
    python = python_with_torch()
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    for script in MAKERS:
        subprocess.run([python, SCRIPTS / script, tmp_path], check=True, env=env)
    made = {path.name for path in tmp_path.iterdir()}
    committed = {path.name for path in SCRIPTS.iterdir() if path.suffix in SUFFIXES}
    assert made == committed
    result = subprocess.run([TEST], env={**os.environ, "HEARTH_ARCH_MODELS": str(tmp_path)},
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
