"""Anthropic's package (pip install anthropic): messages, streams, tools, counting, errors."""
import pytest

import hearthd
from examples import ANSWER, LONG, MESSAGES, MODEL, WEATHER_QUESTION, WEATHER_SCHEMA, is_weather_call

anthropic = pytest.importorskip("anthropic", reason="the package anthropic is not installed: tests/clients/run.sh")

GREEDY = {"temperature": 0}  # version 2 of the package has no parameter for it
SMALL = {"model": MODEL, "messages": MESSAGES, "extra_body": GREEDY, "max_tokens": 12}
TOOL = {"name": "get_weather", "description": "Tells the weather of a city.", "input_schema": WEATHER_SCHEMA}
WEATHER = {"model": MODEL, "messages": [{"role": "user", "content": WEATHER_QUESTION}], "extra_body": GREEDY,
           "max_tokens": 60, "tools": [TOOL]}


@pytest.fixture()
def client(server):
    # This package adds /v1 itself.
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=hearthd.PATIENCE) as sdk:
        yield sdk


def test_a_message_is_answered(client):
    message = client.messages.create(**SMALL)
    assert message.type == "message" and message.role == "assistant"
    assert message.content[0].type == "text" and message.content[0].text.startswith(ANSWER)
    assert message.stop_reason in ("end_turn", "max_tokens")
    assert message.usage.input_tokens > 0 and 0 < message.usage.output_tokens <= 12


def test_a_stream_gives_the_same_message(client):
    whole = client.messages.create(**SMALL)
    with client.messages.stream(**SMALL) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == whole.content[0].text == final.content[0].text
    assert final.stop_reason == whole.stop_reason
    assert final.usage.output_tokens == whole.usage.output_tokens


def test_a_system_prompt_reaches_the_model(client):
    plain = client.messages.create(**SMALL)
    told = client.messages.create(**SMALL, system="Answer in capital letters.")
    assert told.usage.input_tokens != plain.usage.input_tokens


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "get_weather"}])
def test_a_forced_tool_is_used_and_its_result_answered(client, choice):
    asked = client.messages.create(**WEATHER, tool_choice={**choice, "disable_parallel_tool_use": True})
    use, = [block for block in asked.content if block.type == "tool_use"]
    assert asked.stop_reason == "tool_use" and use.name == "get_weather" and is_weather_call(use.input)
    told = client.messages.create(**{**WEATHER, "tool_choice": {"type": "none"}, "messages": [
        *WEATHER["messages"], {"role": "assistant", "content": asked.content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "21 degrees, sunny"}]}]})
    assert told.content[0].type == "text" and told.content[0].text


def test_a_streamed_tool_use_is_the_whole_one(client):
    choice = {"type": "any", "disable_parallel_tool_use": True}
    whole, = client.messages.create(**WEATHER, tool_choice=choice).content
    with client.messages.stream(**WEATHER, tool_choice=choice) as stream:
        streamed, = stream.get_final_message().content
    assert (streamed.name, streamed.input) == (whole.name, whole.input)


def test_counted_tokens_are_those_of_the_answer(client):
    counted = client.messages.count_tokens(model=MODEL, messages=MESSAGES)
    usage = client.messages.create(**SMALL).usage
    cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    assert counted.input_tokens == usage.input_tokens + cached


def test_errors_are_the_packages_own(client):
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(**{**SMALL, "model": "claude-of-elsewhere"})
    with pytest.raises(anthropic.BadRequestError) as wrong:
        client.messages.create(**{**SMALL, "messages": []})
    assert "messages" in str(wrong.value)


def test_closing_a_stream_frees_its_slot(client, server):
    with client.messages.create(model=MODEL, messages=[{"role": "user", "content": LONG}], max_tokens=1500,
                                stream=True) as stream:
        next(iter(stream))
    hearthd.wait_until(lambda: server.n_running() == 0, "the slot to be free")
