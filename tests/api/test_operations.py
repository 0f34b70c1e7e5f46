"""Features for operators: probes, signals, logs, changing keys, checks before a start, the sandbox."""
import json
import os
import pathlib
import pty
import re
import resource
import signal
import subprocess

import httpx
import pytest

import hearthd

SMALL_MODEL = hearthd.SMALL_MODEL
TRACE = "0af7651916cd43dd8448eb211c80319c"
SECRET = "xylophone-quince-zeppelin"


@pytest.fixture(scope="module")
def shared():
    server = hearthd.Hearthd("--log-format", "json", "--log-level", "debug", model=SMALL_MODEL)
    yield server
    server.kill()


def complete(server, headers=None, **fields):
    return httpx.post(server.url + "/v1/completions",
                      json={"prompt": "a", "max_tokens": 2, "temperature": 0, **fields},
                      headers=headers, timeout=hearthd.PATIENCE)


def models(server, key=None):
    headers = {"X-Api-Key": key} if key else None
    return httpx.get(server.url + "/v1/models", headers=headers, timeout=hearthd.PATIENCE).status_code


def line_of(server, request_id):
    """The access line of a request, from a log in JSON."""
    def find():
        return next((line for line in server.lines if f'"id":"{request_id}"' in line and '"status"' in line),
                    None)
    return json.loads(hearthd.wait_until(find, "the access line"))


def reload(server):
    """Triggers a reload and waits until the log says that it is done."""
    before = sum("SIGHUP: reloaded" in line for line in server.lines)
    server.signal(signal.SIGHUP)
    hearthd.wait_until(lambda: sum("SIGHUP: reloaded" in line for line in server.lines) > before,
                       "the reload")


# ---- probes ----

def test_probes_need_no_key_and_distinguish_alive_from_ready(small):
    server = small(wait=False, env={"HEARTH_API_KEY": "k"})
    seen = set()

    def is_ready():
        live = httpx.get(server.url + "/livez", timeout=hearthd.PATIENCE)
        assert (live.status_code, live.json()) == (200, {"status": "ok"})
        answer = httpx.get(server.url + "/readyz", timeout=hearthd.PATIENCE)
        seen.add((answer.status_code, answer.json()["status"]))
        if answer.status_code == 503:
            assert "being loaded" in answer.json()["message"] and 0 <= answer.json()["progress"] <= 1
            assert answer.headers["retry-after"] == "1"
        return answer.status_code == 200

    hearthd.wait_until(is_ready, "the model to be loaded")
    assert seen <= {(503, "loading"), (200, "ok")}
    assert httpx.post(server.url + "/livez", timeout=hearthd.PATIENCE).status_code == 405
    assert httpx.get(server.url + "/v1/readyz", timeout=hearthd.PATIENCE).status_code == 200


# ---- keys that change ----

def test_keys_have_names_and_roles(small, tmp_path):
    keys = tmp_path / "keys"
    hashed = subprocess.run([hearthd.BINARY, "--hash-key"], input="k-hashed-and-long-enough\n",
                            capture_output=True, text=True, timeout=hearthd.PATIENCE)
    assert hashed.returncode == 0 and hashed.stderr == "" and "k-hashed" not in hashed.stdout
    keys.write_text(f"k-plain\nname=ops role=admin key=k-ops\n{hashed.stdout}")
    server = small("--api-key-file", keys, "--log-format", "json", env={"HEARTH_API_KEY": "k-env"})
    for key, name in [("k-plain", "line-1"), ("k-hashed-and-long-enough", hashed.stdout.split()[0][5:]),
                      ("k-env", "environment")]:
        answer = complete(server, headers={"Authorization": f"Bearer {key}", "x-request-id": f"with-{name}"})
        assert answer.status_code == 200
        assert line_of(server, f"with-{name}")["key"] == name
    refused = complete(server, headers={"X-Api-Key": "k-ops", "x-request-id": "as-ops"})
    assert refused.status_code == 403 and refused.json()["error"]["code"] == "role_missing"
    assert line_of(server, "as-ops")["key"] == "ops"
    complete(server, headers={"X-Api-Key": "k-guessed", "x-request-id": "guess"})
    assert "key" not in line_of(server, "guess")
    assert httpx.get(server.url + "/admin/x", headers={"X-Api-Key": "k-plain"},
                     timeout=hearthd.PATIENCE).status_code == 403
    assert httpx.get(server.url + "/admin/x", headers={"X-Api-Key": "k-ops"},
                     timeout=hearthd.PATIENCE).status_code == 404
    for secret in ("k-plain", "k-ops", "k-hashed", "k-env", "k-guessed"):
        assert secret not in server.log()


def test_hangup_loads_new_keys_and_refuses_bad_ones(small, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("first\n")
    server = small("--api-key-file", keys)
    assert models(server, "first") == 200
    new = tmp_path / "new"  # replaced by another file of the same name, as editors and secret stores do
    new.write_text("name=n key=second\n")
    new.rename(keys)
    reload(server)
    assert (models(server, "first"), models(server, "second")) == (401, 200)
    keys.write_text("name=n role=king key=third\n")
    reload(server)
    assert (models(server, "second"), models(server, "third")) == (200, 401)
    assert ("keys, line 1: role must list use, metrics or admin" in server.log()
            and "stay in effect" in server.log())
    keys.unlink()
    reload(server)
    assert models(server, "second") == 200
    server.signal()
    assert server.wait() == 0


def test_hangup_loads_the_log_level_and_names_settings_that_need_a_restart(small, tmp_path):
    config = tmp_path / "hearth.toml"
    config.write_text('log-level = "info"\nslots = 2\n')
    server = small("--config", config)
    complete(server, headers={"x-request-id": "one"})
    hearthd.wait_until(lambda: "id=one" in server.log(), "the access line")
    config.write_text('log-level = "warn"\nslots = 3\n')
    server.signal(signal.SIGHUP)
    hearthd.wait_until(lambda: "take effect at the next start options=slots" in server.log(), "the warning")
    complete(server, headers={"x-request-id": "two"})
    config.write_text('log-level = "loud"\n')
    server.signal(signal.SIGHUP)
    hearthd.wait_until(lambda: "every option keeps its value" in server.log(), "the refusal")
    config.write_text('log-level = "info"\n')
    server.signal(signal.SIGHUP)
    hearthd.wait_until(lambda: "SIGHUP: reloaded" in server.log(), "the reload")
    complete(server, headers={"x-request-id": "three"})
    hearthd.wait_until(lambda: "id=three" in server.log(), "the access line")
    assert "id=two" not in server.log()


def test_nohup_is_left_alone(small, tmp_path):
    process = subprocess.Popen(
        ["nohup", hearthd.BINARY, "--model", SMALL_MODEL, "--port", "0"], stderr=subprocess.PIPE, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=hearthd.clean_environment(), cwd=tmp_path)
    try:
        for line in process.stderr:
            if "load_ms" in line:
                break
        process.send_signal(signal.SIGHUP)
        # signals are handled one at a time; after the second of these SIGHUP has been handled
        for _ in range(2):
            process.send_signal(signal.SIGUSR1)
            assert "no profiling to skip" in next(line for line in process.stderr if " SIG" in line)
        process.terminate()
        assert "SIGHUP" not in process.stderr.read()
        assert process.wait(timeout=hearthd.PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


def test_a_server_whose_terminal_is_closed_stops(tmp_path):
    log = tmp_path / "log"
    master, slave = pty.openpty()

    def take_terminal():
        os.setsid()
        import fcntl
        import termios
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    process = subprocess.Popen([hearthd.BINARY, "--model", SMALL_MODEL, "--port", "0", "--log-file", log],
                               stdin=slave, stdout=slave, stderr=slave, env=hearthd.clean_environment(),
                               preexec_fn=take_terminal)
    try:
        os.close(slave)
        hearthd.wait_until(lambda: log.exists() and "load_ms" in log.read_text(), "the model to be loaded")
        process.send_signal(signal.SIGHUP)  # without a terminal SIGHUP means: reload
        hearthd.wait_until(lambda: "SIGHUP: reloaded" in log.read_text(), "the reload")
        os.close(master)
        assert process.wait(timeout=hearthd.PATIENCE) == 0
        assert "the terminal was closed" in log.read_text()
    finally:
        process.kill()
        process.wait()


# ---- logs ----

def test_the_access_line_says_who_what_and_how_it_ended(shared):
    traced = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "x-request-id": "traced"}
    assert complete(shared, headers=traced).status_code == 200
    line = line_of(shared, "traced")
    assert (line["trace_id"] == TRACE and line["finish_reason"] == "length"
            and line["model"] == SMALL_MODEL.stem)
    assert (line["generated_tokens"] == 2
            and {"prompt_tokens", "queue_ms", "prefill_ms", "decode_ms", "ms", "client"} <= set(line))
    complete(shared,
             headers={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01-more", "x-request-id": "untraced"})
    assert "trace_id" not in line_of(shared, "untraced")
    httpx.post(shared.url + "/v1/embeddings", json={"input": "a"}, headers={"x-request-id": "vector"},
               timeout=hearthd.PATIENCE)
    assert line_of(shared, "vector")["model"] == SMALL_MODEL.stem


def test_the_model_in_the_log_is_a_served_name_whatever_a_client_calls_it(small):
    server = small("--alias", "*", "--log-format", "json")
    called = "m" * 100_000
    assert complete(server, model=called, headers={"x-request-id": "text"}).status_code == 200
    answer = httpx.post(server.url + "/v1/embeddings", json={"input": "a", "model": called},
                        headers={"x-request-id": "vector"}, timeout=hearthd.PATIENCE)
    assert answer.status_code == 200
    for name in ("text", "vector"):
        assert line_of(server, name)["model"] == SMALL_MODEL.stem


FORGED = "a\r\nforged line\x1b[2J\u2028forged line\u2029\x9b"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_nothing_a_client_sends_forges_a_line_or_drives_a_terminal(small, tmp_path, log_format):
    log = tmp_path / "log"
    server = small("--log-format", log_format, "--log-file", log, "--log-level", "debug", wait=False,
                   log_file=log)
    quoted = "".join(f"%{byte:02x}" for byte in FORGED.encode())
    httpx.get(f"{server.url}/{quoted}", timeout=hearthd.PATIENCE)
    httpx.get(f"{server.url}/v1/models/{quoted}", timeout=hearthd.PATIENCE)
    complete(server, model=FORGED)
    # No HTTP library sends these; the transport accepts bytes above ASCII, but no control characters.
    raw = "Host: localhost\r\nConnection: close\r\n".encode()
    for header in (b"x-request-id: a\xe2\x80\xa8forged line\r\n", b"User-Agent: \x1b[2J\r\n",
                   b"User-Agent: \xe2\x80\xa8forged line\r\n", b"X-Api-Key: a\rforged line\r\n",
                   b"traceparent: \xe2\x80\xa8forged line\r\n"):
        server.ask(b"GET /v1/models HTTP/1.1\r\n" + raw + header + b"\r\n")
    server.signal()
    assert server.wait() == 0
    data = log.read_bytes()
    assert data.endswith(b"\n") and not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", data)
    text = data.decode()  # valid UTF-8
    for line in text.split("\n")[:-1]:
        assert line.splitlines() == [line], line  # Python splits at U+0085, U+2028 and U+2029 too
        assert not line.startswith("forged"), line
        assert json.loads(line) if log_format == "json" else re.match(r"\d{4}-\d\d-\d\d ", line), line
    assert "\x9b" not in text


def test_prompts_and_answers_are_never_logged(shared):
    complete(shared, prompt=SECRET, max_tokens=4, echo=True)
    complete(shared, prompt=[SECRET], stream=True)
    complete(shared, prompt="a", suffix=SECRET)
    complete(shared, prompt="a", stop=[SECRET], guided_regex=SECRET, user=SECRET, n="bad" + SECRET)
    post = lambda path, body: httpx.post(shared.url + path, json=body, timeout=hearthd.PATIENCE)
    chat = [{"role": "user", "content": SECRET},
            {"role": "assistant", "content": [{"type": "image_url", "image_url": SECRET}]}]
    post("/v1/chat/completions",
         {"messages": chat[:1], "tools": [{"type": "function", "function": {"name": SECRET}}]})
    post("/v1/chat/completions", {"messages": chat})
    post("/v1/messages", {"messages": chat[:1], "max_tokens": 2})
    post("/v1/responses", {"input": SECRET, "max_output_tokens": 2})
    post("/v1/embeddings", {"input": SECRET})
    post("/tokenize", {"content": SECRET})
    post("/api/generate", {"prompt": SECRET, "options": {"num_predict": 2}})
    httpx.post(shared.url + "/v1/completions", content=SECRET, timeout=hearthd.PATIENCE)
    httpx.get(shared.url + "/v1/models?q=" + SECRET, timeout=hearthd.PATIENCE)
    complete(shared, headers={"x-request-id": "the-last"})
    line_of(shared, "the-last")
    assert SECRET not in shared.log()


def test_the_log_goes_on_after_its_file_is_moved(small, tmp_path):
    log = tmp_path / "log"
    server = small("--log-file", log, wait=False, log_file=log)
    hearthd.wait_until(lambda: "load_ms" in log.read_text(), "the model to be loaded")
    log.rename(tmp_path / "log.1")
    server.signal(signal.SIGHUP)
    hearthd.wait_until(lambda: log.exists() and "SIGHUP: reloaded" in log.read_text(), "the new file")
    complete(server, headers={"x-request-id": "late"})
    hearthd.wait_until(lambda: "id=late" in log.read_text(), "the access line")
    assert "id=late" not in (tmp_path / "log.1").read_text()
    assert log.stat().st_mode & 0o137 == 0  # at most 0640
    server.signal()
    assert server.wait() == 0 and server.lines == []


def test_a_full_disk_loses_lines_and_nothing_else(small, tmp_path):
    log = tmp_path / "log"
    server = small("--log-file", log, wait=False, log_file=log)
    hearthd.wait_until(lambda: "load_ms" in log.read_text(), "the model to be loaded")
    size = log.stat().st_size
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size + 10, resource.RLIM_INFINITY))
    for _ in range(3):
        assert complete(server).status_code == 200
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE,
                     (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    complete(server)
    hearthd.wait_until(lambda: "log lines are missing here" in log.read_text(), "the line that says so")
    assert re.search(
        r"\d{4}-.* warning log lines are missing here.* dropped_lines=\d+ why=\"File too large\"\n",
        log.read_text())


def test_an_impossible_log_file_is_reported_in_one_sentence():
    result = hearthd.run(["--model", SMALL_MODEL, "--port", "0", "--log-file", "/nonexistent/log"])
    assert result.returncode == 2 and result.stderr.count("\n") == 1 and "--log-file" in result.stderr


# ---- before a start ----

def test_check_config_says_what_would_be_served(tmp_path):
    keys, template = tmp_path / "keys", tmp_path / "template"
    keys.write_text("name=ci role=use,metrics key=very-secret\n")
    keys.chmod(0o644)
    template.write_text("{{ messages[0].content }}")
    good = ["--check-config", "--model", SMALL_MODEL, "--api-key-file", keys,
            "--chat-template-file", template, "--alias", "m", "--port", "1"]
    result = hearthd.run(good)
    assert result.returncode == 0, result.stderr
    assert result.stderr == "" and "very-secret" not in result.stdout
    for part in ("http://127.0.0.1:1", f"model: m, {SMALL_MODEL.stem} (llama", "API keys: 1\n", "may read",
                 "  ci: use, metrics", "the configuration is good"):
        assert part in result.stdout, result.stdout
    keys.write_text("role=king key=very-secret\n")
    bad_keys = hearthd.run(good)
    assert (bad_keys.returncode == 2 and "line 1: role must list" in bad_keys.stderr
            and "very-secret" not in bad_keys.stderr)
    template.write_text("{% for %}")
    bad_template = hearthd.run(good)
    assert bad_template.returncode == 2 and str(template) in bad_template.stderr
    for arguments in (["--model", tmp_path / "none"], ["--port", "99999"], [], ["--model", template],
                      ["--config", tmp_path / "none"]):
        result = hearthd.run(["--check-config", *arguments])
        assert (result.returncode == 2 and result.stderr.count("\n") == 1
                and result.stdout == ""), result.stderr


def test_check_config_binds_nothing(small):
    server = small()
    assert hearthd.run(["--check-config", "--model", SMALL_MODEL, "--port", server.port]).returncode == 0


def test_the_version_is_one_line_of_facts():
    result = hearthd.run(["--version"])
    assert re.fullmatch(r"hearthd \d\S* \(commit \S+, \S+ \S+,( [a-z0-9-]+)+, (no CUDA|CUDA \d\S*)\)\n",
                        result.stdout), result.stdout
    assert " scalar," in result.stdout and str(hearthd.ROOT) not in result.stdout


def test_hash_key_refuses_what_is_no_key():
    for text in ("", "\n", "two words\n", "x" * 5000):
        result = subprocess.run([hearthd.BINARY, "--hash-key"], input=text, capture_output=True, text=True,
                                timeout=hearthd.PATIENCE)
        assert result.returncode == 2 and result.stdout == "", result.stdout
    short = subprocess.run([hearthd.BINARY, "--hash-key"], input="short\r\n", capture_output=True, text=True,
                           timeout=hearthd.PATIENCE)
    assert short.returncode == 0 and "openssl rand" in short.stderr
    assert short.stdout.endswith(
        "key=sha256:f9b0078b5df596d2ea19010c001bbd009e651de2c57e8fb7e355f31eb9d3f739\n")


# ---- the sandbox ----

def process_status(server, name):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(rf"^{name}:\s+(\d+)", status, re.MULTILINE).group(1))


def landlock_version(server):
    found = re.search(r"sandbox: files are confined landlock=(\d+)", server.log())
    return int(found.group(1)) if found else 0


def test_the_sandbox_is_on_by_default_in_every_thread(small):
    server = small()
    if "sandbox: system calls are not confined" in server.log():
        pytest.skip("this kernel takes no seccomp filter")
    complete(server)  # its worker is started late
    for thread in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        status = (thread / "status").read_text()
        assert (re.search(r"^Seccomp:\s+2$", status, re.MULTILINE)
                and re.search(r"^NoNewPrivs:\s+1$", status, re.MULTILINE))
    server.signal()
    assert server.wait() == 0


def test_the_sandbox_can_be_switched_off(small):
    server = small("--sandbox", "off")
    assert (process_status(server, "Seccomp"), process_status(server, "NoNewPrivs")) == (0, 0)
    assert "sandbox: off" in server.log()


def test_with_a_gpu_system_calls_are_denied_once_the_model_is_loaded(small):
    if not hearthd.EMULATED.exists():
        pytest.skip(f"{hearthd.EMULATED} is not built: it needs NVIDIA's headers")
    server = small("--log-level", "debug", binary=hearthd.EMULATED)
    if "sandbox: system calls are not confined" in server.log():
        pytest.skip("this kernel takes no seccomp filter")
    assert complete(server).status_code == 200
    assert "with a GPU files are not confined" in server.log() and landlock_version(server) == 0
    threads = [(thread / "status").read_text()
               for thread in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir()]
    assert len(threads) > 3 and all(re.search(r"^Seccomp:\s+2$", status, re.MULTILINE) for status in threads)
    server.signal()
    assert server.wait() == 0


def test_the_sandbox_keeps_what_serving_needs(small, tmp_path):
    """Profiles at the end, the plan, the trace, keys, options and the log: all of them are files that are
    opened late."""
    # no folder contains two files that are written
    names = ("cache", "logs/log", "keys", "hearth.toml", "traces/trace.json")
    cache, log, keys, config, trace = (tmp_path / name for name in names)
    log.parent.mkdir()
    trace.parent.mkdir()
    keys.write_text("first\n")
    config.write_text('log-level = "info"\n')
    has_landlock = landlock_version(small("--log-level", "debug"))
    server = small("--sandbox", "on" if has_landlock else "auto", "--log-file", log,
                   "--api-key-file", keys, "--config", config,
                   "--trace", trace, "--profile", "online", env={"XDG_CACHE_HOME": str(cache)}, wait=False,
                   log_file=log)
    hearthd.wait_until(lambda: "load_ms" in log.read_text(), "the model to be loaded")
    assert complete(server, headers={"X-Api-Key": "first"}, max_tokens=40).status_code == 200
    (tmp_path / "new").write_text("second\n")
    (tmp_path / "new").rename(keys)
    log.rename(log.parent / "log.1")
    server.signal(signal.SIGHUP)
    hearthd.wait_until(lambda: log.exists() and "SIGHUP: reloaded" in log.read_text(), "the reload")
    assert models(server, "second") == 200
    server.signal()
    assert server.wait() == 0
    assert json.loads(trace.read_text())["traceEvents"]
    assert [path for path in (cache / "hearth").iterdir() if "activity" in path.name], log.read_text()
    for text in (log.read_text(), (log.parent / "log.1").read_text()):
        assert "Permission denied" not in text


def test_a_required_sandbox_that_is_unavailable_ends_the_start(small):
    """The filter of the test denies Landlock and seccomp, like an old kernel or a container."""
    code = ("import ctypes, os, struct, sys\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "op = lambda code, jt, jf, k: struct.pack('HBBI', code, jt, jf, k)\n"
            "numbers = [444, 317 if os.uname().machine == 'x86_64' else 277]\n"
            "program = op(0x20, 0, 0, 0) + b''.join("
            "op(0x15, 0, 1, n) + op(0x06, 0, 0, 0x50000 | 38) for n in numbers)\n"
            "program += op(0x06, 0, 0, 0x7fff0000)\n"
            "memory = ctypes.create_string_buffer(program, len(program))\n"
            "class Program(ctypes.Structure): _fields_ = [('n', ctypes.c_ushort), ('at', ctypes.c_void_p)]\n"
            "given = Program(len(program) // 8, ctypes.addressof(memory))\n"
            "assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(given), 0, 0) == 0\n"
            "os.execv(sys.argv[1], sys.argv[1:])\n")
    command = ["python3", "-c", code, hearthd.BINARY, "--model", SMALL_MODEL, "--port", "0"]
    run = lambda *flags: subprocess.Popen([*command, *flags], stderr=subprocess.PIPE, text=True,
                                          env=hearthd.clean_environment(), stdin=subprocess.DEVNULL)
    strict = run("--sandbox", "on")
    assert "sandbox: files are not confined (this kernel has no Landlock" in strict.communicate(
        timeout=hearthd.PATIENCE)[1]
    assert strict.returncode == 2
    lenient = run()
    try:
        seen = []
        for line in lenient.stderr:
            seen.append(line)
            if "load_ms" in line:
                break
        assert sum("are not confined" in line and " warning " in line for line in seen) == 2, seen
        lenient.terminate()
        lenient.stderr.read()
        assert lenient.wait(timeout=hearthd.PATIENCE) == 0
    finally:
        lenient.kill()
        lenient.wait()
