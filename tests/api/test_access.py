"""API keys and web pages of other origins."""
import socket

import httpx
import openai
import pytest

import hearthd


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("# for tests\nfile-key\n")
    server = hearthd.Hearthd("--api-key-file", keys, model=hearthd.SMALL_MODEL,
                             env={"HEARTH_API_KEY": "env-key"})
    yield server
    server.kill()


def test_without_a_key_only_health_answers(closed):
    assert httpx.get(closed.url + "/health", timeout=hearthd.PATIENCE).status_code == 200
    for path in ("/v1/models", "/v1/chat/completions", "/nothing"):
        answer = httpx.get(closed.url + path, timeout=hearthd.PATIENCE)
        assert answer.status_code == 401
        assert answer.json()["error"]["type"] == "authentication_error"
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_request_without_a_key_is_refused_before_its_body(closed):
    """The client sends only a head that announces 16 MB, and gets the 401 before the body."""
    head = (f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{closed.port}\r\n"
            "Content-Length: 16000000\r\n\r\n")
    with socket.create_connection(("127.0.0.1", closed.port), timeout=hearthd.PATIENCE) as connection:
        connection.sendall(head.encode())
        answer = connection.makefile("rb").read().decode()
    assert answer.startswith("HTTP/1.1 401 ")
    assert "Connection: close" in answer and "authentication_error" in answer


def test_keys_of_file_and_environment_are_taken(closed):
    for key in ("file-key", "env-key"):
        with openai.OpenAI(base_url=closed.url + "/v1", api_key=key, max_retries=0) as client:
            assert list(client.models.list())
        assert httpx.get(closed.url + "/v1/models", headers={"X-Api-Key": key},
                         timeout=hearthd.PATIENCE).status_code == 200
    with openai.OpenAI(base_url=closed.url + "/v1", api_key="wrong", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError):
            client.models.list()


def test_keys_never_reach_the_log(closed):
    assert "env-key" not in closed.log() and "file-key" not in closed.log()


def test_preflight_of_a_local_page(server):
    answer = httpx.options(server.url + "/v1/chat/completions", headers={
        "Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os",
    }, timeout=hearthd.PATIENCE)
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == "http://localhost:3000"
    assert answer.headers["access-control-allow-headers"] == "authorization,content-type,x-stainless-os"
    assert "access-control-allow-credentials" not in answer.headers


def test_a_foreign_page_is_refused_and_cannot_read_answers(server):
    answer = httpx.post(server.url + "/v1/completions", json={"prompt": "a"},
                        headers={"Origin": "http://evil.example"}, timeout=hearthd.PATIENCE)
    assert answer.status_code == 403 and "--cors-origin" in answer.json()["error"]["message"]
    assert "access-control-allow-origin" not in answer.headers


def test_an_allowed_page_can_read_errors(start):
    server = start("--cors-origin", "https://chat.example.org")
    headers = {"Origin": "https://chat.example.org"}
    for answer in (httpx.get(server.url + "/v1/models", headers=headers, timeout=hearthd.PATIENCE),
                   httpx.get(server.url + "/nothing", headers=headers, timeout=hearthd.PATIENCE)):
        assert answer.headers["access-control-allow-origin"] == "https://chat.example.org"


def test_a_foreign_page_cannot_read_answers_even_with_keys_set(closed):
    for headers, status in (({}, 401), ({"X-Api-Key": "file-key"}, 200)):
        answer = httpx.get(closed.url + "/v1/models", headers={"Origin": "http://evil.example", **headers},
                           timeout=hearthd.PATIENCE)
        assert answer.status_code == status and "access-control-allow-origin" not in answer.headers


def test_a_foreign_host_name_is_refused(small):
    server = small("--allowed-host", "chat.example.org")
    for host, status in (("evil.example", 403), ("evil.example:8080", 403),
                         ("127.0.0.1.evil.example", 403), ("chat.example.org", 200),
                         (f"localhost:{server.port}", 200), ("[::1]", 200)):
        for path in ("/v1/models", "/health", "/openapi.json"):
            answer = httpx.get(server.url + path, headers={"Host": host}, timeout=hearthd.PATIENCE)
            assert answer.status_code == status, (host, path)
        if status == 403:
            error = answer.json()["error"]
            assert error["code"] == "host_not_allowed" and "--allowed-host" in error["message"]
    assert httpx.options(server.url + "/v1/models",
                         headers={"Host": "evil.example", "Origin": "http://localhost"},
                         timeout=hearthd.PATIENCE).status_code == 403


def test_admin_is_for_this_machine_only_without_keys(small):
    server = small()
    assert httpx.get(server.url + "/admin/x", timeout=hearthd.PATIENCE).status_code == 404
    answer = httpx.get(server.url + "/admin/x", headers={"X-Forwarded-For": "192.0.2.1"},
                       timeout=hearthd.PATIENCE)
    assert answer.status_code == 403 and answer.json()["error"]["code"] == "role_missing"
