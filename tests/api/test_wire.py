"""The bytes on the wire: framing, limits and HTTP's less common ways, with raw sockets."""
import json

import httpx
import pytest

import hearthd

CLOSE = "Host: localhost\r\nConnection: close\r\n"


def status_of(answer):
    return int(answer.split(" ", 2)[1])


def completion(**fields):
    return json.dumps({"prompt": "The sky is", "temperature": 0, "max_tokens": 4, **fields})


def test_event_stream_framing(server):
    answer = server.ask(hearthd.post("/v1/chat/completions", json.dumps(
        {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5, "stream": True})))
    head, _, body = answer.partition("\r\n\r\n")
    for line in ("content-type: text/event-stream", "cache-control: no-cache", "x-accel-buffering: no",
                 "transfer-encoding: chunked"):
        assert line in head.lower()
    sizes_and_data = body.split("\r\n")
    data = "".join(sizes_and_data[1::2])
    events = data.split("\n\n")
    assert events[-1] == "" and events[-2] == "data: [DONE]"
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
    assert chunks[-1]["choices"][0]["finish_reason"] in ("stop", "length")
    assert body.endswith("0\r\n\r\n")


def test_a_body_in_chunks_and_after_expect(server):
    body = completion()
    chunked = "".join(f"{len(part):x}\r\n{part}\r\n" for part in (body[:7], body[7:])) + "0\r\n\r\n"
    answer = server.ask(
        f"POST /v1/completions HTTP/1.1\r\n{CLOSE}Transfer-Encoding: chunked\r\n\r\n{chunked}")
    assert status_of(answer) == 200
    with server.connect() as connection:
        connection.sendall(f"POST /v1/completions HTTP/1.1\r\n{CLOSE}Expect: 100-continue\r\n"
                           f"Content-Length: {len(body)}\r\n\r\n".encode())
        assert hearthd.read_until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 100")
        connection.sendall(body.encode())
        assert status_of(hearthd.read_all(connection)) == 200


def test_curl_without_a_content_type_header(server):
    long_prompt = completion(prompt="a " * 400, ignored="x" * 9000)
    answer = server.ask(hearthd.post("/v1/completions", long_prompt).replace(
        b"application/json", b"application/x-www-form-urlencoded"))
    assert status_of(answer) == 200


def test_paths_methods_and_head(server):
    assert status_of(server.ask(f"GET //v1//models/ HTTP/1.1\r\n{CLOSE}\r\n")) == 200
    assert status_of(server.ask(f"GET /models HTTP/1.1\r\n{CLOSE}\r\n")) == 200
    head = server.ask(f"HEAD /v1/models HTTP/1.1\r\n{CLOSE}\r\n")
    assert status_of(head) == 200 and head.endswith("\r\n\r\n")
    wrong = server.ask(f"GET /v1/completions HTTP/1.1\r\n{CLOSE}\r\n")
    assert status_of(wrong) == 405 and "Allow: POST" in wrong
    assert status_of(server.ask(f"DELETE /v1/models HTTP/1.1\r\n{CLOSE}\r\n")) == 405
    unknown = httpx.post(server.url + "/v1/nothing", json={}, timeout=hearthd.PATIENCE)
    assert unknown.status_code == 404
    assert set(unknown.json()["error"]) == {"message", "type", "param", "code"}


def test_bodies_that_are_no_json(server):
    for body in ("", "{", "[]", "null", "\"text\"", "\x00", "{\"prompt\":" * 2000):
        answer = server.ask(hearthd.post("/v1/completions", body))
        assert status_of(answer) == 400 and '"type":"invalid_request_error"' in answer, body[:20]


def test_limits(server):
    assert status_of(server.ask(f"GET /{'a' * 9000} HTTP/1.1\r\n{CLOSE}\r\n")) == 414
    assert status_of(server.ask(f"GET / HTTP/1.1\r\nA: {'a' * 40000}\r\n{CLOSE}\r\n")) == 431
    assert status_of(
        server.ask(f"POST /v1/completions HTTP/1.1\r\n{CLOSE}Content-Length: 99999999\r\n\r\n{{")) == 413
    assert status_of(server.ask("\x16\x03\x01 hello")) == 400


def test_request_id_is_echoed_or_made(server):
    given = httpx.get(server.url + "/v1/models", headers={"x-request-id": "abc-1"}, timeout=hearthd.PATIENCE)
    assert given.headers["x-request-id"] == "abc-1"
    assert httpx.get(server.url + "/v1/models", timeout=hearthd.PATIENCE).headers["x-request-id"]


def test_keep_alive_carries_many_requests(server):
    with httpx.Client(base_url=server.url, timeout=hearthd.PATIENCE) as session:
        for _ in range(5):
            assert session.post("/v1/completions", content=completion()).status_code == 200
            assert session.get("/v1/models").status_code == 200
    with server.connect() as connection:
        for _ in range(3):
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert hearthd.read_until(connection, b"}").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("version,marker", [("1.0", "Connection: close"), ("1.1", "chunked")])
def test_old_clients_get_no_chunks(server, version, marker):
    data = hearthd.post("/v1/completions",
                        completion(stream=True)).replace(b"HTTP/1.1", f"HTTP/{version}".encode())
    answer = server.ask(data)
    assert marker in answer and "data: [DONE]" in answer
    assert ("chunked" in answer) == (version == "1.1")
