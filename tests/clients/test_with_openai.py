"""OpenAI's own package beyond tests/api/test_openai_sdk.py: async, functions that parse, tools, the raw
answer, and clients that disconnect."""
import asyncio
import base64
import json
import struct
from typing import Literal

import openai
import pydantic
import pytest

import hearthd
from examples import (ANSWER, DESCRIBE, LONG, MESSAGES, MODEL, QUESTION, WEATHER_QUESTION, WEATHER_TOOL, City,
                      is_weather_call)

SMALL = {"model": MODEL, "messages": MESSAGES, "temperature": 0, "max_tokens": 12}
CITY = {"model": MODEL, "messages": [{"role": "user", "content": DESCRIBE}], "temperature": 0,
        "max_tokens": 60}
WEATHER = {"model": MODEL, "messages": [{"role": "user", "content": WEATHER_QUESTION}], "temperature": 0,
           "max_tokens": 60}


class GetWeather(pydantic.BaseModel):
    """Tells the weather of a city."""
    city: Literal["Paris", "Berlin", "Rome"]
    unit: Literal["celsius", "fahrenheit"]


@pytest.fixture()
def client(base_url):
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=hearthd.PATIENCE) as sdk:
        yield sdk


def run_async(base_url, use):
    """Runs the coroutine use(client)."""
    async def run():
        async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0,
                                      timeout=hearthd.PATIENCE) as sdk:
            return await use(sdk)

    return asyncio.run(run())


# ---- answers ----

def test_async_answers_and_streams_what_sync_does(client, base_url):
    async def ask(sdk):
        whole, stream = await asyncio.gather(sdk.chat.completions.create(**SMALL),
                                             sdk.chat.completions.create(**SMALL, stream=True))
        return whole, "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    expected = client.chat.completions.create(**SMALL).choices[0].message.content
    whole, streamed = run_async(base_url, ask)
    assert expected.startswith(ANSWER)
    assert whole.choices[0].message.content == expected and streamed == expected


def test_the_stream_helper_reports_every_piece_and_the_end(client):
    with client.chat.completions.stream(**SMALL, stream_options={"include_usage": True}) as stream:
        events = list(stream)
        final = stream.get_final_completion()
    deltas = [event.delta for event in events if event.type == "content.delta"]
    done = [event.content for event in events if event.type == "content.done"]
    assert "".join(deltas) == done[0] == final.choices[0].message.content
    assert len(deltas) > 1 and final.usage.completion_tokens <= 12


def test_raw_answers_have_the_requests_id(client):
    raw = client.chat.completions.with_raw_response.create(**SMALL,
                                                           extra_headers={"X-Request-Id": "my-own-id"})
    assert raw.headers["x-request-id"] == "my-own-id" and raw.parse()._request_id == "my-own-id"
    with client.chat.completions.with_streaming_response.create(**SMALL) as streamed:
        assert streamed.headers["content-type"].startswith("application/json")
        assert ANSWER in "".join(streamed.iter_lines())


# ---- structure ----

def test_parse_gives_the_class(client):
    answer = client.chat.completions.parse(**CITY, response_format=City)
    assert isinstance(answer.choices[0].message.parsed, City)
    assert answer.choices[0].finish_reason == "stop"


def test_a_parsed_stream_gives_the_same_class(client):
    whole = client.chat.completions.parse(**CITY, response_format=City).choices[0].message.parsed
    with client.chat.completions.stream(**CITY, response_format=City) as stream:
        assert any(event.type == "content.delta" and event.parsed for event in stream)
        assert stream.get_final_completion().choices[0].message.parsed == whole


def test_an_answer_that_is_cut_is_the_clients_own_error(client):
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(**{**CITY, "max_tokens": 3}, response_format=City)


# ---- tools ----

@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "GetWeather"}}])
def test_a_forced_call_parses_into_the_tools_class(client, choice):
    # A named function is called once. With "required" alone, a small model calls again and again.
    single = {"parallel_tool_calls": False} if choice == "required" else {}
    answer = client.chat.completions.parse(**WEATHER, tools=[openai.pydantic_function_tool(GetWeather)],
                                           tool_choice=choice, **single)
    call, = answer.choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, GetWeather)
    assert answer.choices[0].finish_reason == "tool_calls"


def test_a_streamed_call_is_the_whole_one(client):
    tools = {"tools": [WEATHER_TOOL], "tool_choice": "required", "parallel_tool_calls": False}
    whole, = client.chat.completions.create(**WEATHER, **tools).choices[0].message.tool_calls
    name, arguments, ids = "", "", set()
    for chunk in client.chat.completions.create(**WEATHER, **tools, stream=True):
        for call in chunk.choices[0].delta.tool_calls or []:
            name += call.function.name or ""
            arguments += call.function.arguments or ""
            ids.add(call.id)
    assert name == whole.function.name == "get_weather"
    assert arguments == whole.function.arguments and is_weather_call(json.loads(arguments))
    assert len(ids - {None}) == 1


def test_the_result_of_a_call_is_answered(client):
    messages = list(WEATHER["messages"])
    options = {**WEATHER, "tools": [WEATHER_TOOL], "parallel_tool_calls": False}
    asked = client.chat.completions.create(**options, tool_choice="required").choices[0].message
    messages += [asked, {"role": "tool", "tool_call_id": asked.tool_calls[0].id,
                         "content": "21 degrees celsius, sunny"}]
    told = client.chat.completions.create(**{**options, "messages": messages},
                                          tool_choice="none").choices[0].message
    assert told.content and not told.tool_calls


# ---- leaving and errors ----

def test_closing_a_stream_frees_its_slot(client, server):
    stream = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": LONG}],
                                            stream=True, extra_body={"ignore_eos": True})
    for _, chunk in zip(range(3), stream):
        assert chunk.choices
    stream.close()
    hearthd.wait_until(lambda: server.n_running() == 0, "the slot to be free")


def test_canceling_a_task_frees_its_slot(base_url, server):
    async def leave(sdk):
        task = asyncio.create_task(sdk.completions.create(model=MODEL, prompt=LONG, max_tokens=2000,
                                                          extra_body={"ignore_eos": True}))
        await asyncio.to_thread(hearthd.wait_until, lambda: server.n_running() == 1, "the request to run")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_async(base_url, leave)
    hearthd.wait_until(lambda: server.n_running() == 0, "the slot to be free")


def test_a_timeout_is_the_clients_own_error(client, server):
    with pytest.raises(openai.APITimeoutError):
        impatient = client.with_options(timeout=0.5)  # by the clock: far less than the answer takes
        impatient.completions.create(model=MODEL, prompt=LONG, max_tokens=2000,
                                     extra_body={"ignore_eos": True})
    hearthd.wait_until(lambda: server.n_running() == 0, "the slot to be free")


# ---- responses ----

def test_responses_answer_stream_and_parse(client):
    options = {"model": MODEL, "input": QUESTION, "temperature": 0, "max_output_tokens": 12}
    whole = client.responses.create(**options)
    assert whole.output_text.startswith(ANSWER)
    assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens
    with client.responses.stream(**options) as stream:
        deltas = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert deltas == stream.get_final_response().output_text == whole.output_text
    parsed = client.responses.parse(model=MODEL, input=DESCRIBE, temperature=0, max_output_tokens=60,
                                    text_format=City)
    assert isinstance(parsed.output_parsed, City)


def test_responses_call_tools(client):
    tool = {"type": "function", "strict": True, **WEATHER_TOOL["function"]}
    options = {"model": MODEL, "tools": [tool], "temperature": 0, "max_output_tokens": 60}
    asked = client.responses.create(**options, input=WEATHER_QUESTION, tool_choice="required",
                                    parallel_tool_calls=False)
    call, = [item for item in asked.output if item.type == "function_call"]
    assert call.name == "get_weather" and is_weather_call(json.loads(call.arguments))
    told = client.responses.create(**options, tool_choice="none", input=[
        {"role": "user", "content": WEATHER_QUESTION}, call.model_dump(exclude_none=True),
        {"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees celsius, sunny"}])
    assert told.output_text


# ---- embeddings ----

def test_embeddings_in_both_encodings(client):
    texts = ["The cat sits on the mat.", "A kitten rests on a rug."]
    floats = client.embeddings.create(model=MODEL, input=texts, encoding_format="float")
    assert [item.index for item in floats.data] == [0, 1] and floats.usage.prompt_tokens > 0
    packed = client.embeddings.create(model=MODEL, input=texts, encoding_format="base64")
    for text, item in zip(packed.data, floats.data):
        values = struct.unpack(f"<{len(item.embedding)}f", base64.b64decode(text.embedding))
        assert values == pytest.approx(item.embedding)
    assert client.embeddings.create(model=MODEL, input=texts[0]).data[0].embedding == pytest.approx(
        floats.data[0].embedding)
