"""Behavior of clients of many kinds: SDKs, frontends in editors and on desktops, proxies, and curl typed by
hand."""
import concurrent.futures
import gzip
import json
import time
import zlib

import httpx
import openai
import pytest

import hearthd
from test_crowds import LONG, leave_running

SMALL_MODEL = hearthd.ROOT / "tests" / "data" / "relu" / "relu-5m-q8_0.gguf"


@pytest.fixture()
def small_chat(start, tmp_path):
    """small_chat(*flags) -> a server of the small model, which has no chat template of its own."""
    template = tmp_path / "template"
    template.write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    return lambda *flags: start("--chat-template-file", template, "--alias", "small", *flags,
                                model=SMALL_MODEL)


def completion(server, **options):
    body = {"prompt": "The sky is", "temperature": 0, "max_tokens": 2}
    return httpx.post(server.url + options.pop("path", "/v1/completions"), timeout=hearthd.PATIENCE,
                      content=options.pop("content", json.dumps(body)), **options)


# ---- waiting ----

def test_two_hundred_chats_at_once_lose_none(small_chat):
    server = small_chat()

    def chat(number):
        answer = client.chat.completions.create(
            model="small", messages=[{"role": "user", "content": f"chat {number} "}], max_tokens=48,
            extra_body={"ignore_eos": True})
        return answer.usage.completion_tokens

    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", timeout=hearthd.PATIENCE) as client:
        with concurrent.futures.ThreadPoolExecutor(200) as crowd:
            assert list(crowd.map(chat, range(200))) == [48] * 200


def test_a_whole_answer_is_silent_until_it_is_complete(start):
    server = start("--slots", "1", "--context", "1024")
    answer = httpx.post(server.url + "/v1/completions", json={"prompt": "a", "max_tokens": 4},
                        timeout=hearthd.PATIENCE)
    assert answer.headers["content-length"] == str(len(answer.content)) and answer.text.startswith("{")


def test_with_keepalive_seconds_an_answer_begins_before_it_is_complete(start):
    server = start("--slots", "1", "--context", "1024", "--keepalive-seconds", "1", "--isa", "scalar")
    with leave_running(server, LONG) as connection:
        head = hearthd.read_until(connection, b"\r\n\r\n").lower()
        assert head.startswith(b"http/1.1 200") and b"transfer-encoding: chunked" in head
        assert server.n_running() == 1


# ---- leaving ----

def log_line_of_abandoned(server):
    return hearthd.wait_until(lambda: next((line for line in server.lines if "client left" in line), None),
                              "the log line of the abandoned request")


@pytest.mark.parametrize("stream", [False, True])
def test_the_log_reports_the_cost_of_an_abandoned_request(start, stream):
    server = start("--slots", "1", "--context", "1024")
    connection = leave_running(server, {**LONG, "stream": stream})
    time.sleep(0.3)  # by the clock: lets some tokens come; nothing depends on how many
    connection.close()
    line = log_line_of_abandoned(server)
    times = {name: int(value)
             for name, _, value in (part.partition("=") for part in line.split()) if name.endswith("_ms")}
    assert set(times) == {"queue_ms", "prefill_ms", "decode_ms"}, line
    assert times["prefill_ms"] + times["decode_ms"] > 0, line


def test_the_log_reports_how_long_an_abandoned_request_waited(start):
    server = start("--slots", "1", "--queue", "4", "--context", "1024")
    with leave_running(server, LONG):
        waiting = server.connect()
        waiting.sendall(hearthd.post("/v1/completions", json.dumps(LONG)))
        hearthd.wait_until(lambda: server.health()[1]["waiting"] == 1, "the request to wait")
        time.sleep(0.1)  # by the clock: the least time that it must wait
        waiting.close()
        line = log_line_of_abandoned(server)
        assert "queue_ms=" in line and "queue_ms=0 " not in line and "prefill_ms=0 decode_ms=0" in line


# ---- bodies ----

@pytest.mark.parametrize("coding,compress", [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_compressed_bodies(server, coding, compress):
    body = compress(json.dumps({"prompt": "a " * 100, "max_tokens": 1}).encode())
    assert completion(server, content=body, headers={"Content-Encoding": coding}).status_code == 200
    damaged = completion(server, content=body[:-5], headers={"Content-Encoding": coding})
    assert damaged.status_code == 400 and "Content-Encoding" in damaged.json()["error"]["message"]


def test_a_compressed_body_that_is_too_large_or_of_an_unknown_kind(server):
    bomb = gzip.compress(b" " * (100 << 20))
    assert len(bomb) < 1 << 20
    assert completion(server, content=bomb, headers={"Content-Encoding": "gzip"}).status_code == 413
    unknown = completion(server, headers={"Content-Encoding": "zstd"})
    assert unknown.status_code == 415 and "gzip" in unknown.json()["error"]["message"]


def test_a_chunked_body_with_trailers(server):
    body = '{"prompt":"a","max_tokens":1}'
    answer = server.ask("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                        "Transfer-Encoding: chunked\r\n"
                        f"Trailer: X-Checksum\r\n\r\n{len(body):x}\r\n{body}\r\n0\r\nX-Checksum: 1\r\n\r\n")
    assert answer.startswith("HTTP/1.1 200")


@pytest.mark.parametrize("content_type,status", [
    ("text/plain", 200), ("application/x-www-form-urlencoded", 200), ("application/json; charset=utf-8", 200),
    ("multipart/form-data; boundary=b", 415), ("application/xml", 415)])
def test_content_types(server, content_type, status):
    answer = completion(server, headers={"Content-Type": content_type})
    assert answer.status_code == status
    if status == 415:
        assert "application/json" in answer.json()["error"]["message"]
    else:
        form = completion(server, content="prompt=hello&max_tokens=1", headers={"Content-Type": content_type})
        assert form.status_code == 400


# ---- addresses and keys ----

@pytest.mark.parametrize("base", ["", "/v1", "/v1/v1", "/openai/v1", "//v1/"])
def test_base_urls(server, base):
    with openai.OpenAI(base_url=server.url + base, api_key="none", max_retries=0) as client:
        assert "smol" in [model.id for model in client.models.list()]
        assert client.completions.create(model="smol", prompt="a", max_tokens=1).model == "smol"


def test_azures_sdk_and_its_key(start):
    server = start("--alias", "smol", env={"HEARTH_API_KEY": "azure-key"})
    chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    options = {"azure_endpoint": server.url, "api_version": "2024-10-21", "max_retries": 0}
    with openai.AzureOpenAI(api_key="azure-key", **options) as client:
        assert client.chat.completions.create(model="smol", **chat).model == "smol"
        assert client.completions.create(model="smol", prompt="a", max_tokens=1).model == "smol"
        assert len(client.embeddings.create(model="smol", input="a").data[0].embedding) == 576
    with openai.AzureOpenAI(api_key="wrong", **options) as client, pytest.raises(openai.AuthenticationError):
        client.chat.completions.create(model="smol", **chat)
    # Older clients name the model in the path only.
    headers = {"api-key": "azure-key"}
    for name, status in (("smol", 200), ("another", 404)):
        answer = httpx.post(f"{server.url}/openai/deployments/{name}/chat/completions?api-version=2024-10-21",
                            json=chat, headers=headers, timeout=hearthd.PATIENCE)
        assert answer.status_code == status
    assert "'another'" in answer.json()["error"]["message"]


@pytest.mark.parametrize("origin", ["app://-", "tauri://localhost", "vscode-webview://1a2b", "file://"])
def test_frontends_of_desktops_and_editors(server, origin):
    answer = completion(server, headers={"Origin": origin})
    assert answer.status_code == 200 and answer.headers["access-control-allow-origin"] == origin


# ---- the transport ----

def test_every_answer_has_one_date(server):
    for path in ("/health", "/v1/models", "/nothing"):
        dates = httpx.get(server.url + path, timeout=hearthd.PATIENCE).headers.get_list("date")
        assert len(dates) == 1 and dates[0].endswith(" GMT")
    assert server.ask("no HTTP at all\r\n\r\n").count("\r\nDate: ") == 1


def test_http_1_0_with_keep_alive(server):
    body = json.dumps({"prompt": "a", "max_tokens": 1})
    with server.connect() as connection:
        for _ in range(2):
            connection.sendall(f"POST /v1/completions HTTP/1.0\r\nConnection: keep-alive\r\n"
                               f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
            answer = hearthd.read_until(connection, b"}}}")
            assert answer.startswith(b"HTTP/1.1 200") and b"Connection: keep-alive\r\n" in answer
