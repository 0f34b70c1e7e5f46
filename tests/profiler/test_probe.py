"""hearth-profiler probe for its users: what it measures, where it stores it, and what it can do without.

The figures are not judged, because machines are shared. HEARTH_BUILD_DIR locates the program. Run by
tests/run.sh.
"""
import json
import os
import pathlib
import signal
import stat
import subprocess
import time
import tomllib

import pytest

BUILD = os.environ.get("HEARTH_BUILD_DIR")
EMULATED = pathlib.Path(BUILD or ".") / "tests/hearth_profiler_emulated"
pytestmark = pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")
RATES = ("vram_bytes_per_s", "to_device_pinned_bytes_per_s", "to_device_pageable_bytes_per_s",
         "from_device_pinned_bytes_per_s", "from_device_pageable_bytes_per_s", "launch_s", "round_trip_s",
         "multiply_adds_per_s")


def environment(cache, **more):
    kept = {name: value for name, value in os.environ.items() if name not in ("XDG_CACHE_HOME", "HOME")}
    return {**kept, **({"XDG_CACHE_HOME": str(cache)} if cache else {}), **more}


def probe(cache, *arguments, program=None, **more):
    command = [str(program or pathlib.Path(BUILD) / "hearth-profiler"), "probe", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300,
                          env=environment(cache, **more))


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A cache folder with this machine's profile, and what the program printed."""
    cache = tmp_path_factory.mktemp("cache")
    done = probe(cache, "--json")
    assert done.returncode == 0, done.stderr
    return cache, json.loads(done.stdout)


def kept_file(cache):
    files = list((cache / "hearth").iterdir())
    assert len(files) == 1, files
    return files[0]


def test_measures_this_machine(measured):
    cache, found = measured
    host = found["host"]
    assert found["measured_now"] and found["gpu"] is None
    assert found["file"] == str(kept_file(cache))
    assert host["cores"] >= 1 and host["ram_bytes"] > 1e8
    assert [rate["threads"] for rate in host["ram_read"]] == sorted(
        {rate["threads"] for rate in host["ram_read"]})
    assert host["ram_read"][0]["threads"] == 1 and host["ram_read"][-1]["threads"] == host["cores"]
    assert all(rate["bytes_per_s"] > 1e7 for rate in host["ram_read"])
    assert all(0 < rate["slowest_bytes_per_s"] <= rate["bytes_per_s"] <= rate["fastest_bytes_per_s"]
               for rate in host["ram_read"])
    assert 0 < found["available_share"] <= 1
    assert 0 < host["sparse_row_share"] <= 1
    assert host["multiply_adds_per_s"] > 1e6


def test_a_kept_machine_is_read_back_and_reported_as_such(measured):
    cache, found = measured
    again = probe(cache, "--json")
    assert again.returncode == 0 and again.stderr == ""
    read = json.loads(again.stdout)
    assert read == {**found, "measured_now": False, "available_share": read["available_share"]}
    said = probe(cache).stdout
    assert found["host"]["cpu"] in said and "multiply-adds/s" in said and "gpu        none" in said
    assert f"read from  {kept_file(cache)} (--fresh measures again)" in said


def test_the_kept_file_is_toml_with_the_same_figures(measured, tmp_path):
    cache, found = measured
    kept = tomllib.loads(kept_file(cache).read_text())
    out = tmp_path / "machine.toml"
    assert probe(cache, "--toml", out).returncode == 0
    for machine in (kept, tomllib.loads(out.read_text())):
        assert machine["name"] == found["name"]
        assert machine["host"]["multiply_adds_per_s"] == found["host"]["multiply_adds_per_s"]
        assert machine["host"]["ram_read"] == found["host"]["ram_read"]
    assert out.stat().st_mode & stat.S_IRUSR
    assert list(tmp_path.iterdir()) == [out]


def test_fresh_measures_again(measured):
    cache, _ = measured
    before = kept_file(cache).stat().st_ino
    done = probe(cache, "--fresh", "--json")
    assert json.loads(done.stdout)["measured_now"]
    assert kept_file(cache).stat().st_ino != before
    assert not json.loads(probe(cache, "--json").stdout)["measured_now"]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign"])
def test_damage_is_reported_and_repaired(measured, damage):
    cache, _ = measured
    file = kept_file(cache)
    text = file.read_bytes()
    file.write_bytes({"cut": text[:-20], "flipped": text[:200] + bytes([text[200] ^ 1]) + text[201:],
                      "empty": b"", "foreign": os.urandom(3000)}[damage])
    done = probe(cache, "--json")
    assert done.returncode == 0
    assert str(file) in done.stderr and "measured again" in done.stderr and len(done.stderr.splitlines()) == 1
    assert json.loads(done.stdout)["measured_now"]
    assert probe(cache, "--json").stderr == ""


def test_works_without_a_home():
    done = probe(None, "--json")
    assert done.returncode == 0
    assert "What is measured is not kept: neither XDG_CACHE_HOME nor HOME names a folder." in done.stderr
    found = json.loads(done.stdout)
    assert found["file"] is None and found["host"]["multiply_adds_per_s"] > 0


def test_works_with_a_home_that_cannot_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = probe(blocked, "--json")
    assert done.returncode == 0 and "What is measured is not kept: " in done.stderr
    assert json.loads(done.stdout)["file"] is None


def test_processors_that_may_be_used_are_part_of_what_a_machine_is(measured):
    cache, found = measured
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("not run: one processor")
    cpu = min(os.sched_getaffinity(0))
    fewer = subprocess.run(["taskset", "-c", str(cpu), str(pathlib.Path(BUILD) / "hearth-profiler"), "probe",
                            "--json"],
                           capture_output=True, text=True, timeout=300, env=environment(cache))
    other = json.loads(fewer.stdout)
    assert other["measured_now"] and other["host"]["cores"] == 1 and other["file"] != found["file"]
    pathlib.Path(other["file"]).unlink()
    assert not json.loads(probe(cache, "--json").stdout)["measured_now"]


def test_bench_and_plan_predict_with_the_rate_that_was_probed(measured, tmp_path):
    cache, _ = measured
    found = json.loads(probe(cache, "--json").stdout)  # other tests measure again
    rate = max(rate["bytes_per_s"] for rate in found["host"]["ram_read"])
    program = str(pathlib.Path(BUILD) / "hearth-profiler")
    model = pathlib.Path(__file__).resolve().parents[1] / "data/arch/llama.gguf"

    def run(folder, *arguments):
        done = subprocess.run([program, *map(str, arguments), "--model", str(model)], capture_output=True,
                              text=True, timeout=300, env=environment(folder))
        assert done.returncode == 0, done.stderr
        return done.stdout

    short = ("bench", "--prompt", 20, "--generate", 8, "--repeat", 1)
    assert f"read at {rate / 1e9:.1f} GB/s (" in " ".join(run(cache, "plan").split())  # lines are wrapped
    assert "if no other program ran" in run(cache, *short)
    assert json.loads(run(cache, *short, "--json"))["planned_decode_tokens_per_s"] > 0
    # bench does not probe a machine that is unknown
    assert "if no other program ran" not in run(tmp_path, *short)
    assert not list(tmp_path.glob("hearth/machine-*"))


def test_two_probes_at_once_leave_one_intact_file(tmp_path):
    command = [str(pathlib.Path(BUILD) / "hearth-profiler"), "probe", "--json"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(tmp_path))
            for _ in range(2)]
    found = [json.loads(process.communicate(timeout=300)[0]) for process in both]
    assert all(process.returncode == 0 for process in both)
    kept = json.loads(probe(tmp_path, "--json").stdout)
    assert not kept["measured_now"]
    assert kept["host"] in [one["host"] for one in found]
    kept_file(tmp_path)


def interrupted(cache):
    """The output of a probe that was interrupted as soon as it had a folder to store things in, or None if it
    had ended."""
    process = subprocess.Popen([str(pathlib.Path(BUILD) / "hearth-profiler"), "probe"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=environment(cache))
    deadline = time.monotonic() + 60
    while not (cache / "hearth").exists() and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    return None if process.returncode == 0 else (process.returncode, out, said)


def test_ctrl_c_leaves_nothing_behind(tmp_path):
    for attempt in range(5):  # a busy machine may let the probe finish before this test continues
        cache = tmp_path / str(attempt)
        cache.mkdir()
        if (end := interrupted(cache)) is not None:
            assert end == (128 + signal.SIGINT, "", "hearth-profiler: interrupted.\n")
            assert list((cache / "hearth").iterdir()) == []
            return
    pytest.fail("the probe always ended before it could be interrupted")


@pytest.mark.parametrize("arguments",
                         [["--toml", "/none/m.toml"], ["--toml", "/dev/null"], ["--toml"], ["extra"]])
def test_mistakes_are_refused(measured, arguments):
    cache, _ = measured
    done = probe(cache, *arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr and "terminate" not in done.stderr


@pytest.mark.skipif(not EMULATED.exists(), reason="hearth_profiler_emulated is not built")
def test_an_emulated_gpu(tmp_path):
    small = {"CUDAEMU_VRAM_MB": "128"}  # it copies as fast as this machine's memory
    found = json.loads(probe(tmp_path, "--json", program=EMULATED, **small).stdout)
    gpu = found["gpu"]
    assert gpu["name"] == "emulated" and gpu["compute_capability"] == "8.0" and gpu["vram_bytes"] == 128 << 20
    assert all(gpu[rate] > 0 for rate in RATES)
    said = probe(tmp_path, program=EMULATED, **small).stdout
    assert "read from" in said and "us to the CPU and back" in said
    assert tomllib.loads(kept_file(tmp_path).read_text())["gpu"]["round_trip_s"] == gpu["round_trip_s"]


@pytest.mark.skipif(not EMULATED.exists(), reason="hearth_profiler_emulated is not built")
@pytest.mark.parametrize("fault, said", [({"CUDAEMU_VRAM_TAKEN_MB": "120"}, "too little free memory"),
                                         ({"CUDAEMU_FAIL": "cudaGraphLaunch:0:999"},
                                          "could not be measured")])
def test_a_gpu_that_cannot_be_measured_is_left_out_and_not_remembered(tmp_path, fault, said):
    done = probe(tmp_path, "--json", program=EMULATED, CUDAEMU_VRAM_MB="128", **fault)
    assert done.returncode == 0, done.stderr
    assert said in done.stderr and "left out" in done.stderr
    found = json.loads(done.stdout)
    assert found["gpu"] is None and found["file"] is None
    assert list((tmp_path / "hearth").iterdir()) == []
