"""tests/check_waits.py finds waits without a reason, and nothing else."""
import pathlib
import subprocess
import sys

import pytest

CHECK = pathlib.Path(__file__).with_name("check_waits.py")


def check(folder, name, text):
    (folder / name).write_text(text)
    return subprocess.run([sys.executable, CHECK, folder], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name, line", [
    ("a.py", "time.sleep(1)"), ("a.py", "process.wait(timeout=5)"),
    ("a.py", "wait_until(f, 'x', patience=0.5)"),
    ("a.py", "httpx.get(url)"), ("a.cpp", "  std::this_thread::sleep_for(1ms);"),
    ("a.h", "sleep_until(then);  // a moment")])
def test_a_wait_without_a_reason_is_found(tmp_path, name, line):
    found = check(tmp_path, name, f"\n{line}\n")
    assert found.returncode == 1 and f"{name}:2: " in found.stdout, found.stdout
    comment = "#" if name.endswith(".py") else "//"
    for text in (f"{line}  {comment} by the clock: it must", f"{comment} by the clock: it must\n{line}"):
        assert check(tmp_path, name, text).returncode == 0


@pytest.mark.parametrize("name, text", [
    ("a.py", "while not there():\n    time.sleep(0.1)"), ("a.py", "process.wait(timeout=60)"),
    ("a.py", "httpx.get(url, timeout=PATIENCE)"),
    ("a.cpp", "while (!there) std::this_thread::sleep_for(1ms);"), ("a.cpp", "// sleep_for(1ms)"),
    ("a.txt", "time.sleep(1)")])
def test_polling_and_patient_waits_are_accepted(tmp_path, name, text):
    assert check(tmp_path, name, text).returncode == 0
