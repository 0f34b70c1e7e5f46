"""The sum at the end of a run: names skipped tests by reason, and lists failed tests with their output
last."""
import pathlib
import subprocess
import sys

SUM_RESULTS = pathlib.Path(__file__).parent / "support" / "sum_results.py"
CTEST = """<testsuite>
  <testcase name="good" classname="good" status="run"/>
  <testcase name="bad" classname="bad" status="fail"><failure message=""/><system-out>first
expected 3, found 4</system-out></testcase>
  <testcase name="left out" classname="left out" status="notrun"><skipped/>\
<system-out>SKIPPED: no model</system-out></testcase>
</testsuite>"""
PYTEST = """<testsuites><testsuite>
  <testcase classname="tests.a" name="test_wrong"><failure message="assert 1 == 2">def test_wrong():
E  assert 1 == 2</failure></testcase>
  <testcase classname="tests.a" name="test_setup">\
<error message="no server">the server did not start</error></testcase>
  %s
</testsuite></testsuites>""" % "".join(
    f'<testcase classname="tests.a" name="test_{number}"><skipped message="takes minutes"/></testcase>'
    for number in range(5)
)


def summed(*arguments):
    run = subprocess.run([sys.executable, SUM_RESULTS, *map(str, arguments)], capture_output=True, text=True,
                         timeout=60)
    return run.returncode, run.stdout


def parts_of(folder, *rows):
    path = folder / "parts.tsv"
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    return path


def summed_with(folder, checks, *files):
    """summed() with checks, {name: exit code}; leaves the table out of what was printed."""
    rows = [("check", name, 0, code, "") for name, code in checks.items()]
    code, printed = summed("--parts", parts_of(folder, *rows), *files)
    lines = printed.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.split() == ["part", "seconds", "result"])
    del lines[begin:begin + len(rows) + 2]
    return code, "\n".join(lines) + "\n"


def test_failures_stand_last_with_what_they_said(tmp_path):
    (tmp_path / "ctest.xml").write_text(CTEST)
    (tmp_path / "pytest.xml").write_text(PYTEST)
    code, printed = summed_with(tmp_path, {"style": 0, "packages": 77}, tmp_path / "ctest.xml",
                                tmp_path / "pytest.xml")
    assert code == 1
    assert printed.splitlines() == [
        "skipped: packages (it says why)",
        "skipped: left out (no model)",
        "skipped: tests.a test_0, tests.a test_1, tests.a test_2 and 2 more (takes minutes)",
        "failed: bad",
        "    first",
        "    expected 3, found 4",
        "failed: tests.a test_wrong",
        "    def test_wrong():",
        "    E  assert 1 == 2",
        "failed: tests.a test_setup",
        "    the server did not start",
        "2 passed, 3 failed, 7 skipped",
    ]


def test_a_runner_that_died_is_a_failure(tmp_path):
    (tmp_path / "empty.xml").write_text("")
    (tmp_path / "none.xml").write_text("<testsuite/>")
    code, printed = summed_with(tmp_path, {"tidy": 2}, tmp_path / "empty.xml", tmp_path / "none.xml",
                                tmp_path / "missing.xml")
    assert code == 1
    assert "failed: tidy\n    exit code 2" in printed
    assert printed.splitlines()[-1] == "0 passed, 4 failed, 0 skipped"


def test_a_run_without_failures_is_a_success(tmp_path):
    assert summed_with(tmp_path, {"style": 0}) == (0, "1 passed, 0 failed, 0 skipped\n")


def test_a_failed_build_is_one_failure_with_its_errors(tmp_path):
    (tmp_path / "failed.txt").write_text("the release build failed:\na.cpp:1:2: error: expected ';'\n")
    code, printed = summed_with(tmp_path, {"style": 0},
                                tmp_path / "ctest-fast.xml", tmp_path / "ctest-slow.xml",
                                tmp_path / "pytest.xml")
    assert code == 1
    assert printed.splitlines() == [
        f"failed: {tmp_path}",
        "    the release build failed:",
        "    a.cpp:1:2: error: expected ';'",
        "1 passed, 1 failed, 0 skipped",
    ]


def test_parts_stand_in_a_table_above_the_sum(tmp_path):
    (tmp_path / "format.log").write_text("a.cpp is not as clang-format has it\n")
    (tmp_path / "commits.log").write_text("there is no commit to compare with\n")
    (tmp_path / "ctest.xml").write_text(
        "<testsuite><testcase name='good' classname='good' status='run'/></testsuite>")
    parts = parts_of(
        tmp_path, ("check", "packages", 3, 0, ""), ("check", "formatting", 12, 1, tmp_path / "format.log"),
        ("check", "messages of commits", 0, 77, tmp_path / "commits.log"),
        ("phase", "build", 400, 0, ""), ("phase", "C++ tests", 60, 0, ""), ("step", "tests", 461, 0, ""))
    code, printed = summed("--parts", parts, tmp_path / "ctest.xml")
    assert code == 1
    assert printed.splitlines()[:3] == [
        "skipped: messages of commits (there is no commit to compare with)",
        "failed: formatting",
        "    exit code 1",
    ]
    assert [line.split() for line in printed.splitlines()[3:]] == [
        ["a.cpp", "is", "not", "as", "clang-format", "has", "it"],
        ["part", "seconds", "result"],
        ["packages", "3", "passed"],
        ["formatting", "12", "FAILED"],
        ["messages", "of", "commits", "0", "skipped"],
        ["tests", "461", "passed"],
        ["build", "400"],
        ["C++", "tests", "60"],
        ["all", "476"],
        ["2", "passed,", "1", "failed,", "1", "skipped"],
    ]


def test_the_slowest_tests_stand_first(tmp_path):
    cases = "".join(f"<testcase name='t{n}' classname='t{n}' status='run' time='{n}.5'/>"
                    for n in range(1, 11))
    (tmp_path / "ctest.xml").write_text(f"<testsuite>{cases}</testsuite>")
    _, printed = summed("--parts", parts_of(tmp_path, ("step", "tests", 5, 0, "")), tmp_path / "ctest.xml")
    assert printed.splitlines()[0] == f"slowest of {tmp_path}/ctest.xml, 60 s together:"
    assert [line.split() for line in printed.splitlines()[1:9]] == [
        [f"{n}.5", "s", f"t{n}"] for n in range(10, 2, -1)]
    assert printed.splitlines()[9].startswith("part")


def test_a_step_that_fails_after_its_tests_have_passed_is_a_failure(tmp_path):
    (tmp_path / "ctest.xml").write_text(
        "<testsuite><testcase name='good' classname='good' status='run'/></testsuite>")
    code, printed = summed("--parts", parts_of(tmp_path, ("step", "tests", 5, 3, "")), tmp_path / "ctest.xml")
    assert code == 1
    assert printed.startswith("failed: tests\n    exit code 3\n")
    assert printed.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"
