"""hearth-profiler train-predictors for its users: what it writes and prints, what continues after an
interruption, and what it refuses.

HEARTH_BUILD_DIR locates the program. Run by tests/run.sh.
"""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import time

import gguf
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ.get("HEARTH_BUILD_DIR")
RELU = ROOT / "tests/data/arch/relu-llama.gguf"  # random weights, trained with a context of 64, two layers
SWIGLU = ROOT / "tests/data/arch/llama.gguf"
pytestmark = pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")


def program(*arguments):
    return [str(pathlib.Path(BUILD) / "hearth-profiler"), *map(str, arguments)]


def profiler(*arguments, **more):
    return subprocess.run(program(*arguments), capture_output=True, text=True, timeout=300, **more)


@pytest.fixture
def model(tmp_path):
    return shutil.copy(RELU, tmp_path / "model.gguf")


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"The {i * i} boats of harbour {i} came in {i % 7} days late. "
                            for i in range(60)))
    return path


def arguments(model, text, *more):
    """The command line; options in `more` replace the tests' usual ones."""
    usual = {"--window": 32, "--epochs": 3, "--threads": 1, "--size-budget": 100}
    own = [part for option, value in usual.items() if option not in more for part in (option, value)]
    return ("train-predictors", "--model", model, "--text", text, *own, *more)


def train(model, text, *more, **options):
    return profiler(*arguments(model, text, *more), **options)


def refused(done):
    """The message on stderr of a run that was refused."""
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def as_gguf(path, tmp_path):
    """PowerInfer's file, read by a reader that knows only GGUF."""
    data = pathlib.Path(path).read_bytes()
    assert data[:4] == b"PWRI"
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(b"GGUF" + data[4:])
    return gguf.GGUFReader(copy)


def test_a_powerinfer_file_is_written_reported_and_served(model, text, tmp_path):
    done = train(model, text, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # there is no terminal, so there is no progress line
    told = json.loads(done.stdout)
    written = tmp_path / "model.powerinfer.gguf"
    assert told["written"] == str(written) and told["written_bytes"] == written.stat().st_size
    report = tmp_path / f"{written.name}.training.json"
    assert json.loads(report.read_text()) == told
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model.gguf", written.name, report.name, "text.txt"]

    # The two files hold the same model: every tensor, with the down projection transposed, and predictors at
    # the end.
    plain = {tensor.name: tensor for tensor in gguf.GGUFReader(model).tensors}
    sparse = as_gguf(written, tmp_path)
    names = [tensor.name for tensor in sparse.tensors]
    predictors = [f"blk.{i}.fc{k}.weight" for i in range(2) for k in (1, 2)]
    assert names[-4:] == predictors
    expected = {name.replace("ffn_down.", "ffn_down_t.") for name in plain} | set(predictors)
    assert set(names) - {"output.weight"} == expected - {"output.weight"}
    for tensor in sparse.tensors:
        if tensor.name in plain:
            assert tensor.tensor_type == plain[tensor.name].tensor_type
            assert (tensor.data == plain[tensor.name].data).all()
    by_name = {tensor.name: tensor for tensor in sparse.tensors}
    for i in range(2):
        turned, down = by_name[f"blk.{i}.ffn_down_t.weight"], plain[f"blk.{i}.ffn_down.weight"]
        assert list(turned.shape) == list(down.shape)[::-1]
        after = gguf.quants.dequantize(turned.data, turned.tensor_type)
        before = gguf.quants.dequantize(down.data, down.tensor_type)
        assert abs(after - before.T).max() < 0.05 * abs(before).max()
        rank = told["layers"][i]["rank"]
        assert list(by_name[f"blk.{i}.fc1.weight"].shape) == [int(down.shape[1]), rank]
        assert list(by_name[f"blk.{i}.fc2.weight"].shape) == [rank, int(down.shape[0])]
    assert sparse.fields["powerinfer.sparse_threshold"].contents() == 0.0
    for name in gguf.GGUFReader(model).fields:
        assert name in sparse.fields

    # The report states what a run shows.
    assert 0 < told["held_out"]["proposed"] < 1 and 0 < told["held_out"]["active"] < 1
    assert told["served"]["proposed"] == pytest.approx(told["held_out"]["proposed"], abs=0.01)
    assert told["served"]["perplexity"] == pytest.approx(told["held_out"]["perplexity_predicted"], rel=0.01)
    assert told["layers"][0].get("ahead") is None and 0 <= told["layers"][1]["ahead"]["recall"] <= 1
    used = profiler("perplexity", "--model", written, "--file", text,
                    "--window", 32, "--sparsity", "predicted",
                    "--verify-predictor")
    assert used.returncode == 0, used.stderr
    recall = float(re.search(r"recall (\S+) %", used.stdout)[1])
    assert recall == pytest.approx(100 * told["held_out"]["recall"], abs=8)


def test_the_same_bytes_with_any_number_of_threads_and_once_more_interrupted(model, text, tmp_path):
    long = ("--epochs", 200, "--tokens", 512)
    assert train(model, text, *long, "--out", tmp_path / "a").returncode == 0
    assert train(model, text, *long, "--out", tmp_path / "b", "--threads", 3).returncode == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

    work = tmp_path / "work"
    for number, seconds in ((signal.SIGINT, 0.1), (signal.SIGTERM, 0.4), (signal.SIGINT, 0.2)):
        with subprocess.Popen(
                program(*arguments(model, text, *long, "--out", tmp_path / "c", "--work", work)),
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                end = time.monotonic() + 60
                while not (work / "layer-001.record").exists() and time.monotonic() < end:
                    time.sleep(0.01)
                time.sleep(seconds)  # by the clock: wherever the training is then
                process.send_signal(number)
                out, said = process.communicate(timeout=60)
            finally:
                process.kill()
        if process.returncode == 0 or "is written" in said:
            break  # it had finished before the signal came
        assert process.returncode == 128 + number, said
        assert out == "" and "the same command continues" in said and str(work) in said
        assert not (tmp_path / "c").exists()
    else:
        done = train(model, text, *long, "--out", tmp_path / "c", "--work", work)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "c").read_bytes() == (tmp_path / "a").read_bytes()
    assert not work.exists()


def test_a_side_file(model, text, tmp_path):
    before = pathlib.Path(model).read_bytes()
    done = train(model, text, "--side-file")
    assert done.returncode == 0, done.stderr
    side = tmp_path / "model.gguf.predictors.gguf"
    assert str(side) in done.stdout and "held out" in done.stdout and "ahead" in done.stdout
    report = tmp_path / f"{side.name}.training.json"
    assert json.loads(report.read_text())["written"] == str(side)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model.gguf", side.name, report.name, "text.txt"]
    assert pathlib.Path(model).read_bytes() == before
    assert len(gguf.GGUFReader(side).tensors) == 4
    used = profiler("perplexity", "--model", model, "--file", text, "--window", 32, "--sparsity", "predicted")
    assert used.returncode == 0, used.stderr
    assert "proposed" in used.stdout
    # A second run replaces the side file; without it nothing knows of predictors.
    assert train(model, text, "--side-file", "--seed", 2).returncode == 0
    side.unlink()
    assert "no predictors" in refused(profiler("perplexity", "--model", model, "--file", text, "--window", 32,
                                               "--sparsity", "predicted"))


def test_the_neurons_of_a_synthetic_model_are_found(tmp_path):
    model, text = tmp_path / "tiny.gguf", tmp_path / "text.txt"
    assert profiler("synth", "--shape", "tiny", "--quant", "q8_0", "--out", model).returncode == 0
    names = ("chat", "prose", "explain", "letters", "lists", "code", "tables")
    text.write_text("".join((ROOT / "profiler/activity/prompts" / f"{name}.txt").read_text()
                            for name in names))
    done = profiler("train-predictors", "--model", model, "--text", text,
                    "--side-file", "--json", "--threads", 2,
                    "--window", 64, "--epochs", 12, "--size-budget", 20)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["held_out"]["recall"] >= 0.95 and told["held_out"]["false_positives"] < 0.1
    assert told["served"]["rise"] < 0.005 and told["tuned_on"]["kept"]
    for layer in told["layers"][1:]:  # each but the first reads the layer before it
        assert layer["ahead"]["recall"] > 0.9 and layer["ahead"]["proposed"] < 0.35


def left_behind(model, text, work, tmp_path):
    """The work folder of a run that a full disk ended: no file may grow beyond what recordings take."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))
    return train(model, text, "--work", work, preexec_fn=limit)


def test_a_full_disk_loses_nothing(model, text, tmp_path):
    work = tmp_path / "work"
    said = refused(left_behind(model, text, work, tmp_path))
    assert str(work) in said and "could not be written" in said
    assert not (tmp_path / "model.powerinfer.gguf").exists()
    assert train(model, text, "--work", work).returncode == 0
    first = (tmp_path / "model.powerinfer.gguf").read_bytes()
    assert train(model, text, "--force").returncode == 0
    assert (tmp_path / "model.powerinfer.gguf").read_bytes() == first


def test_a_damaged_checkpoint_and_another_runs_folder(model, text, tmp_path):
    work = tmp_path / "work"
    out = tmp_path / "model.powerinfer.gguf"
    # A folder takes the place of the unfinished file, so everything is done except the writing.
    pathlib.Path(f"{out}.part").mkdir()
    said = refused(train(model, text, "--work", work))
    assert str(out) in said
    pathlib.Path(f"{out}.part").rmdir()
    assert "other options" in refused(train(model, text, "--work", work, "--seed", 7))
    checkpoint = work / "layer-001.checkpoint"
    data = bytearray(checkpoint.read_bytes())
    data[len(data) // 2] ^= 1
    checkpoint.write_bytes(data)
    said = refused(train(model, text, "--work", work))
    assert str(checkpoint) in said and "damaged" in said and "remove this file" in said
    checkpoint.unlink()
    assert train(model, text, "--work", work).returncode == 0
    assert out.exists() and not work.exists()
    assert train(model, text, "--force", "--restart", "--work", work).returncode == 0


def test_bad_texts(model, text, tmp_path):
    short, empty, binary = tmp_path / "short.txt", tmp_path / "empty.txt", tmp_path / "binary"
    short.write_text("Too short.")
    empty.write_bytes(b"")
    binary.write_bytes(b"\x7fELF\0\0\0" * 500)
    said = refused(train(model, short))
    assert str(short) in said and "at least 10 windows of 32" in said
    for path, words in ((empty, "is empty"), (tmp_path / "absent.txt", "cannot be read"),
                        (tmp_path, "is a folder"), (binary, "is not text")):
        assert words in (said := refused(train(model, path))) and "--text" in said
        assert words in (said := refused(train(model, text, "--held-out", path))) and "--held-out" in said
    assert ("fewer" in (said := refused(train(model, text, "--held-out", short)))
            or "less than one window" in said)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["model.gguf", "text.txt", "short.txt", "empty.txt", "binary"])


def test_models_without_zeros_and_places_that_exist(model, text, tmp_path):
    swiglu = shutil.copy(SWIGLU, tmp_path / "swiglu.gguf")
    said = refused(train(swiglu, text))
    assert "no neurons" in said and "calibrate" in said
    said = refused(train(swiglu, text, "--ffn-activation", "relu2"))
    assert "relu2" in said and "--side-file" in said
    (tmp_path / "model.powerinfer.gguf").write_bytes(b"older")
    assert "--force" in refused(train(model, text))
    assert (tmp_path / "model.powerinfer.gguf").read_bytes() == b"older"
    assert "the model itself" in refused(train(model, text, "--force", "--out", model))
    assert "no such" in refused(train(tmp_path / "absent.gguf", text)).lower()
    home = tmp_path / "home"
    home.mkdir()
    (home / "letters.txt").write_text("mine")
    assert "letters.txt" in refused(train(model, text, "--work", home, "--out", tmp_path / "x"))


def test_missing_options_and_help(model):
    done = profiler("train-predictors", "--model", model)
    assert done.returncode == 2 and "--text" in done.stderr
    done = profiler("train-predictors", "--help")
    assert done.returncode == 0
    for word in ("--model", "--text", "--held-out", "--side-file", "--size-budget", "--tokens", "--work",
                 "--json"):
        assert word in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 120
    for value in ("0", "-1", "x", "nan"):
        assert profiler("train-predictors", "--model", model, "--text", model, "--size-budget",
                        value).returncode == 2
