"""Makes every tiny model of tests/data/arch again with transformers, saves it as Hugging Face's libraries do,
and converts it: the file must equal the one that the scripts write by their own tables, and the engine must
compute the logits of transformers from it.

Needs torch and transformers, which the tests' own environment leaves out because of their size
(HEARTH_TORCH_PYTHON names a Python that has them).
"""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from converted import BUILD, assert_same_file, convert

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "tests/data/arch"
MAKERS = ("make_models.py", "make_sparse_models.py", "make_expert_models.py", "make_dense_models.py",
          "make_encoder_models.py", "make_recurrent_models.py", "make_gemma4_models.py",
           "make_lfm2_models.py", "make_mamba_models.py", "make_rank_models.py", "make_window_models.py")
pytestmark = [pytest.mark.nightly, pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")]
# Files that the scripts write in other formats; their checkpoints convert to the usual format.
OTHER_FORMS = {"mixtral-split", "qwen2moe-fused", "deepseek2-v2", "qwen35-tied", "qwen35moe-ollama",
               "qwen3next-legacy", "gemma4-e2b", "gemma4-moe-split", "lfm2-wide", "falcon-h1-norm"}
# Their layer that predicts later tokens is not in the checkpoint, because transformers does not save it;
# test_convert.py converts such a layer.
WITHOUT_NEXTN = {"deepseek2-v3-nextn", "qwen35-nextn"}
# Files of quantized weights; their checkpoints have the dequantized values, in float32.
QUANTIZED = {"relu-llama", "bamboo", "falcon-7b", "falcon-40b", "opt"}


def python_with_torch():
    python = os.environ.get("HEARTH_TORCH_PYTHON", sys.executable)
    check = subprocess.run([python, "-c", "import torch, transformers, gguf, safetensors"],
                           capture_output=True, text=True)
    if check.returncode != 0:
        pytest.skip(f"{python} cannot make models: {check.stderr.strip().splitlines()[-1]}; pip install "
                    "torch transformers gguf, or name a Python that has them in HEARTH_TORCH_PYTHON. "
                    "test_convert.py converts committed ones")
    return python


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    python, out = python_with_torch(), tmp_path_factory.mktemp("models")
    for script in MAKERS:
        subprocess.run([python, SCRIPTS / script, out, "--checkpoints"], check=True,
                       env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, stdout=subprocess.DEVNULL)
    return out


def test_every_checkpoint_becomes_the_file_that_the_scripts_write(made, tmp_path):
    names = sorted(path.name for path in made.iterdir() if path.is_dir())
    assert len(names) > 110, names
    wrong, converted = {}, tmp_path / "converted"
    converted.mkdir()
    for path in made.iterdir():
        if path.is_file():
            shutil.copy(path, converted)
    for name in names:
        out = tmp_path / f"{name}.gguf"
        done = convert(made / name, out, "--type", "f32" if name in QUANTIZED else "f16")
        try:
            assert done.returncode == 0, done.stderr
            if name in WITHOUT_NEXTN:
                continue
            if name not in OTHER_FORMS:
                assert_same_file(out, made / f"{name}.gguf", by_value=name in QUANTIZED)
            shutil.copy(out, converted / out.name)
        except AssertionError as error:
            wrong[name] = str(error)[:600]
    assert wrong == {}
    # Check the engine's logits for the converted files.
    result = subprocess.run([pathlib.Path(BUILD) / "tests/architectures_test"], capture_output=True,
                            text=True, env={**os.environ, "HEARTH_ARCH_MODELS": str(converted)})
    assert result.returncode == 0, result.stdout + result.stderr
