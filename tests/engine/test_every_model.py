"""Runs the C++ test of every tiny model with prompts of 2,000 tokens, which takes a minute or more.

HEARTH_BUILD_DIR locates the test program. Run by tests/nightly.sh.
"""
import os
import pathlib
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("HEARTH_BUILD_DIR", "build/release"))
TEST = BUILD / "tests/serving_test"


@pytest.mark.nightly
@pytest.mark.skipif(not TEST.exists(), reason=f"{TEST} is not built")
def test_long_prompts_of_every_model_have_the_same_bits_however_they_are_cut():
    done = subprocess.run([TEST, "every model: long prompts*"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No test cases matched" not in done.stdout + done.stderr
