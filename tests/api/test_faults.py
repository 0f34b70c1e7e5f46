"""Clients that do not read, send nothing or are killed; a server that is stopped or frozen, or runs out of
disk space; a model file that is cut. docs/running.md lists what the server promises."""
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys

import httpx
import pytest

import hearthd

# fits the small model's context of 512
LONG = {"prompt": "The", "max_tokens": 480, "temperature": 0, "ignore_eos": True}
# slow enough that a test still finds its load running
SLOW = ("--isa", "scalar", "--threads", "1", "--speculate", "off", "--prefill-chunk", "1")
SHORT = {"prompt": "The", "max_tokens": 8, "temperature": 0, "ignore_eos": True}


def complete(server, **fields):
    return httpx.post(server.url + "/v1/completions", json={**SHORT, **fields}, timeout=hearthd.PATIENCE)


def n_descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def is_free(server):
    status, body = server.health()
    metrics = httpx.get(server.url + "/metrics", timeout=hearthd.PATIENCE).text
    used = sum(float(value) for value in re.findall(r'hearth_kv_tokens\{.*state="used".*\} (\S+)', metrics))
    return status == 200 and body["slots"]["running"] == body["waiting"] == used == 0


# ---- clients ----

def test_clients_that_do_not_read_block_no_slot_and_no_other_client(small):
    server = small("--slots", "2", "--queue", "16")
    slow = []
    try:
        for _ in range(12):  # each is sent megabytes, but its buffers hold some kilobytes
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", server.port))
            connection.sendall(hearthd.post("/v1/completions",
                                            json.dumps({**LONG, "stream": True, "logprobs": 5, "n": 4})))
            slow.append(connection)
        assert complete(server).status_code == 200
        hearthd.wait_until(lambda: is_free(server), "slots and KV memory to be free, though nothing was read")
        assert complete(server, stream=True).text.endswith("data: [DONE]\n\n")
    finally:
        for connection in slow:
            connection.close()


@pytest.mark.parametrize("limit", [None, 200])
def test_thousands_of_silent_connections_keep_no_client_out(small, limit):
    """limit: the limit on the server's descriptors; 200 is fewer than the crowd would use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4000:
        pytest.skip("this process may not open 4,000 descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(4000, soft), hard))
    server = small()
    complete(server)
    before = n_descriptors(server)
    if limit:
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
    crowd = []
    try:
        for number in range(3000):
            crowd.append(server.connect())
            if number % 3 == 1:
                crowd[-1].sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX: ")
            if number % 500 == 499:
                assert complete(server).status_code == 200
                assert server.health()[0] == 200
        assert n_descriptors(server) <= (limit or 1000 + before + 16)
    finally:
        for connection in crowd:
            connection.close()
    hearthd.wait_until(lambda: n_descriptors(server) <= before, "the crowd's descriptors to be closed")


@pytest.mark.parametrize("hard, expected", [(None, 1000 + 4 + 512 + 128 + 64), (600, 600)])
def test_a_low_limit_on_descriptors_is_raised_or_reported(small, tmp_path, hard, expected):
    """The usual limit of a shell or of systemd is soft 256. Expects one descriptor for each waiting
    connection and each request."""
    wrapper = tmp_path / "limited"
    wrapper.write_text(f"#!/bin/sh\nulimit -S -n 256\n{f'ulimit -H -n {hard}' if hard else ''}\n"
                       f"exec '{hearthd.BINARY}' \"$@\"\n")
    wrapper.chmod(0o755)
    server = small(binary=wrapper)
    assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[0] == expected
    assert (f"limit={expected}" in server.log() and "fewer open descriptors" in server.log()) == bool(hard)


KILLED = """
import socket, sys, time
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connection.sendall(bytes.fromhex(sys.argv[2]))
if sys.argv[3] == "read":
    while b"data: " not in connection.recv(65536):
        pass
print("there", flush=True)
time.sleep(600)
"""
LONG_PROMPT = {"prompt": [300 + i for i in range(500)], "max_tokens": 8, "stream": True}
PHASES = {
    "connect": (b"", "wait"),
    "head": (b"POST /v1/completions HTTP/1.1\r\nHost: lo", "wait"),
    "body": (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{", "wait"),
    "queue": (hearthd.post("/v1/completions", json.dumps(SHORT)), "wait"),
    "prefill": (hearthd.post("/v1/completions", json.dumps(LONG_PROMPT)), "wait"),
    "whole": (hearthd.post("/v1/completions", json.dumps(LONG)), "wait"),
    "stream": (hearthd.post("/v1/completions", json.dumps({**LONG, "stream": True})), "read"),
}


@pytest.mark.parametrize("phase", PHASES)
def test_killed_clients_leave_nothing_behind(small, phase):
    server = small("--slots", "1", "--queue", "32", *SLOW)
    complete(server)
    hearthd.wait_until(lambda: is_free(server), "the slot to be free")
    before = n_descriptors(server)
    data, reads = PHASES[phase]
    holder = server.connect()
    if phase == "queue":
        holder.sendall(hearthd.post("/v1/completions", json.dumps(LONG)))
        hearthd.wait_until(lambda: server.n_running() == 1, "the slot to be taken")
    clients = [subprocess.Popen([sys.executable, "-c", KILLED, str(server.port), data.hex(), reads],
                                stdout=subprocess.PIPE)
               for _ in range(1 if reads == "read" else 6)]
    try:
        for client in clients:
            assert client.stdout.readline() == b"there\n"
        if phase == "queue":
            hearthd.wait_until(lambda: server.health()[1]["waiting"] > 0, "requests to wait")
    finally:
        for client in clients:
            client.kill()
            client.wait()
            client.stdout.close()
    holder.close()
    hearthd.wait_until(lambda: is_free(server) and n_descriptors(server) <= before,
                       "slots, KV memory and descriptors to be free")
    assert complete(server).status_code == 200


# ---- the process ----

def stream_text(server, number):
    """The text of a stream of its own seed; raises if the stream is not whole."""
    body = {"prompt": f"Number {number}", "max_tokens": 200, "seed": number, "temperature": 1,
            "ignore_eos": True, "stream": True}
    answer = httpx.post(server.url + "/v1/completions", json=body, timeout=hearthd.PATIENCE)
    assert answer.status_code == 200 and answer.text.endswith("data: [DONE]\n\n"), answer.text[-300:]
    parts = [json.loads(line.removeprefix("data: "))
             for line in answer.text.splitlines() if line.startswith("data: {")]
    return "".join(choice["text"] for part in parts for choice in part["choices"])


def test_a_server_that_is_frozen_under_load_goes_on(small):
    server = small("--slots", "3", *SLOW)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(stream_text, server, number) for number in range(8)]
        for _ in range(4):
            hearthd.wait_until(lambda: server.n_running() > 0 or all(a.done() for a in answers),
                               "the load to run")
            server.signal(signal.SIGSTOP)
            stat = pathlib.Path(f"/proc/{server.process.pid}/stat")
            hearthd.wait_until(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T",
                               "the server to be frozen")
            server.signal(signal.SIGCONT)
        together = [answer.result() for answer in answers]
    assert together == [stream_text(server, number) for number in range(8)]


@pytest.mark.parametrize("drain", ["600", "0"])
def test_a_stop_under_load_leaves_every_answer_complete_or_reported_as_cut(small, drain):
    """With drain 600 all accepted requests are finished. With 0, answers that are cut off say so, or their
    connection breaks."""
    server = small("--slots", "2", "--kv-contexts", "2", "--queue", "64", "--drain-seconds", drain, *SLOW)

    def ask(number):
        stream = number % 2 == 0
        with server.connect() as connection:
            connection.sendall(hearthd.post("/v1/completions", json.dumps(
                {**LONG, "max_tokens": 200, "prompt": f"Number {number}", "stream": stream})))
            text = hearthd.read_all(connection)
        if text.startswith("HTTP/1.1 503"):
            return "refused"
        if ("[DONE]" in text if stream
            else '"finish_reason":"length"' in text.replace(": ", ":") and text.rstrip().endswith("}")):
            return "whole"
        return ("told" if '"error"' in text or not text.endswith("0\r\n\r\n")
                else f"cut without a word: {text[-300:]}")

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        answers = [pool.submit(ask, number) for number in range(12)]
        hearthd.wait_until(lambda: (body := server.health()[1])["slots"]["running"] == 2
                                   and body["waiting"] > 4, "the load to run")
        server.signal()
        ends = [answer.result() for answer in answers]
    assert server.wait() == 0
    assert set(ends) <= ({"whole", "refused"} if drain == "600" else {"whole", "refused", "told"}), ends
    assert ends.count("whole" if drain == "600" else "told") > 3, ends


def test_only_dates_are_taken_from_the_wall_clock():
    """A clock that jumps must change no wait and no deadline. Each of these writes a date."""
    dates = {"server/api/api_context.cpp", "server/embedding_model.cpp",
             "server/http/http_server.cpp", "server/jinja/template.cpp",
             "server/models/pull.cpp", "server/process/logging.cpp", "server/serving_model.cpp",
             "profiler/commands/report_command.cpp",
             "engine/kv/block_files.h", "engine/serving/disk_prefixes.cpp"}
    asks = re.compile(
        r"system_clock|CLOCK_REALTIME\b|\btime\(nullptr\)|gettimeofday|file_clock::now|high_resolution_clock")
    found = {str(path.relative_to(hearthd.ROOT))
             for folder in ("server", "profiler", "engine", "kernels", "config")
             for path in (hearthd.ROOT / folder).rglob("*")
             if path.suffix in (".cpp", ".h", ".cu", ".cuh") and asks.search(path.read_text())}
    assert found == dates


# ---- the disk ----

def run_until_cut(server, path, bytes_left):
    """Requests that run while the model's file is cut, and the result of each."""
    def ask(stream):
        with server.connect() as connection:
            connection.sendall(hearthd.post("/v1/completions", json.dumps({**LONG, "stream": stream})))
            return hearthd.read_all(connection)

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = [pool.submit(ask, number % 2 == 0) for number in range(6)]
        hearthd.wait_until(lambda: server.health()[1]["waiting"] > 0, "requests to run and to wait")
        os.truncate(path, bytes_left)
        return [answer.result() for answer in answers]


@pytest.mark.parametrize("share", [0.5, 0])
def test_a_model_file_that_is_cut_ends_the_server_with_a_sentence(small, tmp_path, share):
    model = tmp_path / "model.gguf"
    shutil.copy(hearthd.SMALL_MODEL, model)
    server = small("--slots", "2", "--sparsity", "dense", *SLOW, "--threads", "2", model=model)
    answers = run_until_cut(server, model, int(model.stat().st_size * share))
    assert server.wait() == 1, server.log()
    reason = "model.gguf: the file was cut short while it was in use"
    assert [line for line in server.lines
            if " error " in line and reason in line and "the engine has failed" in line], server.log()
    told = [answer for answer in answers if reason in answer]
    assert len(told) >= 4, answers  # all but those that had finished before
    for answer in told:
        assert "engine_failed" in answer and "[DONE]" not in answer, answer[-500:]


def test_a_full_disk_loses_the_profile_and_nothing_else(small, tmp_path):
    server = small("--profile", "online", env={"XDG_CACHE_HOME": str(tmp_path)})
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
    for _ in range(3):
        assert complete(server, max_tokens=64).status_code == 200
    server.signal()
    assert server.wait() == 0, server.log()
    assert [line for line in server.lines
            if " warning " in line and str(tmp_path) in line and "File too large" in line], server.log()
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size > 0]
    assert not left, left  # the next start would trust half a file


def test_a_full_disk_loses_the_trace_and_is_reported(small, tmp_path):
    trace = tmp_path / "trace.json"
    server = small("--trace", trace)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
    assert complete(server).status_code == 200
    server.signal()
    assert server.wait() == 1
    assert [line for line in server.lines
            if " error " in line and str(trace) in line and "File too large" in line], server.log()


# ---- memory ----

@pytest.fixture()
def memory_group():
    """limit(bytes) -> the folder of a control group with that limit; skips if this process may not create
    one."""
    v1, v2 = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")
    controls = v2 / "cgroup.subtree_control"
    is_v2 = controls.exists() and "memory" in controls.read_text().split()
    made = []

    def limit(n_bytes):
        folder = (v2 if is_v2 else v1) / f"hearth-test-{os.getpid()}-{len(made)}"
        try:
            folder.mkdir()
            made.append(folder)
            (folder / ("memory.max" if is_v2 else "memory.limit_in_bytes")).write_text(str(n_bytes))
        except OSError as error:
            pytest.skip(f"no control group with a memory limit can be made here: {error}")
        return folder

    yield limit
    for folder in made:
        hearthd.wait_until(lambda: not (folder / "cgroup.procs").read_text(), "the group's processes to end")
        folder.rmdir()


def n_killed(group):
    """How many processes of the group the kernel has killed for memory."""
    events = next(path for path in (group / "memory.events", group / "memory.oom_control") if path.exists())
    return int(re.search(r"^oom_kill (\d+)", events.read_text(), re.MULTILINE).group(1))


@pytest.mark.parametrize("mib, serves", [(10, False), (20, False), (40, True)])
def test_a_memory_limit_is_a_sentence_at_start_or_holds_in_service(memory_group, tmp_path, mib, serves):
    """20 MiB would hold keys, values and work space, but not the rest of the process."""
    group, wrapper = memory_group(mib << 20), tmp_path / "limited"
    wrapper.write_text(f"#!/bin/sh\necho $$ > {group}/cgroup.procs\nexec '{hearthd.BINARY}' \"$@\"\n")
    wrapper.chmod(0o755)
    if not serves:
        result = hearthd.run(["--port", "0", "--model", hearthd.SMALL_MODEL], binary=wrapper)
        assert (result.returncode, n_killed(group)) == (2, 0), result.stderr
        assert f"this process may use {(mib << 20) / 1e6:.1f} MB in all" in result.stderr.splitlines()[-1]
        return
    server = hearthd.Hearthd("--queue", "64", model=hearthd.SMALL_MODEL, binary=wrapper)
    try:
        # fills the pool of keys and values several times
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            answers = list(pool.map(lambda n: complete(server, prompt=[300 + n] * 450, n=2, logprobs=3),
                                    range(64)))
        assert {answer.status_code for answer in answers} == {200}
        assert (server.process.poll(), n_killed(group)) == (None, 0)
    finally:
        server.kill()
