"""POST /v1/embeddings with the openai package, as its users call it, and with raw requests where the package
cannot go."""
import asyncio
import base64
import json
import struct

import httpx
import ollama
import openai
import pytest

import hearthd as daemon

TINY = daemon.ROOT / "tests/data/arch/qwen3.gguf"  # 64 dimensions, context 64
WIDTH = 576  # of SmolLM2-135M
TEXTS = ["The capital of France is Paris.", "Ünïcödé — 東京の天気は晴れ。🙂", "x", "def f(n):\n    return n + 1\n"]


def norm(vector):
    return sum(x * x for x in vector) ** 0.5


def golden_texts():
    return json.loads((daemon.ROOT / "tests/data/golden/smollm2-texts.json").read_text())


def post(server, path="/v1/embeddings", **body):
    return httpx.post(server.url + path, json=body, timeout=daemon.PATIENCE)


def vectors(server, **body):
    answer = post(server, **body)
    assert answer.status_code == 200, answer.text
    return [item["embedding"] for item in answer.json()["data"]]


def refused(server, **body):
    answer = post(server, **body)
    assert answer.status_code == 400, answer.text
    return answer.json()["error"]


def test_the_package_gets_vectors_of_length_one(client):
    answer = client.embeddings.create(model="smol", input=TEXTS)  # the package requests base64 and decodes it
    assert answer.object == "list" and answer.model == "smol"
    assert [item.index for item in answer.data] == [0, 1, 2, 3]
    assert all(item.object == "embedding" for item in answer.data)
    for item in answer.data:
        assert len(item.embedding) == WIDTH
        assert norm(item.embedding) == pytest.approx(1, abs=1e-6)
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > len(TEXTS)


def test_numbers_and_base64_are_the_same_floats(client, server):
    numbers = client.embeddings.create(model="smol", input=TEXTS[0],
                                       encoding_format="float").data[0].embedding
    raw = post(server, input=TEXTS[0], encoding_format="base64").json()["data"][0]["embedding"]
    floats = struct.unpack(f"<{WIDTH}f", base64.b64decode(raw, validate=True))
    assert [struct.unpack("<f", struct.pack("<f", x))[0] for x in numbers] == list(floats)


def test_a_list_gives_the_vectors_of_its_texts_alone(server):
    together = vectors(server, input=TEXTS)
    assert together == [vectors(server, input=text)[0] for text in TEXTS]
    assert together == vectors(server, input=TEXTS[::-1])[::-1]
    assert len({tuple(vector) for vector in together}) == len(TEXTS)


def test_ids_are_embedded_as_their_text(server):
    texts = [text for text in golden_texts() if len(text["tokens"]) < 400]
    by_text = post(server, input=[text["text"] for text in texts]).json()
    by_ids = post(server, input=[text["tokens"] for text in texts]).json()
    assert by_text["data"] == by_ids["data"]
    assert by_ids["usage"]["prompt_tokens"] == sum(len(text["tokens"]) for text in texts)
    assert vectors(server, input=texts[0]["tokens"]) == [by_ids["data"][0]["embedding"]]


@pytest.mark.parametrize("n", [1, 2, 64, WIDTH])
def test_dimensions_cut_and_scale_again(client, n):
    whole = client.embeddings.create(model="smol", input=TEXTS[0]).data[0].embedding
    short = client.embeddings.create(model="smol", input=TEXTS[0], dimensions=n).data[0].embedding
    length = norm(whole[:n])
    assert short == (whole if n == WIDTH else pytest.approx([x / length for x in whole[:n]], abs=1e-7))


def test_embeddings_beside_a_running_chat_change_neither(server):
    ask = {"messages": [{"role": "user", "content": "Tell me about rivers."}], "max_tokens": 60,
           "temperature": 0}
    alone_text = post(server, "/v1/chat/completions", **ask).json()["choices"][0]["message"]["content"]
    alone = vectors(server, input=TEXTS)

    async def both():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as sdk:
            chat = asyncio.create_task(sdk.chat.completions.create(model="smol", **ask))
            return await asyncio.gather(
                chat, *(sdk.embeddings.create(model="smol", input=TEXTS, encoding_format="float")
                        for _ in range(5)))

    chat, *embedded = asyncio.run(both())
    assert chat.choices[0].message.content == alone_text
    for answer in embedded:
        assert [item.embedding for item in answer.data] == alone


@pytest.mark.parametrize("body, param", [
    ({}, "input"),
    ({"input": None}, "input"),
    ({"input": ""}, "input"),
    ({"input": ["a", ""]}, "input"),
    ({"input": []}, "input"),
    ({"input": [[]]}, "input"),
    ({"input": ["a", [1]]}, "input"),
    ({"input": [1, "a"]}, "input"),
    ({"input": {"text": "a"}}, "input"),
    ({"input": 7}, "input"),
    ({"input": [-1]}, "input"),
    ({"input": [10 ** 9]}, "input"),
    ({"input": [1.5]}, "input"),
    ({"input": ["a"] * 2049}, "input"),
    ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
    ({"input": "a", "encoding_format": 1}, "encoding_format"),
    ({"input": "a", "dimensions": 0}, "dimensions"),
    ({"input": "a", "dimensions": WIDTH + 1}, "dimensions"),
    ({"input": "a", "dimensions": "many"}, "dimensions"),
    ({"input": "a", "truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
    ({"input": "a", "truncate_prompt_tokens": -2}, "truncate_prompt_tokens"),
    ({"input": "a", "normalize": False}, "normalize"),
    ({"input": "a", "embd_normalize": -1}, "embd_normalize"),
    ({"messages": [{"role": "user", "content": "a"}]}, "messages"),
])
def test_mistakes_are_named(server, body, param):
    error = refused(server, **body)
    assert error["param"] == param and error["type"] == "invalid_request_error"


def test_harmless_members_that_clients_send_are_accepted(server):
    assert (vectors(server, input="a", user="me", normalize=True, embd_normalize=2, priority=0)
            == vectors(server, input="a"))


def test_a_text_beyond_the_context_is_refused_or_cut(server):
    tokens = next(text["tokens"] for text in golden_texts() if text["name"] == "long")
    assert len(tokens) > 1024  # the shared server's context
    for body in ({"input": tokens}, {"input": [[5], tokens]},
                 {"input": "word " * 5000}, {"input": "x" * 1_000_000},
                 {"input": tokens, "truncate_prompt_tokens": 1025}):
        error = refused(server, **body)
        assert error["code"] == "context_length_exceeded" and error["param"] == "input"
    kept = post(server, input=tokens, truncate_prompt_tokens=-1).json()
    assert kept["usage"]["prompt_tokens"] == 1024
    assert kept["data"] == post(server, input=tokens[-1024:]).json()["data"]
    assert (vectors(server, input=[tokens, [7, 8]], truncate_prompt_tokens=3)
            == vectors(server, input=[tokens[-3:], [7, 8]]))


def test_other_ways_to_the_endpoint(server):
    expected = vectors(server, input="a")
    for path in ("/embeddings", "/v1/v1/embeddings", "/openai/v1/embeddings",
                 "/openai/deployments/smol/embeddings?api-version=1"):
        answer = post(server, path, input="a")
        assert answer.status_code == 200 and [item["embedding"] for item in answer.json()["data"]] == expected
    assert httpx.get(server.url + "/v1/embeddings", timeout=daemon.PATIENCE).status_code == 405
    assert post(server, input="a", model="nobody").status_code == 404


def test_a_client_that_leaves_ends_its_embeddings(start):
    server = start("--slots", "1", "--context", "2048")
    with server.connect() as connection:
        connection.sendall(daemon.post("/v1/embeddings", json.dumps({"input": [[7] * 2000] * 500})))
        daemon.wait_until(lambda: server.n_running() == 1, "the embedding to run")
    daemon.wait_until(lambda: server.n_running() == 0, "the embedding to end")
    daemon.wait_until(lambda: "client left" in server.log(), "the line that says so")
    assert vectors(server, input="a") and server.health()[1]["waiting"] == 0


def test_keepalive_sends_blank_lines_before_the_answer(start):
    server = start("--slots", "1", "--context", "2048", "--keepalive-seconds", "1", "--threads", "1")
    # The model computes for far longer than a second, so the answer begins before its result is known.
    raw = server.ask(daemon.post("/v1/embeddings", json.dumps({"input": [[7] * 2000]})))
    head, body = raw.split("\r\n\r\n", 1)
    assert " 200 " in head and "chunked" in head.lower()
    chunks = body.split("\r\n")[1::2]
    assert chunks[0] == "\n"
    assert len(json.loads("".join(chunks))["data"]) == 1


@pytest.fixture(scope="module")
def pair(model_path):
    both = daemon.Hearthd("--context", "1024", "--alias", "smol",
                          "--embedding-model", TINY, "--embedding-alias",
                          "text-embedding-3-small", model=model_path)
    yield both
    both.signal()
    assert both.wait() == 0, both.log()


class TestEmbeddingModel:
    def test_names_choose_the_model(self, pair):
        tiny = vectors(pair, input="a")
        assert len(tiny[0]) == 64
        for name in ("qwen3", "text-embedding-3-small"):
            answer = post(pair, input="a", model=name).json()
            assert answer["model"] == name and answer["data"][0]["embedding"] == tiny[0]
        by_chat = post(pair, input="a", model="smol").json()
        assert by_chat["model"] == "smol" and len(by_chat["data"][0]["embedding"]) == WIDTH
        error = post(pair, input="a", model="nobody").json()["error"]
        assert (error["code"] == "model_not_found" and "'qwen3'" in error["message"]
                and "'smol'" in error["message"])

    def test_limits_are_those_of_the_model_that_answers(self, pair):
        assert refused(pair, input=[7] * 65)["code"] == "context_length_exceeded"
        assert vectors(pair, input=[7] * 65, model="smol")
        assert refused(pair, input=[259])["param"] == "input"
        assert refused(pair, input="a", dimensions=65)["param"] == "dimensions"
        assert len(vectors(pair, input="a", dimensions=65, model="smol")[0]) == 65

    def test_the_embedding_model_is_listed_and_does_not_chat(self, pair):
        with openai.OpenAI(base_url=pair.url + "/v1", api_key="none", max_retries=0) as sdk:
            names = [model.id for model in sdk.models.list()]
            assert names == ["smol", names[1], "text-embedding-3-small", "qwen3"]
            assert sdk.models.retrieve("qwen3").max_model_len == 64
            assert sdk.models.retrieve("qwen3").embedding == {"dimensions": 64, "pooling": "last"}
            with pytest.raises(openai.BadRequestError, match="embeds texts"):
                sdk.chat.completions.create(model="qwen3", messages=[{"role": "user", "content": "Hi"}])
            with pytest.raises(openai.BadRequestError, match="embeds texts"):
                sdk.completions.create(model="text-embedding-3-small", prompt="Hi")
            assert sdk.completions.create(model="smol", prompt="Hi",
                                          max_tokens=2).usage.completion_tokens == 2

    def test_ollamas_clients_see_the_embedding_model(self, pair):
        with ollama.Client(host=pair.url, timeout=daemon.PATIENCE) as lama:
            names = [model.model for model in lama.list().models]
            assert (names[0] == "smol:latest"
                    and names[2:] == ["text-embedding-3-small:latest", "qwen3:latest"])
            assert [(model.model, model.context_length) for model in lama.ps().models] == [
                ("smol:latest", 1024), ("text-embedding-3-small:latest", 64)]
            for name in names[2:]:
                shown = lama.show(name)
                assert (shown.capabilities == ["embedding"]
                        and shown.modelinfo["general.architecture"] == "qwen3")
                assert shown.modelinfo["qwen3.context_length"] == 64 and shown.details.family == "qwen3"
                assert [list(lama.embed(name, "a").embeddings[0])] == vectors(pair, input="a")
                assert [list(lama.embeddings(name, "a").embedding)] == vectors(pair, input="a")
                with pytest.raises(ollama.ResponseError, match="embeds texts"):
                    lama.chat(name, [{"role": "user", "content": "Hi"}])
            assert [list(lama.embed("smol", "a").embeddings[0])] == vectors(pair, input="a", model="smol")

    def test_health_covers_both_models(self, pair):
        status, health = pair.health()
        assert status == 200 and health["model"] == "smol"
        assert health["embedding"] == {"model": "text-embedding-3-small",
                                       "slots": {"total": 16, "running": 0}, "waiting": 0}

    def test_both_models_work_at_once(self, pair):
        alone = vectors(pair, input=["a b c", "d e f"])

        async def crowd():
            async with openai.AsyncOpenAI(base_url=pair.url + "/v1", api_key="none", max_retries=0) as sdk:
                chats = [sdk.completions.create(model="smol", prompt="Once", max_tokens=30, temperature=0)
                         for _ in range(3)]
                embeds = [sdk.embeddings.create(model="qwen3", input=["a b c", "d e f"],
                                                encoding_format="float")
                          for _ in range(20)]
                return await asyncio.gather(*chats, *embeds)

        answers = asyncio.run(crowd())
        assert len({answer.choices[0].text for answer in answers[:3]}) == 1
        assert all([item.embedding for item in answer.data] == alone for answer in answers[3:])


def test_any_name_is_embedded_by_the_embedding_model(start):
    server = start("--alias", "*", "--embedding-model", TINY,
                   model=daemon.ROOT / "tests/data/arch/llama.gguf")
    assert post(server, input="a", model="whatever").json()["model"] == "whatever"
    assert vectors(server, input="a", model="whatever") == vectors(server, input="a", model="qwen3")
    assert vectors(server, input="a", model="llama") != vectors(server, input="a", model="qwen3")
    assert post(server, "/v1/completions", prompt="a", max_tokens=1, model="whatever").status_code == 200


def test_a_stop_waits_for_embeddings_that_run(start, model_path):
    server = start("--embedding-model", model_path, "--embedding-alias", "embedder", "--drain-seconds", "100",
                   "--embedding-context", "1024")
    with server.connect() as connection:
        connection.sendall(daemon.post("/v1/embeddings",
                                       json.dumps({"input": [[7] * 500] * 4, "model": "embedder"})))
        daemon.wait_until(lambda: server.health()[1]["embedding"]["slots"]["running"] > 0,
                          "the embedding to run")
        server.signal()
        answer = daemon.read_all(connection)
    assert " 200 " in answer.split("\r\n")[0] and '"index":3' in answer
    assert server.wait() == 0


@pytest.mark.parametrize("arguments, says", [
    (["--embedding-model", "/nowhere.gguf"], "/nowhere.gguf"),
    (["--embedding-model", __file__], "GGUF"),
    (["--embedding-model", TINY, "--model", TINY], "--embedding-alias"),
    (["--embedding-model", TINY, "--embedding-context", "65"], "65 tokens"),
    (["--embedding-model", TINY, "--alias", "qwen3"], "--embedding-alias"),
])
def test_impossible_settings_are_refused_at_start(arguments, says):
    if "--model" not in arguments:
        arguments = ["--model", daemon.ROOT / "tests/data/arch/llama.gguf", *arguments]
    ended = daemon.run(["--port", "0", *arguments])
    assert ended.returncode == 2 and says in ended.stderr, ended.stderr
