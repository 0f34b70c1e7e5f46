"""tests/gpu.sh where there is no GPU: that it says so, what it would run, what it packs, and all of its way on an emulated
one.

The programs are found through HEARTH_BUILD_DIR. Run by tests/run.sh.
"""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = os.environ.get("HEARTH_BUILD_DIR")
SHAPES, BUDGETS = ["7b", "13b", "70b"], ["25", "50", "100"]
PHASES = ["build", "tests", "sanitizers", "kernels", "bench", "server"]


def gpu_sh(*arguments):
    return subprocess.run([ROOT / "tests/gpu.sh", *map(str, arguments)], capture_output=True, text=True, timeout=300)


def refused(*arguments):
    done = gpu_sh(*arguments)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("tests/gpu.sh: ")
    return done.stderr


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a GPU")
def test_without_a_gpu_it_says_so(tmp_path):
    assert "no NVIDIA GPU" in refused("run", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_mistakes_are_one_sentence_each():
    assert '"--ouch"' in refused("--ouch")
    assert "pack" in refused("pack")
    assert "--out" in refused("run", "--out")
    assert "--seconds" in refused("run", "--seconds", "ten")
    assert "--packed" in refused("build", "--packed", "/nonexistent", "--dry-run")
    assert "build, tests, sanitizers" in refused("phase", "ouch")
    assert "build, tests, sanitizers" in refused("phase")


def test_what_it_would_run(tmp_path):
    done = gpu_sh("run", "--dry-run", "--out", tmp_path / "out", "--work", tmp_path / "work")
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())
    said = done.stdout
    assert "-DHEARTH_GPU_TESTS=ON" in said and "ctest" in said
    for tool in ("memcheck", "racecheck", "synccheck", "initcheck"):
        assert f"--tool {tool}" in said
    for shape in SHAPES:
        assert f"--shape {shape}" in said
        for budget in BUDGETS:
            assert f"bench-{shape}-{budget}-hybrid" in said
    for flag in ("--no-prefetch", "--prefetch-by dma", "--no-cpu-share", "--split layers"):
        assert flag in said
    # Twenty-four GB are assumed where there is no GPU to ask.
    if shutil.which("nvidia-smi") is None:
        assert "bench-70b-100-hybrid: left out" in said


@pytest.mark.parametrize("phase", PHASES)
def test_what_a_phase_would_run(tmp_path, phase):
    done = gpu_sh("phase", phase, "--dry-run", "--out", tmp_path / "out", "--work", tmp_path / "work", "--shapes", "7b")
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())
    said = done.stdout
    assert f"gpu_report.py {phase}" in said
    assert ("-DHEARTH_SERVER=ON" in said) == (phase == "server")
    assert ("ctest" in said) == (phase == "tests")
    assert ("bench --kernels" in said) == (phase == "kernels")
    assert ("bench-7b-25-hybrid" in said) == (phase == "bench")
    assert "13b" not in said
    for test in ("rows", "neurons", "attention", "matmul", "bundles", "streaming"):
        assert (f"racecheck-{test}" in said) == (phase == "sanitizers")


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a GPU")
def test_a_phase_without_a_gpu_says_so(tmp_path):
    assert "no NVIDIA GPU" in refused("phase", "tests", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="packs the packages of Debian and Ubuntu")
def test_pack(tmp_path):
    packed = tmp_path / "packed"
    done = gpu_sh("pack", packed)
    assert done.returncode == 0, done.stderr
    headers = packed / "usr/include"
    for header in ("spdlog/spdlog.h", "fmt/format.h", "nlohmann/json.hpp", "CLI/CLI.hpp", "pcre2.h", "toml++/toml.h"):
        assert (headers / header).is_file(), header
    assert "libpcre2-8.a" in (packed / "usr/lib/cmake/PCRE2/PCRE2Config.cmake").read_text()
    for library in ("libfmt.so", "libspdlog.so"):  # links that lead to something
        assert next(packed.rglob(library)).resolve(strict=True).stat().st_size > 1000
    size = sum(path.lstat().st_size for path in packed.rglob("*"))
    assert size < 40 << 20
    assert "is not empty" in refused("pack", packed)


@pytest.mark.nightly
@pytest.mark.skipif(not BUILD or not (pathlib.Path(BUILD) / "tests/hearth_profiler_emulated").exists(),
                    reason="hearth_profiler_emulated is not built")
def test_all_of_it_on_an_emulated_gpu(tmp_path):
    done = gpu_sh("run", "--emulated", "--out", tmp_path / "out", "--work", tmp_path / "work", "--seconds", 240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "left out, for the GPU is emulated" in done.stdout
    assert json.loads((tmp_path / "out/probe.json").read_text())["gpu"]["name"] == "emulated"
    results = json.loads((tmp_path / "out/results.json").read_text())
    runs = {(run["vram_percent"], run["variant"]): run for run in results["runs"]}
    for budget, variants in ((40, ["hybrid", "exact", "no-prefetch", "dma-prefetch", "no-cpu-share", "dense-layers"]),
                             (100, ["hybrid", "exact", "dense-layers"])):
        for variant in variants:
            run = runs[budget, variant]
            assert run["bench"]["device"] == "GPU" and run["bench"]["decode_tokens_per_s"] > 0
            assert run["bench"]["plan"]["device_bytes"]["total"] <= run["bench"]["plan"]["budget_bytes"]
            assert run["against_dense_layers"] > 0
    assert len(runs) == 9
    assert runs[40, "dense-layers"]["against_dense_layers"] == 1
    assert runs[40, "hybrid"]["bench"]["token_bytes"]["cold_neurons"] > 0
    assert "| tiny | 40 % | hybrid |" in done.stdout
    assert not list((tmp_path / "work").iterdir())


@pytest.mark.skipif(not BUILD or not (pathlib.Path(BUILD) / "tests/hearthd_emulated").exists(),
                    reason="hearthd_emulated is not built")
def test_phases_on_an_emulated_gpu(tmp_path):
    out, work = tmp_path / "out", tmp_path / "work"
    for phase, said in (("tests", "100% tests passed"), ("sanitizers", "Nothing of this phase was run"),
                        ("kernels", "| tiny | matmul | 1024 x 256 |"), ("server", "The answers are the same.")):
        done = gpu_sh("phase", phase, "--emulated", "--out", out, "--work", work, "--seconds", 200)
        assert done.returncode == 0, done.stdout + done.stderr
        assert said in (out / f"{phase}.md").read_text() and said in done.stdout, done.stdout
        assert (out / f"{phase}.tar.gz").stat().st_size > 0
        assert not list(work.iterdir())
    assert json.loads((out / "kernels.json").read_text())["kernels"]
    assert json.loads((out / "server.json").read_text())["same_answers"]
    for phase in ("tests", "sanitizers", "kernels", "server"):  # few enough to be fetched one by one
        assert len([path for path in out.iterdir()]) <= 4 * 3


def test_a_report_names_what_failed(tmp_path):
    logs, results = tmp_path / "logs", tmp_path / "results"
    logs.mkdir()
    results.mkdir()
    (logs / "parts.tsv").write_text("build\t0\t12\ntests\t8\t30\nlate\tout\tthe 480 seconds are used up\n")
    (logs / "tests.log").write_text("50% tests passed, 1 tests failed out of 2\n\nThe following tests FAILED:\n"
                                    "\t  7 - cuda_rows_test_gpu: norms (Failed)\n")
    done = subprocess.run(["python3", ROOT / "tests/support/gpu_report.py", "tests", logs, results, "Model X"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    report = (results / "tests.md").read_text()
    assert "Model X" in report and "| tests | FAILED (exit code 8) | 30 s |" in report
    assert "| late | left out | the 480 seconds are used up |" in report
    assert "- cuda_rows_test_gpu: norms" in report
