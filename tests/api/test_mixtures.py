"""Mixtures of experts and models with windows over HTTP: tiny models as converters write them.

Their logits are held to transformers' by architectures_test. Here: a client gets the same tokens alone and in a crowd,
and an answer that a schema asks for.
"""
import concurrent.futures
import json

import httpx
import pytest

import hearthd

MODELS = hearthd.ROOT / "tests/data/arch"


@pytest.fixture(params=["mixtral", "qwen3moe", "gpt-oss", "glm4moe", "gemma3"])
def server(request):
    started = hearthd.Hearthd("--threads", "2", "--slots", "4", model=MODELS / f"{request.param}.gguf")
    yield started
    started.kill()


def complete(server, prompt, **options):
    answer = httpx.post(server.url + "/v1/completions", timeout=hearthd.PATIENCE,
                        json={"prompt": prompt, "max_tokens": 24, "temperature": 0, "logprobs": 0, **options})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_answers_in_a_crowd_are_those_of_each_alone(server):
    prompts = [[1] + [(7 * i + n) % 250 + 3 for i in range(5 + 6 * n)] for n in range(5)]
    alone = [complete(server, prompt)["choices"][0] for prompt in prompts]
    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        crowd = list(pool.map(lambda prompt: complete(server, prompt)["choices"][0], prompts))
    assert crowd == alone


def test_an_answer_keeps_to_its_schema(server):
    answer = complete(server, "x", max_tokens=8, response_format={
        "type": "json_schema", "json_schema": {"name": "a", "schema": {"enum": [17, 23]}}})
    assert json.loads(answer["choices"][0]["text"]) in (17, 23)
