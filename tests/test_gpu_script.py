"""tests/gpu.sh without a GPU: it reports that, prints the commands that it would run, packs libraries, and
runs completely on an emulated GPU; its table reports parts that fail, hang or lack their tool.

HEARTH_BUILD_DIR locates the programs. Run by tests/run.sh.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))

import gpu_report  # noqa: E402
BUILD = os.environ.get("HEARTH_BUILD_DIR")
FAMILIES = ["rows", "neurons", "matmul", "attention", "recurrent", "recorder", "bundles", "streaming",
            "prefetch", "engine", "count", "library"]
# the others take longer there
EMULATED_FAMILIES = ["rows", "neurons", "matmul", "attention", "recorder", "bundles"]
BENCHES = ["full-dense", "full-predicted", "full-no-graphs", "quarter-layers", "quarter-predicted",
           "quarter-exact", "quarter-no-prefetch"]


def gpu_sh(*arguments, **environment):
    return subprocess.run([ROOT / "tests/gpu.sh", *map(str, arguments)],
                          capture_output=True, text=True, timeout=1500,
                          env={**os.environ, **environment})


def refused(*arguments):
    done = gpu_sh(*arguments)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("tests/gpu.sh: ")
    return done.stderr


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a GPU")
def test_a_machine_without_a_gpu_is_reported(tmp_path):
    assert "no NVIDIA GPU" in refused("short", "--out", tmp_path / "out")
    assert "no NVIDIA GPU" in refused("short", "--second", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_mistakes_are_one_sentence_each():
    assert '"--ouch"' in refused("--ouch")
    assert "pack DIR, build or short" in refused()
    assert "pack" in refused("pack")
    assert "--out" in refused("short", "--out")
    assert "--seconds" in refused("short", "--seconds", "ten")
    assert "--arch" in refused("build", "--arch", "9.0")
    assert "--llama-bench" in refused("short", "--llama-bench", "/nonexistent")
    assert "--packed" in refused("build", "--packed", "/nonexistent", "--dry-run")


def dry_run(tmp_path, *arguments):
    done = gpu_sh(*arguments, "--dry-run", "--out", tmp_path / "out", "--work", tmp_path / "work")
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())
    return re.findall(r"^(\S+), (\d+) s at most:\n  \$ (.+)$", done.stdout, re.MULTILINE)


def test_the_dry_run_lists_all_parts(tmp_path):
    parts = dry_run(tmp_path, "short")
    kernels = ["kernels-7b-q4_0", "kernels-70b-q4_k"]
    sanitizers = ["racecheck-matmul", "memcheck-matmul", "racecheck-neurons", "memcheck-neurons"]
    tests = [f"test-{family}" for family in FAMILIES]
    assert [name for name, _, _ in parts] == [
        "configure", "build", "probe", *tests[:6], *kernels, "synth-model", *BENCHES, *tests[6:], *sanitizers]
    commands = {name: command for name, _, command in parts}
    assert "-DHEARTH_GPU_TESTS=ON" in commands["configure"]
    assert "gpu_tests" in commands["build"]
    assert "--no-graphs" in commands["full-no-graphs"] and "--no-prefetch" in commands["quarter-no-prefetch"]
    assert "--split layers" in commands["quarter-layers"]
    assert commands["memcheck-matmul"].endswith(r"\[sanitizer\]")
    assert '"[sanitizer]"' in (ROOT / "tests/kernels/cuda/matmul_test.cpp").read_text()


def test_the_dry_run_lists_the_second_runs_parts(tmp_path):
    parts = dry_run(tmp_path, "short", "--second", "--llama-bench", "/bin/true")
    assert [name for name, _, _ in parts] == [
        "configure", "build", "synth-large", "large-predicted", "large-layers",
        "ncu-KERNEL", "ncu-KERNEL-csv", "synth-plain",
        "plain-dense", "llama-bench"]
    assert "--shape 70b" in dict((name, command) for name, _, command in parts)["synth-large"]


def test_limits_change_with_the_time(tmp_path):
    limits = [int(limit) for _, limit, _ in dry_run(tmp_path, "short")]
    doubled = [int(limit) for _, limit, _ in dry_run(tmp_path, "short", "--seconds", 840)]
    assert doubled == [2 * limit for limit in limits]


def test_only_a_build(tmp_path):
    parts = dry_run(tmp_path, "build", "--arch", "90")
    assert [name for name, _, _ in parts] == ["configure", "build"]
    assert "-DHEARTH_CUDA_ARCHITECTURES=90-real" in parts[0][2]


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="packs the packages of Debian and Ubuntu")
def test_pack(tmp_path):
    packed = tmp_path / "packed"
    done = gpu_sh("pack", packed)
    assert done.returncode == 0, done.stderr
    headers = packed / "usr/include"
    for header in ("spdlog/spdlog.h", "fmt/format.h", "nlohmann/json.hpp", "CLI/CLI.hpp", "pcre2.h",
                   "utf8proc.h", "toml++/toml.h"):
        assert (headers / header).is_file(), header
    assert "libpcre2-8.a" in (packed / "usr/lib/cmake/PCRE2/PCRE2Config.cmake").read_text()
    assert next(packed.rglob("libutf8proc.a")).stat().st_size > 1000
    for library in ("libfmt.so", "libspdlog.so"):  # these links must lead to something
        assert next(packed.rglob(library)).resolve(strict=True).stat().st_size > 1000
    size = sum(path.lstat().st_size for path in packed.rglob("*") if not path.name.startswith("programs"))
    assert size < 16 << 20  # without the programs, if build/gpu has any
    assert "is not empty" in refused("pack", packed)


def check_results(out, names):
    """At most 7 files of at most 16 MiB, so that they can be brought back from a borrowed machine."""
    assert {path.name for path in out.iterdir()} == names
    assert len(names) <= 7
    assert all(path.stat().st_size <= 16 << 20 for path in out.iterdir())


def check_table(done, table):
    lines = table.splitlines()
    assert len(lines) <= 60
    assert done.stdout.splitlines()[-len(lines):] == lines


# ---- the emulated GPU --------------------------------------------------------------------------------------

@pytest.mark.skipif(not BUILD or not (pathlib.Path(BUILD) / "tests/hearth_profiler_emulated").exists(),
                    reason="hearth_profiler_emulated is not built")
def test_all_of_it_on_an_emulated_gpu(tmp_path):
    out = tmp_path / "out"
    done = gpu_sh("short", "--emulated", "--out", out, "--work", tmp_path / "work", "--seconds", 1400)
    assert done.returncode == 0, done.stdout + done.stderr
    check_results(out, {"probe.json", "kernels.json", "results.json", "table.txt", "logs.tgz"})
    table = (out / "table.txt").read_text()
    check_table(done, table)
    assert not list((tmp_path / "work").glob("*.gguf"))

    # Check what is kept as data.
    assert json.loads((out / "probe.json").read_text())["gpu"]["name"] == "emulated"
    kernels = json.loads((out / "kernels.json").read_text())
    assert kernels["gpu"] == "emulated" and {k["type"] for k in kernels["kernels"]} == {"Q4_0", "Q4_K", None}
    cuda = "".join(path.read_text() for path in (ROOT / "kernels/cuda").rglob("*.cu"))
    for kernel in kernels["kernels"]:  # --second finds these with ncu
        for name in gpu_report.cuda_names(kernel["kernel"]).split("|"):
            assert re.search(rf"\b{name}_kernel\(", cuda), (kernel["kernel"], name)
    results = json.loads((out / "results.json").read_text())
    for test in results["tests"]:
        if test["family"] in EMULATED_FAMILIES:
            assert test["state"] == "well" and test["cases"] > 0 and test["failed"] == 0, test
        else:
            assert test["state"] == "out"
    assert [test["family"] for test in results["tests"]] == FAMILIES
    runs = {run["name"]: run["bench"] for run in results["runs"]}
    assert list(runs) == BENCHES
    for name, bench in runs.items():
        assert bench["device"] == "GPU" and bench["decode_tokens_per_s"] > 0, name
    assert runs["full-dense"]["plan"]["cold_neuron_bytes"] == 0
    assert runs["quarter-predicted"]["token_bytes"]["cold_neurons"] > 0

    # Check what people read.
    assert "GPU: emulated; " in table and "launch_s " in table and "round_trip_s " in table
    assert re.search(r"rows (\d+)/\1 \(\d+ s\)", table)
    assert "prefetch not run" in table and "sanitizers (the GPU is emulated)" in table
    assert re.search(r"^matmul, 1 +\d+\.\d +\d+ +\d+ %", table, re.MULTILINE)
    for name in BENCHES:
        assert re.search(rf"^{name} +\d+\.\d\d +\d+\.\d +\d+\.\d\d +\d+ %", table, re.MULTILINE), name
    with tarfile.open(out / "logs.tgz") as logs:
        assert {"logs/test-rows.log", "logs/quarter-exact.json"} <= set(logs.getnames())

    # The second run may leave its results in the same folder.
    done = gpu_sh("short", "--second", "--emulated", "--out", out, "--work", tmp_path / "work",
                  "--seconds", 1400)
    assert done.returncode == 0, done.stdout + done.stderr
    check_results(out, {"probe.json", "kernels.json", "results.json", "table.txt", "logs.tgz", "second.json",
                        "second.tgz"})
    runs = json.loads((out / "second.json").read_text())["runs"]
    assert [run["name"] for run in runs] == ["large-predicted", "large-layers"]
    assert all(run["bench"]["device"] == "GPU" for run in runs)


# ---- stand-ins for the build's programs --------------------------------------------------------------------

PASSES = 'echo "All tests passed (3 assertions in 2 test cases)"'
KERNELS = {"gpu": "stand-in", "kernels": [
    {"shape": "tiny", "kernel": kernel, "size": "8", "type": kind, "tokens": tokens,
     "launches": launches, "seconds": seconds,
     "bytes_per_s": 1e9, "bound_seconds": 1e-6, "bound_by": "memory", "share_of_bound": 1e-6 / seconds}
    for kernel, kind, tokens, launches, seconds in (
        ("matmul", "Q4_0", 1, 1, 2e-6), ("matmul", "Q4_0", 2, 1, 9e-6), ("keep_passed", None, 1, 3, 5e-6),
        ("add", None, 1, 1, 4e-6))]}
BENCH = {"prefill_tokens_per_s": 100.5, "decode_tokens_per_s": 12.25, "share_of_bound": 0.5,
         "plan": {"device_bytes": {"total": 2e9}}}


def profiler(tmp_path):
    return f"""
        case "$*" in
          synth*) while [ "$1" != --out ]; do shift; done; echo model >"$2" ;;
          *--kernels*) cat {tmp_path}/kernels.json ;;
          bench*) echo '{json.dumps(BENCH)}' ;;
          *) echo '{{}}' ;;
        esac"""


@pytest.fixture
def stand_ins(tmp_path):
    """A folder like a build whose tests all pass, and a function that replaces one of its programs."""
    build = tmp_path / "build"
    (build / "tests").mkdir(parents=True)

    def write(name, script):
        path = build / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/usr/bin/env bash\n{script}\n")
        path.chmod(0o755)
        return path

    (tmp_path / "kernels.json").write_text(json.dumps(KERNELS))
    write("tests/hearth_profiler_emulated", profiler(tmp_path))
    for family in FAMILIES:
        write(f"tests/cuda_{family}_test", PASSES)
    return write


def short(tmp_path, *arguments, **environment):
    return gpu_sh("short", "--emulated", "--out", tmp_path / "out", "--work", tmp_path / "work", *arguments,
                  HEARTH_BUILD_DIR=str(tmp_path / "build"), **environment)


def said(name, message):
    """What Catch2 prints about a test case."""
    return f"""{"-" * 79}
{name}
  of every length
{"-" * 79}
tests/kernels/cuda/rows_test.cpp:43
{"." * 79}

tests/kernels/cuda/rows_test.cpp:50: {message}
"""


WARNS = said("norms cost a real model little", "warning:\n  mean KL 0.0002\n")
FAILS = f"""
cat <<'END'
{WARNS}{said("norms have the CPU's bits", "FAILED:")}{WARNS}{"=" * 79}
test cases: 9 | 8 passed | 1 failed
assertions: 20 | 19 passed | 1 failed
END
exit 1"""


def test_a_part_that_hangs_is_stopped_and_the_others_go_on(tmp_path, stand_ins):
    stand_ins("tests/cuda_neurons_test", "sleep 1000")
    stand_ins("tests/cuda_rows_test", FAILS)
    stand_ins("tests/cuda_attention_test", f"cat <<'END'\n{WARNS}{'=' * 79}\nEND\n{PASSES}")
    # Catch2 2 does not report this as a failure
    stand_ins("tests/cuda_matmul_test", "echo 'No test cases matched'")
    done = short(tmp_path, "--seconds", 70)
    assert done.returncode == 1
    table = (tmp_path / "out/table.txt").read_text()
    check_table(done, table)
    assert "neurons 0/0 STOPPED (" in table
    assert "rows 8/9 FAILED (" in table and "FAILED rows: norms have the CPU's bits" in table
    assert "matmul 0/0 NOTHING RAN" in table
    assert "attention 2/2 (" in table and "quarter-exact" in table and "bundles 2/2 (" in table
    results = json.loads((tmp_path / "out/results.json").read_text())
    assert [test["failures"] for test in results["tests"] if test["failures"]] == [
        ["norms have the CPU's bits"]]
    states = {part["name"]: part["state"] for part in results["parts"]}
    assert (states["test-neurons"] == "stopped" and states["test-rows"] == "failed"
            and states["test-bundles"] == "well")


def test_parts_are_left_out_when_the_time_is_used_up(tmp_path, stand_ins):
    done = short(tmp_path, "--seconds", 1)
    assert done.returncode == 1  # nothing was shown
    assert re.search(r"^not run: probe, test-rows, .* \(the 1 s are used up\)", done.stdout, re.MULTILINE)


def test_results_stay_small_whatever_a_test_prints(tmp_path, stand_ins):
    stand_ins("tests/cuda_rows_test", f"head -c 18000000 /dev/urandom; echo; {PASSES}")
    assert short(tmp_path).returncode == 0
    check_results(tmp_path / "out", {"probe.json", "kernels.json", "results.json", "table.txt", "logs.tgz"})
    assert "rows 2/2 (" in (tmp_path / "out/table.txt").read_text()


def test_the_second_run_without_its_tools(tmp_path, stand_ins):
    done = short(tmp_path, "--second", PATH="/usr/bin:/bin")
    assert done.returncode == 0, done.stdout + done.stderr
    check_results(tmp_path / "out", {"second.json", "second.tgz"})
    assert re.search(r"^large-layers +2\.00 +100\.5 +12\.25 +50 %$", done.stdout, re.MULTILINE)
    if not pathlib.Path("/usr/local/cuda/bin/ncu").exists():
        assert "ncu (it is not installed)" in done.stdout
    assert "llama-bench (--llama-bench does not name it)" in done.stdout


def test_the_second_run_with_its_tools(tmp_path, stand_ins):
    names = "Kernel Name,gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed"
    stand_ins("tools/ncu", f"""
        echo "$*" >>{tmp_path}/asked
        case "$1" in
          --import) printf '==PROF== read\\n%s\\n,us,%%\\nfew_kernel,7.5,61\\nfew_kernel,7.25,62\\n' \\
            '{names}' ;;
          *) while [ "$1" != --export ]; do shift; done; head -c 18000000 /dev/urandom >"$2.ncu-rep" ;;
        esac""")
    llama = stand_ins("llama-bench", """echo '[{"n_prompt": 512, "n_gen": 0, "avg_ts": 900.5},
        {"n_prompt": 0, "n_gen": 64, "avg_ts": 50.25},
        {"n_prompt": 0, "n_gen": 64, "avg_ts": 55.25}]'""")
    done = short(tmp_path, "--second", "--llama-bench", llama,
                 PATH=f"{tmp_path / 'build/tools'}:/usr/bin:/bin")
    assert done.returncode == 0, done.stdout + done.stderr
    # without ncu's reports, which are too large
    check_results(tmp_path / "out", {"kernels.json", "second.json", "second.tgz"})
    assert "ncu-matmul-tiny-2: few_kernel: duration 7.25 us, memory 62 %" in done.stdout
    assert ("llama-bench, same file: prefill 900.50 tokens/s" in done.stdout
            and "decode 55.25 tokens/s" in done.stdout)
    assert re.search(r"^plain-dense +2\.00 ", done.stdout, re.MULTILINE)
    profiled = [line
                for line in (tmp_path / "asked").read_text().splitlines() if not line.startswith("--import")]
    assert len(profiled) == 3
    # The kernels whose times exceed their bounds the most come first. The case of one token has two launches,
    # so the case of two tokens skips two.
    assert "regex:^(few|many|float)_kernel$ --launch-skip 2 --launch-count 2 " in profiled[0]
    assert "regex:^(keep_in_block|pass|keep)_kernel$ --launch-skip 0 --launch-count 6 " in profiled[1]
    assert "regex:^(add)_kernel$" in profiled[2]
    assert all("bench --kernels --shape tiny --type q4_0" in line for line in profiled)


@pytest.fixture
def tree(tmp_path, stand_ins):
    """A clone in which tests/gpu.sh build has run for compute capability 9.0, of stand-ins that append their
    arguments to the file `ran`; and a function that runs its script where nvidia-smi shows a GPU."""
    clone = tmp_path / "clone"
    (clone / "tests/support").mkdir(parents=True)
    (clone / "build/gpu").mkdir(parents=True)
    for name in ("tests/gpu.sh", "tests/support/gpu_report.py"):
        shutil.copy(ROOT / name, clone / name)
    stand_ins("../clone/build/gpu/hearth-profiler", profiler(tmp_path))
    stand_ins("../clone/build/gpu/tests/gpu_tests",
              f"""echo "gpu_tests of $HEARTH_SOURCE_DIR: $*" >>{tmp_path}/ran; {PASSES}""")
    (clone / "build/gpu/tests/gpu_families.txt").write_text(
        "".join(f"{family} [#{family}_test]\n" for family in FAMILIES))
    (clone / "build/gpu/CMakeCache.txt").write_text("HEARTH_CUDA_ARCHITECTURES:UNINITIALIZED=90-real\n")
    stand_ins("tools/strip", 'cp "$3" "$2"')  # scripts cannot be stripped
    stand_ins("tools/cmake", f"echo cmake >>{tmp_path}/ran; exit 1")
    stand_ins("tools/compute-sanitizer", 'while [ "$1" != --error-exitcode ]; do shift; done; shift 2; "$@"; '
                                         'echo "ERROR SUMMARY: 0 errors"')

    def run(*arguments, capability="9.0"):
        stand_ins("tools/nvidia-smi", f"echo 'stand-in, {capability}, 1000 MiB, 580.1'")
        return subprocess.run([clone / "tests/gpu.sh", *map(str, arguments)],
                              capture_output=True, text=True, timeout=300,
                              env={**os.environ, "PATH": f"{tmp_path / 'build/tools'}:{os.environ['PATH']}"})

    return run


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="packs the packages of Debian and Ubuntu")
def test_packed_programs_are_used_on_a_gpu_that_they_were_built_for(tmp_path, tree):
    packed, ran = tmp_path / "packed", tmp_path / "ran"
    done = tree("pack", packed)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(tmp_path / "clone/build/gpu")  # it is the other machine's
    arguments = ("short", "--packed", packed, "--out", tmp_path / "out", "--work", tmp_path / "work")

    done = tree(*arguments, "--dry-run")
    assert "tar -xzf" in done.stdout and "cmake" not in done.stdout and not (tmp_path / "work").exists()
    done = tree(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("GPU: stand-in, 9.0" in done.stdout
            and re.search(r"^build \d+ s; all parts ", done.stdout, re.MULTILINE))
    assert all(f"{family} 2/2 (" in done.stdout for family in FAMILIES)
    assert ("racecheck-matmul: 0 errors; memcheck-matmul: 0 errors; racecheck-neurons: 0 errors; "
            "memcheck-neurons: 0 errors" in done.stdout)
    tests = [f"gpu_tests of {tmp_path / 'clone'}: -# {spec}" for spec in
             [f"[#{family}_test]" for family in FAMILIES] + 2 * ["[sanitizer]"] + 2 * ["[#neurons_test]"]]
    assert ran.read_text().splitlines() == tests

    ran.unlink()
    done = tree(*arguments, capability="8.9")  # it must build
    assert done.returncode == 1 and "configure: failed" in done.stdout
    assert ran.read_text() == "cmake\n"


def test_the_table_has_the_sanitizers_and_the_errors_of_a_build(tmp_path):
    logs, out = tmp_path / "logs", tmp_path / "out"
    logs.mkdir()
    out.mkdir()
    (logs / "machine.txt").write_text("GPU: X\n")

    def table(parts):
        (logs / "parts.tsv").write_text("".join("\t".join(part) + "\n" for part in parts))
        return subprocess.run(["python3", ROOT / "tests/support/gpu_report.py", "table", logs, out,
                               "results.json"],
                              capture_output=True, text=True, timeout=60)

    (logs / "racecheck-neurons.log").write_text(
        "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n")
    done = table([("racecheck-neurons", "well", "20", ""),
                  ("memcheck-neurons", "stopped", "40", "after its 40 s")])
    assert done.returncode == 0, done.stderr  # it has checked everything up to there and found nothing
    assert ("sanitizers: racecheck-neurons: 0 hazards displayed (0 errors, 0 warnings); "
            "memcheck-neurons: no verdict, stopped (40 s)") in done.stdout
    (logs / "memcheck-neurons.log").write_text("========= ERROR SUMMARY: 3 errors\n")
    done = table([("memcheck-neurons", "failed", "9", "exit code 9")])
    assert done.returncode == 1 and "memcheck-neurons: 3 errors" in done.stdout
    (logs / "build.log").write_text("fine\nx.cu(3): error: no such thing\nfine\n")
    done = table([("configure", "well", "4", ""), ("build", "failed", "60", "exit code 1")])
    assert done.returncode == 1
    assert "configure 4 s; build 60 s" in done.stdout and "x.cu(3): error: no such thing" in done.stdout
