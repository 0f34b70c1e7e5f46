"""Hostile and careless input: on the connection, in a request's values, and in the process's environment."""
import json
import os
import re
import select
import subprocess

import httpx
import pytest

import hearthd

SMALL_MODEL = hearthd.SMALL_MODEL
CLOSE = "Host: localhost\r\nConnection: close\r\n"


@pytest.fixture(scope="module")
def shared():
    server = hearthd.Hearthd(model=SMALL_MODEL)
    yield server
    server.kill()


def complete(server, **fields):
    return httpx.post(server.url + "/v1/completions", json={"max_tokens": 2, "temperature": 0, **fields},
                      timeout=hearthd.PATIENCE)


# ---- on the wire ----

@pytest.mark.parametrize("line", ["Content-Length : 5", "no colon", "X: a\r\n folded", "X: a\x00b", ": empty",
                                  "X: a\nContent-Length: 5", "X: a\rb", "X\tY: a"])
def test_header_lines_that_a_proxy_may_read_differently_are_refused(shared, line):
    answer = shared.ask(f"POST /v1/completions HTTP/1.1\r\n{CLOSE}{line}\r\n\r\n")
    assert answer.startswith("HTTP/1.1 400") and "HTTP/1.1 request" in answer


def test_what_follows_a_badly_ended_chunked_body_is_no_request(shared):
    body = '{"prompt":"a","max_tokens":1}'
    answer = shared.ask(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        f"{len(body):x}\r\n{body}?\r\nGET /health HTTP/1.1\r\n{CLOSE}\r\n")
    assert answer.count("HTTP/1.1 ") == 1


def test_slow_bodies_do_not_hold_every_thread(small):
    server = small("--slots", "1", "--queue", "0")
    crowd = [server.connect() for _ in range(200)]
    try:
        for connection in crowd:
            connection.sendall(
                b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        hearthd.wait_until(lambda: server.health()[0] == 200, "the server to get rid of them")
        assert complete(server, prompt="a").status_code == 200
        # Some connections were cut without an answer. A server with threads to spare would serve each and
        # report its timeout.
        ends = [hearthd.read_all(connection)
                for connection in crowd if select.select([connection], [], [], 0)[0]]
        assert "" in ends or "<reset>" in ends, ends
    finally:
        for connection in crowd:
            connection.close()


# ---- values ----

def test_banning_every_token_is_the_clients_fault(shared):
    answer = complete(shared, prompt="a", logit_bias={str(i): -100 for i in range(2048)})
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "logit_bias"
    all_but_one = complete(shared, prompt="a", logit_bias={str(i): -100 for i in range(2048) if i != 500},
                           logprobs=0)
    assert all_but_one.json()["choices"][0]["logprobs"]["tokens"] == [" And"] * 2
    assert complete(shared, prompt="a", logprobs=0).json()["choices"][0]["logprobs"]["tokens"] != [" And"] * 2


def test_lists_that_would_be_copied_for_every_choice_are_bounded(shared):
    answer = complete(shared, prompt="a", stop_token_ids=[5] * 100_000, n=64)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "stop_token_ids"
    answer = complete(shared, prompt=["a"] * 2048, logit_bias={str(i): 1 for i in range(2000)})
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "logit_bias"


def test_a_prompt_that_cannot_fit_is_refused_before_it_is_tokenized(shared):
    answer = complete(shared, prompt="a" * 15_000_000)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (400, "prompt", "context_length_exceeded")
    assert "15000000 bytes" in error["message"]


def test_a_long_unknown_model_name_is_not_sent_back_whole(shared):
    answer = complete(shared, prompt="a", model="m" * 1_000_000)
    assert answer.status_code == 404 and len(answer.content) < 1000


def test_ids_and_queries_may_hold_any_bytes(shared):
    for path in ("responses/%ff", "responses/x/input_items?order=%ff", "responses/x/input_items?limit=%ff",
                 "responses/x?stream=%ff", "models/%ff"):
        answer = httpx.get(f"{shared.url}/v1/{path}", timeout=hearthd.PATIENCE)
        assert answer.status_code in (400, 404), answer.text
    assert httpx.delete(shared.url + "/v1/responses/%ff", timeout=hearthd.PATIENCE).status_code == 404


def test_an_error_does_not_repeat_megabytes_of_the_request(shared):
    for fields in ({"guided_json": {"$ref": "#/" + "a/" * 200_000}},
                   {"guided_regex": "[" + "\u00e9" * 9_000}):
        answer = complete(shared, prompt="a", **fields)
        assert answer.status_code == 400 and len(answer.content) < 5_000
    answer = httpx.post(shared.url + "/v1/chat/completions", timeout=hearthd.PATIENCE, json={
        "messages": [{"role": "user", "content": [{"type": "x" * 1_000_000}]}]})
    assert answer.status_code == 400 and len(answer.content) < 1_000


def test_a_format_of_which_every_token_is_banned_is_the_clients_fault(shared):
    fields = {"prompt": "a", "guided_choice": ["yes"],
              "logit_bias": {str(i): -100 for i in range(2048) if i != 500}}
    answer = complete(shared, **fields)
    assert answer.status_code == 400 and answer.json()["error"]["code"] == "unsatisfiable_request"
    assert complete(shared, prompt="a").status_code == 200


def test_xtc_without_a_threshold_draws_no_token_that_is_banned(shared):
    fields = {"prompt": "a", "temperature": 1, "seed": 1, "xtc_probability": 1, "xtc_threshold": 0}
    chosen = complete(shared, guided_choice=["yes", "no"], max_tokens=9, **fields)
    assert chosen.status_code == 200 and chosen.json()["choices"][0]["text"] in ("yes", "no")
    unended = complete(shared, min_tokens=5, max_tokens=5, **fields)
    assert unended.json()["usage"]["completion_tokens"] == 5


def test_every_bound_is_named_in_its_error(shared):
    tool = {"type": "function", "function": {"name": "f"}}
    schema = {"type": "object", "description": "x" * (600 << 10)}
    for fields, param in [({"prompt": ["a"] * 2049}, "prompt"), ({"stop": ["a"] * 65}, "stop"),
                          ({"stop": "a" * 1025}, "stop"), ({"n": 129}, "n"),
                          ({"guided_json": schema}, "guided_json"),
                          ({"guided_regex": "a" * 20_001}, "guided_regex"),
                          ({"guided_choice": ["a"] * 10_001}, "guided_choice"),
                          ({"logit_bias": {"2048": 1}}, "logit_bias")]:
        answer = complete(shared, **{"prompt": "a", **fields})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), answer.text[:300]
        assert len(answer.content) < 1000
    parts = [{"type": "text", "text": "a"},
             {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
    for body, said in [({"messages": [{"role": "user", "content": parts}]}, "reads text"),
                       ({"messages": [{"role": "user", "content": "a"}], "tools": [tool] * 1025}, "1025")]:
        answer = httpx.post(shared.url + "/v1/chat/completions", json=body, timeout=hearthd.PATIENCE)
        assert answer.status_code == 400 and said in answer.json()["error"]["message"], answer.text
    for path, body in [("/api/chat", {"messages": [{"role": "user", "content": "a", "images": ["AAAA"]}]}),
                       ("/v1/messages", {"max_tokens": 1, "messages": [
                           {"role": "user", "content": [{"type": "image", "source": {}}]}]}),
                       ("/v1/responses", {"input": [
                           {"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]})]:
        answer = httpx.post(shared.url + path, json=body, timeout=hearthd.PATIENCE)
        assert answer.status_code == 400 and "reads text" in answer.text, (path, answer.text)
    deep = '{"prompt": "a", "x": ' + "[" * 64 + "]" * 64 + "}"
    many = "GET / HTTP/1.1\r\n" + CLOSE + "".join(f"X{i}: a\r\n" for i in range(130)) + "\r\n"
    assert "nested deeper" in httpx.post(shared.url + "/v1/completions", content=deep,
                                         timeout=hearthd.PATIENCE).text
    assert shared.ask(many).startswith("HTTP/1.1 431")
    assert shared.ask(
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n").startswith("HTTP/1.1 400")
    assert shared.ask("POST /v1/completions HTTP/1.1\r\n" + CLOSE
                      + "Content-Length: 99999999\r\n\r\n").startswith("HTTP/1.1 413")


def test_answers_reveal_nothing_about_the_machine(shared):
    """Heads and bodies, good or bad, contain no path and no library's name or version."""
    asked = [("GET", path, None) for path in (
        "/", "/health", "/livez", "/readyz", "/v1/models", "/v1/models/none", "/props", "/slots", "/nothing",
        "/tokenizer_info", "/api/version", "/api/tags", "/api/ps", "/admin/x", "/v1/responses/x")]
    asked += [("POST", "/api/show", {"model": SMALL_MODEL.stem}),
              ("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1}),
              ("POST", "/v1/completions", {"prompt": 1}),
              ("POST", "/v1/completions", {"prompt": "a", "guided_regex": "("}),
              ("POST", "/v1/completions", {"prompt": "a", "guided_json": {"$ref": "#/no"}}),
              ("POST", "/v1/completions", {"prompt": "a", "guided_grammar": "root ::="}),
              ("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}),
              ("POST", "/v1/messages", {}),
              ("PATCH", "/v1/models", None), ("DELETE", "/api/delete", {"model": "x"})]
    words = [str(hearthd.ROOT), str(SMALL_MODEL.parent), hearthd.clean_environment().get("HOME", "/root"),
             "/tmp", "httplib", "nlohmann", "spdlog",
             "json.exception", "std::", "0x"]
    for method, path, body in asked:
        answer = httpx.request(method, shared.url + path, json=body, timeout=hearthd.PATIENCE)
        text = "\n".join(f"{name}: {value}" for name, value in answer.headers.items()) + answer.text
        # The page's libraries have numbers in hexadecimal.
        revealed = [word for word in words if word in text and not (path == "/" and word == "0x")]
        assert not revealed, (method, path, revealed, text[:2000])
        assert "server" not in answer.headers and "x-powered-by" not in answer.headers


# ---- around the process ----

def test_closed_standard_streams_are_not_taken_by_sockets():
    def close_all():
        for fd in (0, 1, 2):
            os.close(fd)

    process = subprocess.Popen([hearthd.BINARY, "--model", SMALL_MODEL, "--port", "0"],
                               env=hearthd.clean_environment(), preexec_fn=close_all)
    try:
        folder = f"/proc/{process.pid}/fd"

        def listens():
            try:
                return any("socket" in os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder))
            except FileNotFoundError:  # closed since it was listed
                return False

        hearthd.wait_until(listens, "the server to listen")
        assert [os.readlink(f"{folder}/{fd}") for fd in (0, 1, 2)] == ["/dev/null"] * 3
        process.terminate()
        assert process.wait(timeout=hearthd.PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


def test_a_reader_of_the_log_may_leave():
    process = subprocess.Popen([hearthd.BINARY, "--model", SMALL_MODEL, "--port", "0"],
                               stderr=subprocess.PIPE, env=hearthd.clean_environment(), text=True)
    try:
        process.stderr.readline()
        process.stderr.close()
        hearthd.wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) > 3, "the engine to run")
        process.terminate()
        assert process.wait(timeout=hearthd.PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


def test_files_written_by_windows_editors(small, tmp_path):
    keys, config = tmp_path / "keys", tmp_path / "hearth.toml"
    keys.write_bytes(b"\xef\xbb\xbffirst\r\n\r\n# comment\r\nsecond\r\n")
    config.write_bytes(b"\xef\xbb\xbfslots = 3\r\nlog-level = \"info\"\r\n")
    server = small("--api-key-file", keys, "--config", config)
    for key in ("first", "second"):
        assert httpx.get(server.url + "/v1/models", headers={"X-Api-Key": key},
                         timeout=hearthd.PATIENCE).status_code == 200
    assert server.health()[1]["slots"]["total"] == 3


def test_a_flag_without_its_value_is_a_sentence():
    result = hearthd.run(["--port"])
    assert result.returncode == 2
    assert (result.stderr
            == "hearthd: --port needs a value: a whole number from 0 to 65535; see hearthd --help\n")


# ---- the log ----

def test_the_access_log_shows_the_cost_of_an_answer(small):
    server = small()
    complete(server, prompt=[5] * 100, max_tokens=7, ignore_eos=True)
    complete(server, prompt=[5] * 100, max_tokens=3, ignore_eos=True)
    lines = hearthd.wait_until(lambda: (found := [l for l in server.lines if "POST" in l])[1:] and found,
                               "two lines")
    assert "prompt_tokens=100 cached_tokens=0 matched_tokens=0 generated_tokens=7" in lines[0]
    assert re.search(r"cached_tokens=9\d matched_tokens=9\d generated_tokens=3", lines[1])
    assert re.search(r"queue_ms=\d+ prefill_ms=\d+ decode_ms=\d+", lines[0])


def test_a_client_that_left_is_visible_in_the_log(start):
    server = start("--context", "1024")
    with server.connect() as connection:
        connection.sendall(hearthd.post("/v1/completions", json.dumps(
            {"prompt": "a", "max_tokens": 900, "stream": True, "ignore_eos": True})))
        hearthd.read_until(connection, b"data: ")
    line = hearthd.wait_until(lambda: next((l for l in server.lines if "POST" in l), None), "the line")
    assert 'ended="client left"' in line and re.search(r"generated_tokens=[1-9]", line)


def test_the_first_lines_suit_the_model(small, start):
    server = small("--log-level", "debug")
    hearthd.wait_until(lambda: f"open {server.url}" in server.log(), "the page's address")
    assert max(len(line) for line in server.lines if "configuration" in line) < 220
    without_page = small("--page", "off")
    hearthd.wait_until(lambda: "/v1/completions -d" in without_page.log(), "the example")
    assert "/v1/chat/completions -d" not in without_page.log()
    with_template = start("--page", "off")
    hearthd.wait_until(lambda: "/v1/chat/completions -d" in with_template.log(), "the example of a chat")
