"""Starting, failing to start, and stopping."""
import json
import pathlib
import re
import signal
import socket

import httpx
import openai
import pytest

import hearthd

CHAT = {"messages": [{"role": "user", "content": "Write a very long story."}], "max_tokens": 900,
        "temperature": 0, "stream": True, "logit_bias": {"0": -100, "2": -100}}


def refused(*arguments, env=None):
    """The message of a start that must fail with exit code 2."""
    result = hearthd.run(arguments, env=env)
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr and "terminate called" not in result.stderr
    last = result.stderr.strip().splitlines()[-1]
    return last


def test_bad_model_files_are_one_sentence_each(tmp_path, model_path):
    empty, text, cut = tmp_path / "empty.gguf", tmp_path / "text.gguf", tmp_path / "cut.gguf"
    empty.write_bytes(b"")
    text.write_text("not a model " * 100)
    cut.write_bytes(model_path.read_bytes()[:5_000_000])
    for path in (tmp_path / "missing.gguf", tmp_path, empty, text, cut):
        sentence = refused("--model", path, "--port", "0")
        assert str(path) in sentence, sentence
    assert "--model" in refused("--port", "0")


def test_special_files_are_refused_and_nothing_hangs(tmp_path):
    import os
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/zero", "/dev/null"):
        assert str(path) in refused("--model", path, "--port", "0")


def test_configuration_errors_name_their_source(tmp_path):
    assert "--port '99999'" in refused("--port", "99999")
    assert "HEARTH_SLOTS='many'" in refused(env={"HEARTH_SLOTS": "many"})
    config = tmp_path / "hearth.toml"
    config.write_text("slotz = 3\n")
    assert "did you mean slots?" in refused("--config", config)
    assert "did you mean --model?" in refused("--modle", "x")


def test_a_timeline_is_written_when_the_server_stops(tmp_path):
    trace = tmp_path / "trace.json"
    model = hearthd.ROOT / "tests/data/relu/relu-5m-q8_0.gguf"
    server = hearthd.Hearthd("--trace", trace, "--device", "cpu", model=model)
    try:
        answer = httpx.post(server.url + "/v1/completions", timeout=hearthd.PATIENCE,
                            json={"prompt": "The", "max_tokens": 3, "temperature": 0})
        assert answer.status_code == 200, answer.text
        server.signal()
        assert server.wait() == 0
    finally:
        server.kill()
    events = json.loads(trace.read_text())["traceEvents"]
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    spans = {(tracks[event["tid"]], event["name"]) for event in events if event["ph"] == "X"}
    assert spans == {("engine", "step"), ("CPU", "attention"), ("CPU", "FFN")}
    assert {event["args"]["layer"] for event in events if event["name"] == "FFN"} == {0, 1, 2, 3}
    assert str(tmp_path) in refused("--model", model, "--port", "0", "--trace", tmp_path)


def test_bad_key_and_template_files(tmp_path, model_path):
    assert "no such file" in refused("--model", model_path, "--port", "0",
                                     "--api-key-file", tmp_path / "none")
    template = tmp_path / "bad.jinja"
    template.write_text("{% for %}")
    assert str(template) in refused("--model", model_path, "--port", "0", "--chat-template-file", template)


def test_a_byte_order_mark_of_a_template_file_is_not_part_of_prompts(start, tmp_path):
    template = tmp_path / "marked.jinja"
    template.write_bytes(b"\xef\xbb\xbf{% for m in messages %}<{{ m.content }}>{% endfor %}")
    server = start("--chat-template-file", template)
    answer = httpx.post(server.url + "/apply-template", timeout=hearthd.PATIENCE,
                        json={"messages": [{"role": "user", "content": "Hi"}]})
    assert answer.json()["prompt"] == "<Hi>", answer.text


def test_an_activation_that_contradicts_the_model_is_refused():
    data = pathlib.Path(__file__).resolve().parents[1] / "data"
    says_relu, sparse = data / "relu/relu-5m-q8_0.gguf", data / "relu/relu-5m-q4_0.powerinfer.gguf"
    for model, name, part in [
            (says_relu, "silu", '"hearth.ffn_activation" says relu'), (sparse, "gelu", "magic PWRI"),
            (data / "arch/opt.gguf", "drelu", "has no gate"), (sparse, "swish", '"swish" is unknown')]:
        sentence = refused("--model", model, "--port", "0", "--ffn-activation", name)
        assert part in sentence, sentence


def test_a_port_in_use_says_what_to_do(server, model_path):
    sentence = refused("--model", model_path, "--port", server.port)
    assert f"port {server.port} is in use" in sentence and "--port" in sentence


def test_help_version_and_healthcheck(server):
    help_text = hearthd.run(["--help"])
    assert help_text.returncode == 0 and "--port" in help_text.stdout
    assert "HEARTH_PORT" in hearthd.run(["--help", "all"]).stdout
    assert hearthd.run(["--version"]).stdout.startswith("hearthd ")
    well = hearthd.run(["--healthcheck", "--port", server.port])
    assert well.returncode == 0 and '"ok"' in well.stdout
    assert hearthd.run(["--healthcheck"], env={"HEARTH_PORT": str(server.port)}).returncode == 0
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert hearthd.run(["--healthcheck", "--port", unused.getsockname()[1]]).returncode == 1


def test_the_configuration_is_logged_without_secrets(start):
    server = start("--slots", "3", env={"HEARTH_API_KEY": "swordfish"})
    assert re.search(r"hearthd \S+ .*slots=3", server.log())
    assert not re.search(r"hearthd \S+ .*queue=", server.log())  # a default
    assert "swordfish" not in server.log()


def test_the_log_says_which_gpu_there_is(start):
    lines = [line for line in start().lines if " CUDA: " in line]
    assert len(lines) == 1 and "running on the CPU" in lines[0], lines


def test_json_lines(start):
    server = start("--log-format", "json")
    hearthd.wait_until(lambda: any('"ready"' in line for line in server.lines), "the ready line")
    lines = [json.loads(line) for line in server.lines]
    assert {"time", "level", "message"} <= set(lines[0])
    assert any(line["message"] == "configuration" for line in lines)


def test_while_loading_clients_are_told_to_wait(start):
    server = start(wait=False)
    seen = set()

    def is_ready():
        status, body = server.health()
        seen.add((status, body["status"]))
        answer = server.ask(hearthd.post("/v1/completions", '{"prompt": "a", "max_tokens": 1}'))
        if answer.startswith("HTTP/1.1 503"):
            assert "Retry-After: 1" in answer and "unavailable_error" in answer
            return False
        assert answer.startswith("HTTP/1.1 200"), answer
        return True

    hearthd.wait_until(is_ready, "the model to be loaded")
    assert seen <= {(503, "loading"), (200, "ok")}


def test_a_client_that_comes_too_early_is_served(start):
    server = start(wait=False)
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=30) as client:
        assert client.completions.create(model=hearthd.MODEL.stem, prompt="a", max_tokens=1).choices


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_stops_with_zero(start, number):
    server = start()
    server.signal(number)
    assert server.wait() == 0


def test_a_signal_while_loading_stops_with_zero(start):
    server = start(wait=False)
    server.signal()
    assert server.wait() == 0


def test_a_running_stream_is_finished_before_the_end(start):
    server = start("--drain-seconds", "120", "--context", "1024")
    with server.connect() as connection:
        connection.sendall(hearthd.post("/v1/chat/completions", json.dumps({**CHAT, "max_tokens": 300})))
        hearthd.read_until(connection, b"data: ")
        server.signal()
        hearthd.wait_until(lambda: server.health()[1]["status"] == "stopping", "the server to be stopping")
        refused_late = server.ask(hearthd.post("/v1/completions", '{"prompt": "a"}'))
        assert refused_late.startswith("HTTP/1.1 503") and "Connection: close" in refused_late
        rest = hearthd.read_all(connection)
    assert '"finish_reason":"length"' in rest and "data: [DONE]" in rest
    assert server.wait() == 0


def test_a_stream_that_takes_too_long_is_cut_and_the_exit_code_is_zero(start):
    server = start("--drain-seconds", "0", "--context", "1024")
    with server.connect() as connection:
        connection.sendall(hearthd.post("/v1/chat/completions", json.dumps(CHAT)))
        hearthd.read_until(connection, b"data: ")
        server.signal()
        rest = hearthd.read_all(connection)
    assert '"finish_reason":"length"' not in rest
    assert '"error"' in rest or not rest.endswith("0\r\n\r\n")  # a partial answer never looks complete
    assert server.wait() == 0


def test_a_second_signal_stops_at_once(start):
    server = start("--drain-seconds", "600", "--context", "1024")
    with server.connect() as connection:
        connection.sendall(hearthd.post("/v1/chat/completions", json.dumps(CHAT)))
        hearthd.read_until(connection, b"data: ")
        server.signal(signal.SIGTERM)
        hearthd.wait_until(lambda: server.health()[1]["status"] == "stopping", "the server to be stopping")
        server.signal(signal.SIGTERM)
        assert server.wait() == 128 + signal.SIGTERM


def test_systemd_is_notified(start, tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(path)
        receiver.settimeout(hearthd.PATIENCE)
        server = start(env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "400000"})
        got = ""
        while "READY=1" not in got or "WATCHDOG=1" not in got:
            got += receiver.recv(4096).decode() + "\n"
        server.signal()
        while "STOPPING=1" not in got:
            got += receiver.recv(4096).decode() + "\n"
    assert server.wait() == 0
