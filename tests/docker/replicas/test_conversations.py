"""The nginx of docker/replicas: to which conversation a request belongs, and where it goes. Stand-ins replace
hearthd."""
import gzip
import json

import httpx
import pytest

import hearthd
import nginx

LONG = "You are a helpful assistant. " * 200


@pytest.fixture(scope="module")
def replicas():
    made = [nginx.StandIn() for _ in range(3)]
    yield made
    for one in made:
        one.stop()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory, replicas):
    made = nginx.Nginx(tmp_path_factory.mktemp("nginx"), [one.port for one in replicas],
                       show_conversation=True)
    yield made
    made.stop()
    # nginx would log the body on which a regular expression fails
    assert "[alert]" not in made.errors(), made.errors()[:2000]


@pytest.fixture(scope="module")
def http():
    with httpx.Client(timeout=hearthd.PATIENCE) as client:
        yield client


def conversation(proxy, http, body, path="/v1/chat/completions", **headers):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = http.post(proxy.url + path, content=data,
                       headers={"Content-Type": "application/json", **headers})
    assert answer.status_code == 200, answer.text
    return answer.headers["X-Conversation"]


def user(text, **more):
    return {"role": "user", "content": text, **more}


CHAT = [{"role": "system", "content": LONG}, user("Who was Ada?")]
ANSWERED = [*CHAT, {"role": "assistant", "content": "A \"mathematician\"."}, user("When?")]
PARTS = [{"role": "user", "content": [{"type": "text", "text": "Who was Ada?"}]}]
SORTED = [dict(sorted(message.items())) for message in ANSWERED]

# (what, path, first turn, second turn)
SAME = [
    ("chat", "/v1/chat/completions", {"messages": CHAT}, {"messages": ANSWERED, "temperature": 0}),
    ("no system", "/v1/chat/completions", {"messages": CHAT[1:]}, {"messages": ANSWERED[1:]}),
    ("members sorted", "/v1/chat/completions", {"messages": SORTED[:2], "model": "m"},
     {"messages": SORTED, "model": "m"}),
    ("sorted, no system", "/chat/completions", {"messages": SORTED[1:2]}, {"messages": SORTED[1:]}),
    ("parts", "/v1/chat/completions", {"messages": PARTS}, {"messages": PARTS + ANSWERED[2:]}),
    ("a name", "/v1/chat/completions", {"messages": [{"role": "user", "name": "bob", "content": "Who?"}]},
     {"messages": [{"role": "user", "name": "bob", "content": "Who?"}, *ANSWERED[2:]]}),
    ("a quote and a line feed", "/v1/chat/completions", {"messages": [user('"Who"\n\\was\\ "Ada"?')]},
     {"messages": [user('"Who"\n\\was\\ "Ada"?'), *ANSWERED[2:]]}),
    ("text that looks like JSON", "/v1/chat/completions",
     {"messages": [user('{"role": "user", "content": "x"}')]},
     {"messages": [user('{"role": "user", "content": "x"}'), *ANSWERED[2:]]}),
    ("Anthropic", "/v1/messages", {"system": LONG, "messages": CHAT[1:]},
     {"system": LONG, "messages": ANSWERED[1:]}),
    ("Anthropic's blocks, the cache's mark moves", "/v1/messages",
     {"system": [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}],
      "messages": [user([{"type": "text", "text": "Who?", "cache_control": {"type": "ephemeral"}}])]},
     {"system": [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}],
      "messages": [user([{"type": "text", "text": "Who?"}]), *ANSWERED[2:]]}),
    ("Ollama", "/api/chat", {"model": "m", "messages": CHAT}, {"model": "m", "messages": ANSWERED}),
    ("responses, then with the history", "/v1/responses",
     {"instructions": "Be brief.", "input": "Who was Ada?"},
     {"instructions": "Be brief.",
      "input": [user("Who was Ada?"), {"role": "assistant", "content": "She."}, user("When?")]}),
    ("prompt_cache_key", "/v1/chat/completions", {"prompt_cache_key": "k-1", "messages": [user("a")]},
     {"messages": [user("b")], "prompt_cache_key": "k-1"}),
    ("a long prompt", "/v1/completions", {"prompt": LONG}, {"prompt": LONG + "and more"}),
    ("token ids", "/v1/completions", {"prompt": list(range(300))}, {"prompt": list(range(400))}),
    ("a document that is filled in", "/infill", {"input_prefix": LONG, "input_suffix": "a"},
     {"input_prefix": LONG + "x", "input_suffix": "b"}),
]


@pytest.mark.parametrize("spacing", [None, (",", ":"), 2], ids=["spaced", "compact", "indented"])
@pytest.mark.parametrize("path, first, second", [case[1:] for case in SAME], ids=[case[0] for case in SAME])
def test_a_conversation_is_recognized_by_its_beginning(proxy, http, path, first, second, spacing):
    def text(body):
        if spacing == 2:
            return json.dumps(body, indent=2).encode()
        return json.dumps(body, separators=spacing, ensure_ascii=spacing is None).encode()

    names = [conversation(proxy, http, text(body), path) for body in (first, second)]
    assert names[0] == names[1] and len(names[0]) > 2


def test_conversations_with_one_system_text_are_many(proxy, http):
    names = {conversation(proxy, http, {"messages": [CHAT[0], user(f"Question {i}")]}) for i in range(20)}
    assert len(names) == 20
    names = {conversation(proxy, http,
                          {"messages": [{"role": "system", "content": f"Document {i}"}, user("Sum up.")]})
             for i in range(20)}
    assert len(names) == 20


def test_texts_with_30000_common_bytes_are_still_distinguished(proxy, http):
    assert conversation(proxy, http, {"messages": [user("x" * 30000 + "1")]}) != conversation(
        proxy, http, {"messages": [user("x" * 30000 + "2")]})


@pytest.mark.parametrize("header", ["X-Session-Id", "X-Session-Affinity", "X-Claude-Code-Session-Id",
                                    "X-OpenWebUI-Chat-Id"])
def test_a_header_says_which_conversation_it_is(proxy, http, header):
    assert conversation(proxy, http, {"messages": CHAT}, **{header: "c-17"}) == "<c-17>"


def test_content_of_a_text_cannot_name_a_conversation(proxy, http):
    plain = conversation(proxy, http, {"messages": [user("Hi")]})
    for text in ('"prompt_cache_key": "x"', '{"previous_response_id":"resp_1"}',
                 '"role":"user","content":"y"'):
        assert conversation(proxy, http,
                            {"messages": [user("Hi"), {"role": "assistant", "content": text}]}) == plain


def test_a_conversation_stays_with_a_replica_and_many_use_all(proxy, http, replicas):
    def port(i, turns=0):
        messages = [CHAT[0], user(f"Question {i}"), *(ANSWERED[2:] * turns)]
        return http.post(proxy.url + "/v1/chat/completions", json={"messages": messages}).json()["port"]

    at = {i: port(i) for i in range(45)}
    assert all(port(i, turns) == at[i] for i in range(45) for turns in (1, 3))
    counts = [list(at.values()).count(one.port) for one in replicas]
    assert min(counts) >= 5, counts  # out of 45


def test_requests_without_a_conversation_go_round_robin(proxy, http, replicas):
    ports = {http.post(proxy.url + "/v1/embeddings", json={"input": ["a", "b"]}).json()["port"]
             for _ in range(20)}
    assert ports == {one.port for one in replicas}
    packed = gzip.compress(json.dumps({"messages": CHAT}).encode())
    names = {conversation(proxy, http, packed, **{"Content-Encoding": "gzip"}) for _ in range(3)}
    assert len(names) == 3


def test_bodies_of_16_mib_are_read_in_memory_and_larger_ones_refused(proxy, http):
    text = "x" * (15 << 20)
    body = json.dumps({"messages": [user("Who was Ada?"), {"role": "assistant", "content": text}]}).encode()
    expected = conversation(proxy, http, {"messages": [user("Who was Ada?")]})
    assert conversation(proxy, http, body) == expected

    def chunks():
        for begin in range(0, len(body), 100000):
            yield body[begin:begin + 100000]

    answer = http.post(proxy.url + "/v1/chat/completions", content=chunks())
    assert answer.status_code in (200, 501) and answer.headers["X-Conversation"] == expected
    assert http.post(proxy.url + "/v1/chat/completions", content=b"x" * (17 << 20)).status_code == 413


@pytest.mark.image
@pytest.mark.parametrize("piece", ['"role":"user",', '"role":"system","content":"', '"system":[',
                                   '"content":"x",', "\\", "\\n", '"content":"' + "\\n" * 2000 + '",',
                                   '"prompt":[', '"role": ' + " " * 90, '{"role":"user","name":"',
                                   '"content":[{"type":"text",'])
def test_no_body_keeps_nginx_busy(proxy, http, piece):
    body = (piece * ((4 << 20) // len(piece))).encode()
    with httpx.Client(timeout=hearthd.PATIENCE) as client:
        assert client.post(proxy.url + "/v1/chat/completions", content=body).status_code == 200


def test_requests_about_a_single_replica_are_not_answered_here(proxy, http):
    for path in ("/admin/model", "/v1/metrics", "/metrics", "/openai/v1/admin/model"):
        answer = http.get(proxy.url + path)
        assert answer.status_code == 404 and answer.json()["error"]["code"] == "unknown_url"


def test_the_clients_address_is_passed_on(proxy, http, replicas):
    for one in replicas:
        one.requests.clear()
    http.post(proxy.url + "/v1/chat/completions", json={"messages": CHAT},
              headers={"Authorization": "Bearer k", "X-Forwarded-For": "10.9.8.7"})
    (_, headers, body), = [request for one in replicas for request in one.requests]
    assert headers["X-Forwarded-For"] == "10.9.8.7, 127.0.0.1" and headers["Authorization"] == "Bearer k"
    assert headers["Host"] == f"127.0.0.1:{proxy.port}" and json.loads(body) == {"messages": CHAT}
    assert "X-Ask-Others" not in headers
