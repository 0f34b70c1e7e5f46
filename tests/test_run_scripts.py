"""tests/run.sh and .ci/run with stand-ins for compilers and tests: which parts run, and what the end of the
output says if one fails."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
SCRIPTS = (".ci/run", "tests/run.sh", "tests/support/parts.sh",
           "tests/support/sum_results.py", "tests/support/merge_base.sh",
           "tests/requirements.txt", "tests/requirements-all.txt")
PASSED = "<testsuite><testcase name='a' classname='a' status='run'/></testsuite>"
# Programs that the scripts call: each records its arguments in calls.txt, and fails if FAIL is part of them.
STAND_IN = """#!/bin/bash
echo "${0##*/} $*" >>"$CALLS"
[ -z "${FAIL:-}" ] || [[ "${0##*/} $*" != *"$FAIL"* ]] || { echo "a.cpp:1:2: error: expected ';'"; exit 1; }
"""
WRITES_RESULTS = f"""for word in "$@"; do
  case "$word" in
    --junitxml=*) echo "{PASSED}" >"${{word#*=}}" ;;
    /*/ctest-*.xml) echo "{PASSED}" >"$word" ;;
  esac
done
"""
MAKES_VENV = f"""if [ "$1 $2" != "-m venv" ]; then exec {sys.executable} "$@"; fi
mkdir -p "$3/bin" && cp "${{0%/*}}/pip" "${{0%/*}}/python" "$3/bin/"
"""


@pytest.fixture()
def tree(tmp_path):
    for script in SCRIPTS:
        (tmp_path / script).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / script, tmp_path / script)
    stand_ins = {"bin/cmake": "", "bin/pip": "", "bin/ctest": WRITES_RESULTS, "bin/python": WRITES_RESULTS,
                 "bin/python3": MAKES_VENV, "bin/ccache": "", "docker/install-deps.sh": "",
                 "server/fetch-model.sh": "echo /model.gguf\n", "tests/check_tidy.sh": "",
                 "tests/check_format.sh": "", "tests/check_commits.sh": "exit 77\n"}
    for file, body in stand_ins.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(STAND_IN + body)
        (tmp_path / file).chmod(0o755)
    (tmp_path / "tests/layering.py").write_text("")
    return tmp_path


def run(tree, *command, fail=""):
    """(exit code, lines printed, calls of stand-ins)"""
    calls = tree / "calls.txt"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEARTH_")}
    environment |= {"PATH": f"{tree / 'bin'}:{os.environ['PATH']}", "CALLS": str(calls), "FAIL": fail,
                    "GIT_CEILING_DIRECTORIES": str(tree.parent)}
    done = subprocess.run([tree / command[0], *command[1:]], cwd=tree,
                          env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    return done.returncode, done.stdout.splitlines(), calls.read_text().splitlines()


def test_the_default_builds_and_runs_what_has_the_label_core(tree):
    code, printed, calls = run(tree, "tests/run.sh")
    assert (code, printed[-1]) == (0, "2 passed, 0 failed, 0 skipped")
    assert "install-deps.sh test" in calls
    assert any(call.startswith("cmake --build --preset release") and call.endswith("--target tests_core")
               for call in calls)
    assert [call for call in calls if call.startswith("ctest")][0].endswith("-L core")
    assert any(call.startswith("pip") and call.endswith("-r tests/requirements.txt") for call in calls)
    listed = next(call for call in calls if "-m pytest" in call).split()
    files = [word for word in listed if word.startswith("tests/")]
    assert files and all((ROOT / file).is_file() for file in files)


def test_all_builds_and_runs_everything(tree):
    code, printed, calls = run(tree, "tests/run.sh", "all")
    assert (code, printed[-1]) == (0, "3 passed, 0 failed, 0 skipped")
    assert "install-deps.sh all" in calls
    assert not any("--target" in call for call in calls)
    assert any(call.startswith("pip") and call.endswith("-r tests/requirements-all.txt") for call in calls)
    assert any("-m pytest -q tests " in call for call in calls)


def test_a_label_of_another_preset(tree):
    code, printed, calls = run(tree, "tests/run.sh", "asan", "bytes")
    assert (code, printed[-1]) == (0, "1 passed, 0 failed, 0 skipped")
    assert any(call.startswith("cmake --build --preset asan") and call.endswith("--target tests_bytes")
               for call in calls)
    assert not any("-m pytest" in call for call in calls)


@pytest.mark.parametrize("fail, why", [
    ("cmake --build", "the release build failed"), ("cmake --preset", "could not be configured"),
    ("install-deps.sh", "the packages could not be installed"), ("fetch-model", "the default model"),
    ("pip", "the Python packages")])
def test_the_end_of_a_run_says_why_it_stopped(tree, fail, why):
    code, printed, _ = run(tree, "tests/run.sh", fail=fail)
    assert (code, printed[-1]) == (1, "0 passed, 1 failed, 0 skipped")
    assert why in "\n".join(printed[-8:])
    if fail != "fetch-model":  # its errors also go to a terminal
        assert "error: expected ';'" in "\n".join(printed[-8:])


def test_ci_ends_with_its_parts_and_the_sum(tree):
    code, printed, _ = run(tree, ".ci/run")
    assert (code, printed[-1]) == (0, "11 passed, 0 failed, 1 skipped")
    table = printed[[line.split() for line in printed].index(["part", "seconds", "result"]):-1]
    names = [line[:50].strip() for line in table]
    assert names == ["part", "packages", "packages for images", "messages of commits",
                     "formatting", "layering", "clang-tidy", "tests",
                     "build", "C++ tests", "Python tests", "CUDA kernels", "build", "C++ tests",
                     "AddressSanitizer, UndefinedBehaviorSanitizer", "build", "C++ tests", "ThreadSanitizer",
                     "build", "C++ tests", "all"]


def test_ci_stops_without_packages(tree):
    code, printed, calls = run(tree, ".ci/run", fail="install-deps.sh --cuda")
    assert (code, printed[-1]) == (1, "0 passed, 1 failed, 0 skipped")
    assert "failed: packages" in printed
    assert (calls[0] == "install-deps.sh --cuda all"
            and [call.split()[1] for call in calls[1:]] == ["tests/support/sum_results.py"])


def test_ci_says_at_its_end_why_a_build_failed(tree):
    code, printed, _ = run(tree, ".ci/run", fail="cmake --build --preset release")
    assert (code, printed[-1]) == (1, "8 passed, 1 failed, 1 skipped")
    end = "\n".join(printed[-40:])
    assert "the release build failed" in end and "error: expected ';'" in end and "No such file" not in end


def test_builds_ahead_of_their_step_test_nothing_and_report_their_errors_in_the_step(tree):
    code, printed, calls = run(tree, ".ci/run", fail="cmake --build --preset asan")
    assert (code, printed[-1]) == (1, "10 passed, 1 failed, 1 skipped")
    assert "the asan build failed" in "\n".join(printed[-40:])
    tested = [call.split()[2] for call in calls if call.startswith("ctest")]
    assert tested == ["release", "release", "cuda", "tsan"]


def test_the_build_alone(tree):
    (tree / "run").write_text("#!/bin/bash\nHEARTH_BUILD_ONLY=1 exec tests/run.sh asan bytes\n")
    (tree / "run").chmod(0o755)
    code, _, calls = run(tree, "run")
    assert code == 0
    assert any(call.startswith("cmake --build --preset asan") for call in calls)
    assert not any(call.startswith("ctest") for call in calls)
