"""LiteLLM (pip install litellm): models are named openai/NAME, with api_base."""
import asyncio
import json
import os

import pytest

import hearthd
from examples import ANSWER, DESCRIBE, MESSAGES, MODEL, WEATHER_QUESTION, WEATHER_TOOL, City, is_weather_call

# otherwise it fetches prices from the network when it is imported
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
litellm = pytest.importorskip("litellm", reason="the package litellm is not installed: tests/clients/run.sh")


@pytest.fixture()
def server_options(base_url):
    return {"model": f"openai/{MODEL}", "api_base": base_url, "api_key": "none", "timeout": hearthd.PATIENCE,
            "num_retries": 0}


@pytest.fixture()
def small(server_options):
    return {**server_options, "messages": MESSAGES, "temperature": 0, "max_tokens": 12}


def test_completion_answers_and_streams_the_same(small):
    whole = litellm.completion(**small)
    assert whole.choices[0].message.content.startswith(ANSWER)
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    chunks = list(litellm.completion(**small, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == \
        whole.choices[0].message.content
    rebuilt = litellm.stream_chunk_builder(chunks, messages=MESSAGES)
    assert rebuilt.usage.completion_tokens == whole.usage.completion_tokens


def test_acompletion_answers_and_streams_the_same(small):
    async def ask():
        whole = await litellm.acompletion(**small)
        stream = await litellm.acompletion(**small, stream=True)
        return (whole.choices[0].message.content,
                "".join([c.choices[0].delta.content or "" async for c in stream]))

    whole, streamed = asyncio.run(ask())
    assert whole == streamed and whole.startswith(ANSWER)


def test_text_completion(server_options):
    answer = litellm.text_completion(**{**server_options, "model": f"text-completion-openai/{MODEL}"},
                                     prompt="The sky is", max_tokens=4, temperature=0)
    assert answer.choices[0].text


def test_tools_are_called(server_options):
    answer = litellm.completion(
        **server_options, messages=[{"role": "user", "content": WEATHER_QUESTION}], temperature=0,
        max_tokens=60, tools=[WEATHER_TOOL], tool_choice="required", parallel_tool_calls=False)
    call, = answer.choices[0].message.tool_calls
    assert call.function.name == "get_weather" and is_weather_call(json.loads(call.function.arguments))


def test_an_answer_follows_a_class(server_options):
    answer = litellm.completion(**server_options, messages=[{"role": "user", "content": DESCRIBE}],
                                temperature=0, max_tokens=60, response_format=City)
    City.model_validate_json(answer.choices[0].message.content)


def test_embeddings(server_options):
    answer = litellm.embedding(**server_options, input=["The cat sits.", "A kitten rests."],
                               encoding_format="float")
    assert len(answer.data) == 2 and answer.data[0]["embedding"] != answer.data[1]["embedding"]


def test_errors_are_the_packages_own(small):
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(**{**small, "model": "openai/of-elsewhere"})
    with pytest.raises(litellm.BadRequestError):
        litellm.completion(**{**small, "temperature": 9})
    with pytest.raises(litellm.ContextWindowExceededError):
        litellm.completion(**{**small, "messages": [{"role": "user", "content": "word " * 3000}]})
