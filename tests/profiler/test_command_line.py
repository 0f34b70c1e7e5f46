"""hearth-profiler's command line: mistakes are one sentence, and models have names."""
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "api"))
import hearthd

PROFILER = hearthd.BUILD / "hearth-profiler"


def run(*arguments, **variables):
    return subprocess.run([PROFILER, *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, **variables}, timeout=hearthd.PATIENCE)


@pytest.mark.parametrize("arguments, said", [
    ([], "a subcommand is missing, expected one of bench, "),
    (["bnch"], "there is no subcommand 'bnch', expected one of bench, "),
    (["bnch"], "did you mean bench?"),
    (["bench", "--sloots", "3"], "bench: unknown flag '--sloots'; did you mean --slots?"),
    (["report", "--outpt=x"], "report: unknown flag '--outpt'; did you mean --out?"),
    (["probe", "x"], "probe: unexpected argument 'x'; see hearth-profiler probe --help"),
    (["bench", "--model"], "bench: --model needs a value; see hearth-profiler bench --help"),
    (["bench", "--threads", "x"], "expected a whole number from 0 to 1024"),
    (["--colour"], "unknown flag '--colour'; see hearth-profiler --help"),
    (["plan", "--model", "gemma"], "did you mean gemma-3-4b"),
    (["quantize", "/no/such.gguf", "--type", "q4_0", "--out", "/dev/null"], "there is no such file"),
    (["count", "--model", "/tmp", "--out", "x"], "/tmp is a folder, expected a GGUF file"),
])
def test_a_mistake_is_one_sentence(tmp_path, arguments, said):
    done = run(*arguments, XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert done.stderr.startswith("hearth-profiler: ") and done.stderr.count("\n") == 1


def test_a_pulled_model_has_a_name(tmp_path):
    folder = tmp_path / "hearth" / "models" / "lab" / "model"
    folder.mkdir(parents=True)
    (folder / "tiny.gguf").write_bytes(hearthd.SMALL_MODEL.read_bytes())
    done = run("plan", "--model", "tiny", "--machine", "rtx3060", XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "relu" in done.stdout or "tiny" in done.stdout


def test_help_and_version_are_no_mistakes():
    assert run("--version").stdout.startswith("hearth-profiler ")
    assert "--model" in run("bench", "--help").stdout
