"""The sum at the end of a run: what was skipped is named by reason, and what failed stands last with what it said."""
import pathlib
import subprocess
import sys

SUM_RESULTS = pathlib.Path(__file__).parent / "support" / "sum_results.py"
CTEST = """<testsuite>
  <testcase name="good" classname="good" status="run"/>
  <testcase name="bad" classname="bad" status="fail"><failure message=""/><system-out>first
expected 3, found 4</system-out></testcase>
  <testcase name="left out" classname="left out" status="notrun"><skipped/><system-out>SKIPPED: no model</system-out></testcase>
</testsuite>"""
PYTEST = """<testsuites><testsuite>
  <testcase classname="tests.a" name="test_wrong"><failure message="assert 1 == 2">def test_wrong():
E  assert 1 == 2</failure></testcase>
  <testcase classname="tests.a" name="test_setup"><error message="no server">the server did not start</error></testcase>
  %s
</testsuite></testsuites>""" % "".join(
    f'<testcase classname="tests.a" name="test_{number}"><skipped message="takes minutes"/></testcase>' for number in range(5)
)


def summed(*arguments):
    run = subprocess.run([sys.executable, SUM_RESULTS, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    return run.returncode, run.stdout


def test_failures_stand_last_with_what_they_said(tmp_path):
    (tmp_path / "ctest.xml").write_text(CTEST)
    (tmp_path / "pytest.xml").write_text(PYTEST)
    code, printed = summed("style=0", "packages=77", tmp_path / "ctest.xml", tmp_path / "pytest.xml")
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
    code, printed = summed("tidy=2", tmp_path / "empty.xml", tmp_path / "none.xml", tmp_path / "missing.xml")
    assert code == 1
    assert "failed: tidy\n    exit code 2" in printed
    assert printed.splitlines()[-1] == "0 passed, 4 failed, 0 skipped"


def test_all_is_well(tmp_path):
    assert summed("style=0") == (0, "1 passed, 0 failed, 0 skipped\n")
