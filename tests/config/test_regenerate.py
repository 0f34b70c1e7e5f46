"""tests/regenerate.sh in a folder of its own: it writes what hearthd prints, and keeps a file unchanged if
hearthd fails."""
import os
import pathlib
import shutil
import subprocess

import pytest

BUILD = os.environ.get("HEARTH_BUILD_DIR")
SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "regenerate.sh"


@pytest.fixture()
def tree(tmp_path):
    for folder in ("tests", "config", "docs", "build"):
        (tmp_path / folder).mkdir()
    shutil.copy(SCRIPT, tmp_path / "tests")
    (tmp_path / "config/hearth.toml").write_text("stale\n")
    (tmp_path / "docs/configuration.md").write_text("stale\n")
    return tmp_path


def regenerate(tree, build):
    return subprocess.run([tree / "tests/regenerate.sh"], env={**os.environ, "HEARTH_BUILD_DIR": str(build)},
                          capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")
def test_both_files_are_what_hearthd_prints(tree):
    assert regenerate(tree, BUILD).stdout == "wrote config/hearth.toml\nwrote docs/configuration.md\n"
    for file, flag in (("config/hearth.toml", "--help-toml"), ("docs/configuration.md", "--help-markdown")):
        printed = subprocess.run([f"{BUILD}/hearthd", flag], capture_output=True, text=True, check=True,
                                 timeout=60).stdout
        assert (tree / file).read_text() == printed
    assert regenerate(tree, BUILD).stdout == ""


def test_a_program_that_fails_changes_nothing(tree):
    (tree / "build/hearthd").write_text("#!/bin/sh\necho half; exit 3\n")
    (tree / "build/hearthd").chmod(0o755)
    done = regenerate(tree, "build")
    assert done.returncode == 1 and "config/hearth.toml was left as it is" in done.stderr
    assert (tree / "config/hearth.toml").read_text() == "stale\n"
