"""Many clients, slow clients, and clients that leave."""
import concurrent.futures
import json
import re

import httpx
import openai
import pytest

import hearthd
import small_model

# End tokens are banned, so that it is still running when a test looks, whatever the machine.
LONG = {"prompt": "Once upon a time", "max_tokens": 900, "temperature": 0,
        "logit_bias": {"0": -100, "2": -100}}


def leave_running(server, body):
    """A request that runs in a slot, as an open connection."""
    connection = server.connect()
    before = server.n_running()
    connection.sendall(hearthd.post("/v1/completions", json.dumps(body)))
    hearthd.wait_until(lambda: server.n_running() > before, "the request to run")
    return connection


def generated_before_it_left(server):
    """The number of tokens that the log reports for the only request whose client left."""
    line = hearthd.wait_until(
        lambda: next((line for line in server.lines if 'ended="client left"' in line), None), "the log line")
    return int(re.search(r"generated_tokens=(\d+)", line)[1])


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_frees_its_slot(start, stream):
    server = start("--slots", "1", "--queue", "0", "--context", "1024")
    connection = leave_running(server, {**LONG, "stream": stream})
    connection.close()
    hearthd.wait_until(lambda: server.n_running() == 0, "the slot to be free")
    assert generated_before_it_left(server) < LONG["max_tokens"]  # the slot was not freed by the answer's end
    answer = httpx.post(server.url + "/v1/completions", json={"prompt": "a", "max_tokens": 1},
                        timeout=hearthd.PATIENCE)
    assert answer.status_code == 200


def test_a_client_that_leaves_while_its_prompt_is_read_frees_its_slot(start):
    server = start("--slots", "1", "--queue", "0", "--prefill-chunk", "1", "--context", "2048",
                   "--isa", "scalar")
    # Token by token with scalar loops, this prompt takes minutes. One step of it takes seconds with a
    # sanitizer.
    connection = leave_running(server, {"prompt": "word " * 1900, "max_tokens": 1})
    connection.close()
    hearthd.wait_until(lambda: server.n_running() == 0, "the slot to be free")
    assert generated_before_it_left(server) == 0  # the prompt was not read to the end


def test_a_full_queue_refuses_at_once(start):
    server = start("--slots", "1", "--queue", "0", "--context", "1024")
    with leave_running(server, LONG):
        answer = httpx.post(server.url + "/v1/completions", json=LONG, timeout=hearthd.PATIENCE)
        assert answer.status_code == 429 and int(answer.headers["retry-after"]) >= 1
        assert answer.json()["error"]["type"] == "rate_limit_error"
        with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client:
            with pytest.raises(openai.RateLimitError):
                client.completions.create(model="smol", prompt="a", extra_body={"model": None})
        assert server.health()[0] == 200


def test_waiting_requests_are_served_in_the_end(start):
    server = start("--slots", "1", "--queue", "8", "--context", "1024")
    connections = [server.connect() for _ in range(6)]
    for connection in connections:
        connection.sendall(hearthd.post("/v1/completions", json.dumps({"prompt": "a", "max_tokens": 4})))
    for connection in connections:
        assert hearthd.read_all(connection).startswith("HTTP/1.1 200")
        connection.close()


def test_half_open_and_slow_connections_block_no_other_client(start):
    server = start("--slots", "2", "--context", "1024", "--kv-contexts", "2")
    crowd = []
    try:
        running = [leave_running(server, {**LONG, "stream": True}) for _ in range(2)]
        crowd += running
        for i in range(200):
            connection = server.connect()
            crowd.append(connection)
            if i % 3 == 1:
                connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX: ")
            if i % 3 == 2:
                connection.sendall(
                    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        status, body = server.health()
        assert status == 200 and body["slots"]["running"] == 2
        assert httpx.get(server.url + "/v1/models", timeout=hearthd.PATIENCE).status_code == 200
    finally:
        for connection in crowd:
            connection.close()


def test_requests_share_a_pool_for_one_context():
    server = hearthd.Hearthd("--slots", "4", "--kv-contexts", "1", "--threads", "2", model=small_model.path())
    try:
        assert ("512 tokens: 4 requests of 128 tokens each, or 1 "
                "request of 512 tokens" in server.log())
        bodies = [{"prompt": f"{word} upon a time", "max_tokens": 480, "temperature": 0,
                   "logit_bias": {"0": -100, "1": -100, "2": -100}}
                  for word in ("Once", "Twice", "Thrice", "Never")]

        def complete(body):
            answer = httpx.post(server.url + "/v1/completions", json=body, timeout=hearthd.PATIENCE)
            assert answer.status_code == 200, answer.text
            assert answer.json()["usage"]["completion_tokens"] == 480
            return answer.json()["choices"]

        with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
            together = list(pool.map(complete, bodies))
        assert together == [complete(body) for body in bodies]
    finally:
        server.kill()


@pytest.mark.parametrize("flags, said", [
    ((), "1024 tokens: 4 requests of 256 tokens each, or 2 requests of 512 tokens each"),
    (("--slots", "3"),
     "1024 tokens: 3 requests of 341 tokens each, or 2 requests of 512 tokens each"),
    (("--slots", "1"), "512 tokens: 1 request of 512 tokens"),
    (("--kv-contexts", "9"), "2048 tokens: 4 requests of 512 tokens each"),
])
def test_the_log_says_how_many_tokens_fit(flags, said):
    server = hearthd.Hearthd("--threads", "1", "--device", "cpu", *flags, model=small_model.path())
    try:
        assert any(f'room="{said}"' in line for line in server.lines), server.log()
    finally:
        server.kill()


def test_more_idle_connections_than_threads_still_work(start):
    server = start("--slots", "1", "--queue", "1")
    sessions = [server.connect() for _ in range(250)]
    try:
        for connection in sessions:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert hearthd.read_until(connection, b"}").startswith(b"HTTP/1.1 200")
    finally:
        for connection in sessions:
            connection.close()
