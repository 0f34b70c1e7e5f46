"""Ollama's package (pip install ollama): chat, generate, streams, formats, tools, lists, embeddings, errors."""
import asyncio

import pytest

import hearthd
from examples import (ANSWER, DESCRIBE, LONG, MESSAGES, MODEL, QUESTION, WEATHER_QUESTION, WEATHER_TOOL, City,
                      is_weather_call)

ollama = pytest.importorskip("ollama", reason="the package ollama is not installed: tests/clients/run.sh")

SMALL = {"model": MODEL, "messages": MESSAGES, "options": {"temperature": 0, "num_predict": 12}}


@pytest.fixture()
def client(server):
    return ollama.Client(host=server.url, timeout=hearthd.PATIENCE)


def test_chat_answers_and_streams_the_same(client):
    whole = client.chat(**SMALL)
    assert whole.message.content.startswith(ANSWER) and whole.done
    assert whole.prompt_eval_count > 0 and 0 < whole.eval_count <= 12
    parts = list(client.chat(**SMALL, stream=True))
    assert "".join(part.message.content for part in parts) == whole.message.content
    assert parts[-1].done and parts[-1].eval_count == whole.eval_count and not any(part.done for part in parts[:-1])


def test_the_async_client_does_the_same(client, server):
    async def ask():
        sdk = ollama.AsyncClient(host=server.url, timeout=hearthd.PATIENCE)
        whole = await sdk.chat(**SMALL)
        return whole.message.content, "".join([part.message.content async for part in await sdk.chat(**SMALL, stream=True)])

    whole, streamed = asyncio.run(ask())
    assert whole == streamed == client.chat(**SMALL).message.content


def test_generate_answers_and_streams_the_same(client):
    options = {"model": MODEL, "prompt": QUESTION, "options": {"temperature": 0, "num_predict": 12}}
    whole = client.generate(**options)
    assert whole.response.startswith(ANSWER) and whole.done
    assert "".join(part.response for part in client.generate(**options, stream=True)) == whole.response


def test_a_schema_is_kept_to(client):
    answer = client.chat(model=MODEL, messages=[{"role": "user", "content": DESCRIBE}], format=City.model_json_schema(),
                         options={"temperature": 0, "num_predict": 60})
    City.model_validate_json(answer.message.content)


def test_tools_are_taken_and_results_answered(client):
    # Ollama's API cannot force a call. What the model does not do by itself, the history says it has done.
    question = {"role": "user", "content": WEATHER_QUESTION}
    options = {"model": MODEL, "tools": [WEATHER_TOOL], "options": {"temperature": 0, "num_predict": 40}}
    asked = client.chat(messages=[question], **options).message
    for call in asked.tool_calls or []:
        assert call.function.name == "get_weather" and is_weather_call(call.function.arguments)
    call = {"function": {"name": "get_weather", "arguments": {"city": "Paris", "unit": "celsius"}}}
    told = client.chat(messages=[question, {"role": "assistant", "content": "", "tool_calls": [call]},
                                 {"role": "tool", "tool_name": "get_weather", "content": "21 degrees, sunny"}], **options)
    assert told.message.content or told.message.tool_calls


def test_lists_and_shows_the_model(client):
    assert any(model.model.split(":")[0] == MODEL for model in client.list().models)
    assert "completion" in client.show(MODEL).capabilities


def test_embeds(client):
    answer = client.embed(model=MODEL, input=["The cat sits on the mat.", "A kitten rests."])
    first, second = answer.embeddings
    assert len(first) == len(second) > 0 and first != second


def test_errors_are_the_packages_own(client):
    with pytest.raises(ollama.ResponseError) as unknown:
        client.chat(model="of-elsewhere", messages=MESSAGES)
    assert unknown.value.status_code == 404 and "of-elsewhere" in unknown.value.error


def test_leaving_a_stream_frees_its_slot(client, server):
    stream = client.chat(model=MODEL, messages=[{"role": "user", "content": LONG}], stream=True,
                         options={"num_predict": 1500})
    next(stream)
    stream.close()
    hearthd.wait_until(lambda: server.n_running() == 0, "the slot to be free")
