"""hearth-profiler calibrate for its users: what it writes and prints, that other commands use the result, and
what it refuses.

HEARTH_BUILD_DIR locates the program. Run by tests/run.sh.
"""
import hashlib
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess

import gguf
import pytest
from test_profiler_program import read_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ.get("HEARTH_BUILD_DIR")
SWIGLU = ROOT / "tests/data/arch/llama.gguf"  # random weights, trained with a context of 64, two layers
RELU = ROOT / "tests/data/arch/relu-llama.gguf"
EMULATED = pathlib.Path(BUILD or ".") / "tests/hearth_profiler_emulated"
pytestmark = pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")


def program(*arguments):
    return [str(pathlib.Path(BUILD) / "hearth-profiler"), *map(str, arguments)]


def profiler(*arguments):
    return subprocess.run(program(*arguments), capture_output=True, text=True, timeout=300)


@pytest.fixture
def model(tmp_path):
    return shutil.copy(SWIGLU, tmp_path / "model.gguf")


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"The {i * i} boats of harbour {i} came in {i % 7} days late. "
                            for i in range(60)))
    return path


def calibrate(model, text, *arguments):
    return profiler("calibrate", "--model", model, "--text", text, "--window", 32, "--threads", 1, *arguments)


def refused(done):
    """The message on stderr of a run that was refused."""
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def keys_of(path):
    fields = gguf.GGUFReader(path).fields
    return {name.removeprefix("calibration."): field.contents() for name, field in fields.items()}


def test_thresholds_are_written_reported_and_used(model, text):
    done = calibrate(model, text, "--fidelity-budget", 2)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # there is no terminal, so there is no progress line
    side_file = pathlib.Path(f"{model}.calibration")
    keys = keys_of(side_file)
    assert len(keys["thresholds"]) == 2 and all(t >= 0 for t in keys["thresholds"])
    assert keys["text_sha256"] == hashlib.sha256(text.read_bytes()).hexdigest()
    assert keys["fidelity_budget"] == pytest.approx(0.02)

    found = re.search(r"of the text (\S+) dense, (\S+) calibrated: (\S+) %  \(granted \+2.00 %", done.stdout)
    assert found, done.stdout
    assert float(found[2]) <= float(found[1]) * 1.02
    held_out = re.search(r"held out +(\S+) dense, (\S+) calibrated: (\S+) % \+/- \S+  \((\d+) windows\)",
                         done.stdout)
    assert held_out, done.stdout
    assert float(held_out[1]) == pytest.approx(keys["dense_perplexity"], abs=1e-4)
    assert float(held_out[2]) == pytest.approx(keys["perplexity"], abs=1e-4)
    skipped = float(re.search(r"neurons +(\S+) % skipped", done.stdout)[1])
    assert skipped == pytest.approx(100 * keys["skipped"], abs=0.051)
    layers = re.search(r"by layer, % +(\S+) +(\S+)\n", done.stdout)
    assert (float(layers[1]) + float(layers[2])) / 2 == pytest.approx(skipped, abs=0.11)
    for word in ("MB per token dense", "fewer", str(side_file)):
        assert word in done.stdout

    # Equal texts give an equal file.
    before = side_file.read_bytes()
    assert calibrate(model, text, "--fidelity-budget", 2).returncode == 0
    assert side_file.read_bytes() == before

    # Commands that use the file skip about as many neurons.
    used = profiler("perplexity", "--model", model, "--file", text, "--window", 32,
                    "--sparsity", "calibrated")
    assert used.returncode == 0, used.stderr
    active = float(re.search(r"calibrated \(asked for\), (\S+) % of neurons active", used.stdout)[1])
    assert active == pytest.approx(100 - skipped, abs=8)


@pytest.mark.nightly
@pytest.mark.skipif(not EMULATED.exists(), reason="hearth_profiler_emulated is not built")
def test_a_gpu_finds_the_cpus_thresholds(model, text):
    text.write_text(text.read_text()[:700])  # 22 windows only, because the emulator is slow
    command = ["calibrate", "--model", model, "--text", text, "--window", "32", "--threads", "1",
               "--fidelity-budget", "2"]
    assert subprocess.run([str(BUILD) + "/hearth-profiler", *map(str, command)], timeout=300).returncode == 0
    side_file = pathlib.Path(f"{model}.calibration")
    by_cpu = keys_of(side_file)
    side_file.unlink()
    done = subprocess.run([str(EMULATED), *map(str, command), "--device", "cuda", "--split", "neurons",
                           "--vram-budget", "0.001"],
                          capture_output=True, text=True, timeout=300,
                          env={**os.environ, "CUDAEMU_VRAM_MB": "256"})
    assert done.returncode == 0, done.stderr
    by_gpu = keys_of(side_file)
    assert by_gpu["thresholds"] == pytest.approx(by_cpu["thresholds"], rel=0.05)
    assert by_gpu["dense_perplexity"] == pytest.approx(by_cpu["dense_perplexity"], rel=1e-3)
    assert by_gpu["skipped"] == pytest.approx(by_cpu["skipped"], abs=0.05)


def test_a_held_out_text_of_its_own(model, text, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("Nothing of the kind was ever said about the other boats, nor shall it be. " * 4)
    done = calibrate(model, text, "--held-out", other)
    assert done.returncode == 0, done.stderr
    windows = [int(n) for n in re.findall(r"(\d+) windows", done.stdout)]
    assert windows[0] > 3 * windows[1]
    shutil.copy(text, other)
    assert "give --held-out another" in refused(calibrate(model, text, "--held-out", other))


def test_bad_texts(model, text, tmp_path):
    short = tmp_path / "short.txt"
    short.write_text("Too short.")
    empty = tmp_path / "empty.txt"
    empty.write_bytes(b"")
    said = refused(calibrate(model, short))
    assert str(short) in said and "at least 4 windows of 32 tokens" in said and "last quarter" in said
    said = refused(calibrate(model, text, "--held-out", short))
    assert str(short) in said and "fewer than one window of 32" in said
    for path in (empty, tmp_path / "absent.txt"):
        assert "--text" in refused(calibrate(model, path))
        assert "--held-out" in refused(calibrate(model, text, "--held-out", path))
    assert not pathlib.Path(f"{model}.calibration").exists()


def test_a_model_with_exact_zeros_is_refused(text, tmp_path):
    model = shutil.copy(RELU, tmp_path / "relu.gguf")
    said = refused(calibrate(model, text))
    assert "exact zeros" in said and "take exact" in said


@pytest.mark.parametrize("value", ["0", "-1", "101", "x", "nan"])
def test_bad_budgets(model, text, value):
    done = calibrate(model, text, "--fidelity-budget", value)
    assert done.returncode == 2 and "--fidelity-budget" in done.stderr
    assert done.stdout == ""


def test_missing_options_and_help(model):
    done = profiler("calibrate", "--model", model)
    assert done.returncode == 2 and "--text" in done.stderr
    done = profiler("calibrate", "--help")
    assert done.returncode == 0
    for word in ("--model", "--text", "--held-out", "--fidelity-budget", "--window", "--threads"):
        assert word in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 120


def test_a_place_that_cannot_be_written(model, text, tmp_path):
    pathlib.Path(f"{model}.calibration").mkdir()
    assert "is a folder" in refused(calibrate(model, text))
    if os.geteuid() != 0:  # root may write everywhere
        folder = tmp_path / "closed"
        folder.mkdir()
        closed = shutil.copy(SWIGLU, folder / "model.gguf")
        folder.chmod(0o500)
        assert "cannot be kept there" in refused(calibrate(closed, text))


def test_a_signal_leaves_the_older_file(model, text, tmp_path):
    side_file = pathlib.Path(f"{model}.calibration")
    side_file.write_bytes(b"older")
    long_text = tmp_path / "long.txt"
    long_text.write_text(text.read_text() * 500)
    terminal, other = pty.openpty()
    with subprocess.Popen(program("calibrate", "--model", model, "--text", long_text, "--window", "32"),
                          stdout=subprocess.PIPE, stderr=other) as process:
        os.close(other)
        try:
            seen = read_until(terminal, b" left")
            assert b"Calibrating" in seen and b" %" in seen, seen
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 128 + signal.SIGINT
            assert process.stdout.read() == b""
        finally:
            process.kill()
            os.close(terminal)
    assert side_file.read_bytes() == b"older"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "long.txt", "model.gguf", side_file.name, "text.txt"]


def test_hearthd_without_thresholds_names_the_command(model):
    hearthd = pathlib.Path(BUILD) / "hearthd"
    done = subprocess.run([hearthd, "--model", model, "--port", "0", "--sparsity", "calibrated"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert f"hearth-profiler calibrate --model {model} --text FILE" in done.stdout + done.stderr
