"""Encoders over HTTP: a model that embeds texts and generates nothing, alone and beside a model that
generates."""
import asyncio

import httpx
import openai
import pytest

import hearthd as daemon

# Both encoders have 64 dimensions and a context of 64; [CLS] is token 2, [SEP] 3.
ARCH = daemon.ROOT / "tests/data/arch"
WIDTH = 64
TEXTS = ["a b c", "x", "the quick brown fox", "d e f g h i j k l m n o p q r s t u v w x y z", "z y", "c b a"]


def post(server, path="/v1/embeddings", **body):
    return httpx.post(server.url + path, json=body, timeout=daemon.PATIENCE)


def vectors(server, **body):
    answer = post(server, **body)
    assert answer.status_code == 200, answer.text
    return [item["embedding"] for item in answer.json()["data"]]


@pytest.fixture(scope="module", params=["bert", "nomic-bert"])
def encoder(request):
    running = daemon.Hearthd("--prefill-chunk", "8", model=ARCH / f"{request.param}.gguf")
    yield running
    running.signal()
    assert running.wait() == 0, running.log()


def test_a_text_has_one_vector_alone_and_among_others(encoder):
    together = vectors(encoder, input=TEXTS)
    assert together == [vectors(encoder, input=text)[0] for text in TEXTS]
    assert together == vectors(encoder, input=TEXTS[::-1])[::-1]
    assert len({tuple(vector) for vector in together}) == len(TEXTS)
    assert all(sum(x * x for x in vector) == pytest.approx(1, abs=1e-6) for vector in together)

    async def crowd():
        async with openai.AsyncOpenAI(base_url=encoder.url + "/v1", api_key="none", max_retries=0) as sdk:
            return await asyncio.gather(
                *(sdk.embeddings.create(model=sdk_name, input=TEXTS, encoding_format="float")
                  for sdk_name in [encoder_name(encoder)] * 12))

    for answer in asyncio.run(crowd()):
        assert [item.embedding for item in answer.data] == together


def encoder_name(server):
    return httpx.get(server.url + "/v1/models", timeout=daemon.PATIENCE).json()["data"][0]["id"]


def test_texts_are_embedded_between_their_special_tokens(encoder):
    tokens = post(encoder, "/tokenize", content="a b c", add_special=False).json()["tokens"]
    assert vectors(encoder, input="a b c") == vectors(encoder, input=[2, *tokens, 3])
    assert vectors(encoder, input="a b c") != vectors(encoder, input=tokens)


def test_later_text_changes_the_vector(encoder):
    first, second = vectors(encoder, input=[[2, 10, 11, 12, 3], [2, 10, 11, 13, 3]])
    assert first != second


def test_a_text_beyond_the_context_is_refused_or_cut_between_its_special_tokens(encoder):
    tokens = [7 + i % 200 for i in range(63)]
    answer = post(encoder, input=[2, *tokens, 3])
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert vectors(encoder, input=[2, *tokens[:62], 3])
    words = "a b c d e " * 20
    assert post(encoder, input=words).status_code == 400
    ids = post(encoder, "/tokenize", content=words, add_special=False).json()["tokens"]
    assert (vectors(encoder, input=words, truncate_prompt_tokens=-1)
            == vectors(encoder, input=[2, *ids[-62:], 3]))


@pytest.mark.parametrize("path, body", [
    ("/v1/completions", {"prompt": "a"}),
    ("/v1/completions", {"prompt": "a", "stream": True}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}),
    ("/v1/responses", {"input": "a"}),
    ("/v1/messages", {"max_tokens": 4, "messages": [{"role": "user", "content": "a"}]}),
    ("/completion", {"prompt": "a"}),
    ("/infill", {"input_prefix": "a", "input_suffix": "b"}),
    ("/api/generate", {"model": "", "prompt": "a", "stream": False}),
    ("/api/chat", {"model": "", "messages": [{"role": "user", "content": "a"}]}),
])
def test_generation_is_refused_with_a_sentence(encoder, path, body):
    if "model" in body:
        body = {**body, "model": encoder_name(encoder)}
    answer = post(encoder, path, **body)
    assert answer.status_code == 400, answer.text
    if path != "/infill":  # the vocabulary already rules it out
        assert ("is an encoder, which makes embeddings and generates no text" in answer.text
                and "/v1/embeddings" in answer.text)
    assert vectors(encoder, input="a")


def test_the_start_and_the_list_say_what_the_model_is_for(encoder):
    assert "the model is an encoder: it serves /v1/embeddings, with 64 dimensions" in encoder.log()
    assert "/v1/embeddings -d" in encoder.log() and "/v1/completions -d" not in encoder.log()
    model = httpx.get(encoder.url + "/v1/models", timeout=daemon.PATIENCE).json()["data"][0]
    assert model["generates"] is False and model["embedding"]["dimensions"] == WIDTH
    assert model["embedding"]["pooling"] == {"bert": "first", "nomic-bert": "mean"}[model["id"]]
    shown = post(encoder, "/api/show", model=model["id"]).json()
    assert shown["capabilities"] == ["embedding"]


def test_an_encoder_beside_a_model_that_generates(start):
    server = start("--embedding-model", ARCH / "bert.gguf", model=ARCH / "llama.gguf")
    alone = start(model=ARCH / "bert.gguf")
    assert vectors(server, input=TEXTS) == vectors(alone, input=TEXTS)
    answer = post(server, "/v1/completions", prompt="a", max_tokens=3, model="llama")
    assert answer.status_code == 200
    assert [model["generates"] for model in httpx.get(
        server.url + "/v1/models", timeout=daemon.PATIENCE).json()["data"]] == [True, False]


@pytest.mark.parametrize("arguments", [
    ["--model", ARCH / "llama.gguf", "--draft-model", ARCH / "bert.gguf"],
    ["--model", ARCH / "bert.gguf", "--draft-model", ARCH / "llama.gguf"],
])
def test_an_encoder_drafts_nothing(arguments):
    ended = daemon.run(["--port", "0", *arguments])
    assert ended.returncode == 2 and "encoder" in ended.stderr, ended.stderr
