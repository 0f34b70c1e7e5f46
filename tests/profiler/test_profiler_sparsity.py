"""Tests what hearth-profiler prints about a model's sparsity: bench and perplexity in every mode, on the
small ReLU model.

HEARTH_BUILD_DIR locates the program. Run by tests/run.sh.
"""
import csv
import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ.get("HEARTH_BUILD_DIR")
RELU = ROOT / "tests/data/relu"
PLAIN = RELU / "relu-5m-q8_0.gguf"
POWERINFER = RELU / "relu-5m-q4_0.powerinfer.gguf"
SILU = ROOT / "tests/data/arch/llama.gguf"
pytestmark = pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")


def profiler(*arguments):
    program = [str(pathlib.Path(BUILD) / "hearth-profiler"), *map(str, arguments), "--threads", "1"]
    return subprocess.run(program, capture_output=True, text=True, timeout=120)


def bench(model, mode, *arguments):
    done = profiler("bench", "--prompt", 20, "--generate", 8,
                    "--repeat", 1, "--model", model, "--sparsity", mode,
                    "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


EMULATED = pathlib.Path(BUILD or ".") / "tests/hearth_profiler_emulated"


def on_emulated_gpu(*arguments):
    """Runs a subcommand on an emulated GPU whose memory does not hold all neurons."""
    program = [str(EMULATED), *map(str, arguments), "--threads", "1", "--device", "cuda",
               "--split", "neurons"]
    return subprocess.run(program, capture_output=True, text=True, timeout=240,
                          env={**os.environ, "CUDAEMU_VRAM_MB": "256"})


@pytest.fixture()
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("She sat by the window and watched the rain, and nobody came along the road. " * 12)
    return path


def perplexity(model, text, mode, *arguments):
    done = profiler("perplexity", "--model", model, "--file", text, "--window", 64, "--sparsity", mode,
                    *arguments)
    assert done.returncode == 0, done.stderr
    return float(re.match(r"perplexity ([0-9.]+) ", done.stdout)[1]), done.stdout.splitlines()[1]


def test_bench_reports_mode_activity_and_bytes():
    runs = {mode: bench(POWERINFER, mode) for mode in ("dense", "exact", "predicted", "auto")}
    for mode in ("dense", "exact", "predicted"):
        assert runs[mode]["sparsity"]["mode"] == mode
    assert runs["auto"]["sparsity"]["mode"] in ("exact", "predicted")
    for mode in ("exact", "predicted", "auto"):
        assert 0.1 < runs[mode]["sparsity"]["active_share"] < 0.3
        assert runs[mode]["decode_bytes_per_token"] < runs["dense"]["decode_bytes_per_token"]
        assert (runs[mode]["sparsity"]["dense_bytes_per_token"]
                == runs["dense"]["sparsity"]["dense_bytes_per_token"])
    # Weights, and keys and values: 2 x 2 bytes x 128 x 4 layers at each of 25 positions.
    plain = bench(PLAIN, "dense")
    assert "active_share" not in plain["sparsity"]
    assert (plain["decode_bytes_per_token"] == plain["sparsity"]["dense_bytes_per_token"]
            + 2 * 2 * 128 * 4 * 25)
    # From PowerInfer's file a dense run reads only the down rows of neurons that are not zero.
    dense = runs["dense"]
    assert dense["decode_bytes_per_token"] < dense["sparsity"]["dense_bytes_per_token"] + 2 * 2 * 128 * 4 * 25
    predicted = runs["predicted"]["sparsity"]
    assert predicted["active_share"] <= predicted["proposed_share"] < 0.5
    assert "recall" not in predicted
    verified = bench(POWERINFER, "predicted", "--verify-predictor", "--predictor-threshold",
                     "-1.5")["sparsity"]
    assert verified["predictor_threshold"] == -1.5
    assert predicted["proposed_share"] < verified["proposed_share"]
    assert 0.8 < verified["recall"] < 1 and 0 < verified["false_positive_share"] < 1


def test_bench_text_names_the_mode():
    done = profiler("bench", "--model", PLAIN, "--prompt", 20, "--generate", 8, "--repeat", 1)
    assert re.search(r"sparsity exact \(lossless with relu\), [0-9.]+ % of neurons active", done.stdout), (
        done.stdout)
    done = profiler("bench", "--model", SILU, "--prompt", 20, "--generate", 8, "--repeat", 1)
    assert re.search(r"sparsity dense \(its activation, silu, has no zeros to skip\)$", done.stdout, re.M)


def test_perplexity_by_mode(text):
    dense, line = perplexity(POWERINFER, text, "dense")
    assert re.fullmatch(r"sparsity   dense \(asked for\), [12][0-9.]+ % of neurons active", line), line
    exact, line = perplexity(POWERINFER, text, "exact")
    assert abs(exact / dense - 1) < 1e-3  # rounding differs, because the folder's counts order the neurons
    assert re.search(r"exact \(lossless with relu\), [12][0-9.]+ % of neurons active", line), line
    predicted, line = perplexity(POWERINFER, text, "predicted", "--verify-predictor")
    assert abs(predicted / exact - 1) < 0.1
    assert re.search(r"recall [0-9.]+ %, [0-9.]+ % of the proposed for nothing", line), line
    everything, _ = perplexity(POWERINFER, text, "predicted", "--predictor-threshold", "-1000")
    assert everything == exact


def test_hits_are_reported_for_sparse_runs_only(text, tmp_path):
    perplexity(POWERINFER, text, "exact", "--activity", tmp_path / "hits.csv")
    rows = [row for row in csv.reader((tmp_path / "hits.csv").read_text().splitlines()) if row[0].isdigit()]
    assert len(rows) == 4 * 1024
    assert sum(int(row[2]) for row in rows) > 0
    done = profiler("perplexity", "--model", SILU, "--file", text, "--window", 32, "--sparsity", "dense",
                    "--activity", tmp_path / "none.csv")
    assert done.returncode == 2 and "does not look at single neurons" in done.stderr
    assert not (tmp_path / "none.csv").exists()


@pytest.mark.skipif(not EMULATED.exists(), reason="hearth_profiler_emulated is not built")
def test_a_gpu_counts_and_verifies_what_the_cpu_does(tmp_path):
    text = tmp_path / "short.txt"
    text.write_text("She sat by the window and watched the rain, and nobody came along the road. " * 4)

    def measured(run, name, *flags):
        done = run("perplexity", "--model", ROOT / "tests/data/arch/relu-llama.powerinfer.gguf",
                   "--file", text, "--window", 32, "--sparsity", "predicted", "--verify-predictor",
                   "--activity", tmp_path / name, *flags)
        assert done.returncode == 0, done.stderr
        rows = [row for row in csv.reader((tmp_path / name).read_text().splitlines()) if row[0].isdigit()]
        recall = re.search(r"recall ([0-9.]+) %, ([0-9.]+) % of the proposed for nothing", done.stdout)
        return sum(int(row[2]) for row in rows), *map(float, recall.groups()), done.stdout

    *by_cpu, _ = measured(profiler, "cpu.csv")
    *by_gpu, said = measured(on_emulated_gpu, "gpu.csv", "--vram-budget", "0.002")
    assert "CUDA " in said
    assert by_gpu == pytest.approx(by_cpu, rel=0.01)


@pytest.mark.parametrize("model, flags, words", [
    (PLAIN, ["--sparsity", "predicted"], ["no predictors", "take exact"]),
    (SILU, ["--sparsity", "predicted"], ["no predictors", "take dense"]),
    (PLAIN, ["--sparsity", "calibrated"], ["relu", "take exact"]),
    (POWERINFER, ["--sparsity", "sparse"], ["--sparsity", "predicted"]),
    *[(POWERINFER, ["--sparsity", "predicted", "--predictor-threshold", x], ["threshold"])
      for x in ("nan", "-nan", "inf", "1001", "x")],
])
def test_impossible_requests(model, flags, words):
    done = profiler("bench", "--model", model, "--prompt", 8, "--generate", 8, *flags)
    assert done.returncode == 2 and done.stdout == "", (done.stdout, done.stderr)
    last = done.stderr.strip().splitlines()[-1]
    assert last.count(".") >= 1
    for word in words:
        assert word in done.stderr, done.stderr
