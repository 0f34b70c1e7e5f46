"""A first start measures the machine's speed and which neurons are active, and places the model accordingly.

Runs on the emulated GPU, whose memory is smaller than the model.
"""
import os
import hashlib
import pathlib
import re
import shutil
import signal
import time

import httpx
import pytest

import hearthd

RELU = hearthd.ROOT / "tests/data/relu/relu-5m-q4_0.powerinfer.gguf"
SMALL = ("--context", "512", "--slots", "1", "--prefill-chunk", "64", "--device", "cuda")
BUDGET = ("--vram-budget", "0.0045")  # GiB: three of four layers, and some of their neurons

pytestmark = pytest.mark.skipif(not hearthd.EMULATED.exists(), reason="not run: NVIDIA's headers are missing")


@pytest.fixture
def start(tmp_path):
    servers = []
    alone = tmp_path / "model.gguf"  # the repository's copy has activity files beside it
    shutil.copy(RELU, alone)

    def make(*flags, cache=tmp_path / "cache", profile="auto", model=alone, env=None):
        server = hearthd.Hearthd(*SMALL, *BUDGET, *flags, model=model, binary=hearthd.EMULATED,
                                 env={"XDG_CACHE_HOME": str(cache), "HEARTH_PROFILE": profile, **(env or {})})
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.kill()


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    """What a first start stores, and the model's answer: (folder, text). Tests change a copy."""
    folder = tmp_path_factory.mktemp("profiled")
    cache, alone = folder / "cache", folder / "model.gguf"
    shutil.copy(RELU, alone)
    server = hearthd.Hearthd(*SMALL, *BUDGET, model=alone, binary=hearthd.EMULATED,
                             env={"XDG_CACHE_HOME": str(cache), "HEARTH_PROFILE": "auto"})
    try:
        answer = text(server)
        wait_for(server, "placed by profile")
        stop(server)
    finally:
        server.kill()
    return cache, answer


def text(server, prompt="Once upon a time", n=12):
    answer = httpx.post(server.url + "/v1/completions", timeout=hearthd.PATIENCE,
                        json={"prompt": prompt, "max_tokens": n, "temperature": 0})
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["text"]


def wait_for(server, words):
    return hearthd.wait_until(lambda: next((line for line in server.lines if words in line), None), words)


def stop(server):
    server.signal()
    assert server.wait() == 0, server.log()


def kept(cache):
    return sorted(path.name
                  for path in (pathlib.Path(cache) / "hearth").glob("*") if not path.name.startswith("."))


def gpu_lines(server):
    return [line[line.index("GPU: "):] for line in server.lines if re.search(r"\bGPU: \d", line)]


def test_a_first_start_profiles_itself_and_the_next_finds_that(start, tmp_path):
    server = start()
    before = text(server)
    wait_for(server, "placed by profile")
    assert text(server) == before  # the placement changes no text
    neutral, placed = gpu_lines(server)
    stop(server)
    machine, activity = sorted(kept(tmp_path / "cache"), key=lambda name: name.endswith(".activity"))
    assert machine.startswith("machine-") and machine.endswith(".toml") and activity.endswith(".activity")

    assert ".activity" not in server.log()
    again = start()
    assert gpu_lines(again) == [placed]
    assert activity in again.log()  # the log names the activity by which neurons were laid out
    assert text(again) == before
    wait_for(again, "profiled")
    assert "placed by profile" not in again.log()
    assert "machine=known" in again.log() and "counted_tokens=0" in again.log()
    stop(again)


def test_on_a_machine_where_sharing_pays_the_solver_places_it(start, profiled, tmp_path):
    cache, before = profiled
    shutil.copytree(cache, tmp_path / "cache")
    # With the emulator's real figures, sharing work never pays. So change the stored figures: slow memory of
    # the CPU, and a GPU with fast memory, multiplications and hand-overs.
    [file] = (tmp_path / "cache/hearth").glob("machine-*.toml")
    head, figures = file.read_text().split("\n", 1)
    for line in ("launch_s = 1e-8", "round_trip_s = 1e-7", "vram_bytes_per_s = 9e11",
                 "to_device_pinned_bytes_per_s = 25e9"):
        figures, n = re.subn(rf"(?m)^{line.split()[0]} = \S+", line, figures)
        assert n == 1, line
    host, gpu = figures.split("[gpu]")
    gpu, n = re.subn(r"(?m)^multiply_adds_per_s = \S+", "multiply_adds_per_s = 1e13", gpu)
    assert n == 1
    figures = host + "[gpu]" + gpu
    figures, n = re.subn(r"(?m)^ram_read = \[[^]]*\]", "ram_read = [{ threads = 1, bytes_per_s = 1e9 }]",
                         figures)
    assert n == 1
    file.write_text(
        re.sub("[0-9a-f]{64}", hashlib.sha256(figures.encode()).hexdigest(), head) + "\n" + figures)
    again = start()
    [solved] = [line for line in again.lines if "placement solved" in line]
    assert int(re.search(r"active_on_gpu_percent=(\d+)", solved)[1]) > 20
    assert float(re.search(r"expected_tokens_per_s=\"?([\d.,]+)", solved)[1].replace(",", "")) > 1
    assert float(re.search(r"hot \(([\d.]+) % of all\)", again.log())[1]) > 5
    assert text(again) == before
    stop(again)


@pytest.mark.nightly  # like the next test, but with longer texts
def test_requests_are_answered_while_it_measures(start):
    server = start()
    texts = [text(server, prompt) for prompt in ("The", "A dog", "Some years ago")]
    wait_for(server, "placed by profile")
    assert [text(server, prompt) for prompt in ("The", "A dog", "Some years ago")] == texts


def test_profiling_progresses_between_endless_requests(start):
    server = start()
    n_requests, end = 0, time.monotonic() + 2 * hearthd.PATIENCE
    while not any("placed by profile" in line for line in server.lines):
        text(server, n=2)
        n_requests += 1
        time.sleep(0.1)
        assert time.monotonic() < end, server.log()
    assert n_requests > 1


def test_a_signal_skips_profiling(start, tmp_path):
    server = start()
    announced = wait_for(server, "profiling begins")
    pid = int(re.search(r"kill -USR1 (\d+)", announced)[1])
    assert pid == server.process.pid and "--profile off" in announced
    os.kill(pid, signal.SIGUSR1)
    wait_for(server, "profiling is skipped")
    text(server)
    os.kill(pid, signal.SIGUSR1)
    wait_for(server, "there is no profiling to skip")
    text(server)
    stop(server)
    assert "placed by profile" not in server.log()


def test_served_tokens_are_counted_on_the_gpu(start, tmp_path):
    server = start("--sparsity", "exact", profile="online")
    wait_for(server, "placed by profile")  # counting then continues
    text(server, n=100)
    stop(server)
    counted = int(re.search(r"counted_tokens=(\d+).*\bfile=", server.log())[1])
    assert 2 <= counted <= 8  # two steps of every 64
    assert "is not counted" not in server.log() and "no longer counted" not in server.log()


def test_profiling_that_is_off_measures_nothing(start, tmp_path):
    server = start(profile="off")
    text(server)
    stop(server)
    assert not kept(tmp_path / "cache") and "profil" not in "".join(
        line for line in server.lines if " hearthd " not in line)  # which has the flag


@pytest.mark.parametrize("damage", [pytest.param(b"", marks=pytest.mark.nightly),
                                    pytest.param(b"garbage", marks=pytest.mark.nightly), None])
def test_damaged_caches_are_made_anew(start, profiled, tmp_path, damage):
    cache, expected = profiled
    shutil.copytree(cache, tmp_path / "cache")
    for path in (tmp_path / "cache/hearth").iterdir():
        if path.is_file() and not path.name.startswith("."):
            whole = path.read_bytes()
            path.write_bytes(whole[:len(whole) // 2] if damage is None else damage)
    again = start()
    assert text(again) == expected
    wait_for(again, "placed by profile")
    assert "machine=measured" in again.log()
    stop(again)


def test_without_a_folder_to_keep_it_in_the_model_is_served_all_the_same(start, tmp_path):
    (tmp_path / "file").write_text("no folder")
    server = start(cache=tmp_path / "file")
    text(server)
    stop(server)


@pytest.mark.nightly
def test_two_servers_starting_at_once_do_not_disturb_each_other(start, tmp_path):
    servers = [start(), start()]
    for server in servers:
        wait_for(server, "placed by profile")
    texts = {text(server) for server in servers}
    assert len(texts) == 1
    for server in servers:
        stop(server)
    again = start()
    wait_for(again, "profiled")
    assert "machine=known" in again.log() and {text(again)} == texts


def test_a_stop_ends_a_measurement_at_once(start):
    server = start()
    stop(server)
