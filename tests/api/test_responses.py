"""The Responses API through the openai package, as its users see it."""
import json
import threading

import httpx
import openai
import pydantic
import pytest

import hearthd as daemon

PARIS = "What is the capital of France?"
WEATHER = {"type": "function", "name": "weather", "description": "The weather of a city", "strict": True,
           "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}},
                          "required": ["city"], "additionalProperties": False}}


def test_a_response_answers_the_question(client):
    response = client.responses.create(model="smol", input=PARIS, temperature=0, max_output_tokens=40)
    assert response.output_text.startswith("The capital of France is Paris")
    assert response.status in ("completed", "incomplete") and response.object == "response"
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    assert response.usage.output_tokens_details.reasoning_tokens == 0
    chat = client.chat.completions.create(model="smol", messages=[{"role": "user", "content": PARIS}],
                                          temperature=0, max_tokens=40)
    assert response.output_text == chat.choices[0].message.content
    assert response.usage.input_tokens == chat.usage.prompt_tokens


def test_instructions_are_the_systems_message(client):
    response = client.responses.create(model="smol", instructions="You are a pirate.", input=PARIS,
                                       temperature=0, max_output_tokens=12)
    chat = client.chat.completions.create(model="smol", temperature=0, max_tokens=12, messages=[
        {"role": "system", "content": "You are a pirate."}, {"role": "user", "content": PARIS}])
    assert response.output_text == chat.choices[0].message.content
    assert response.instructions == "You are a pirate."


def test_events_are_typed_and_give_the_whole_response(client):
    whole = client.responses.create(model="smol", input=PARIS, temperature=0, max_output_tokens=40)
    events = list(client.responses.create(model="smol", input=PARIS, temperature=0, max_output_tokens=40,
                                          stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:4] == ["response.created", "response.in_progress", "response.output_item.added",
                         "response.content_part.added"]
    assert kinds[-4:-1] == ["response.output_text.done", "response.content_part.done",
                            "response.output_item.done"]
    assert kinds[-1] == "response." + whole.status
    assert "".join(event.delta
                   for event in events if event.type == "response.output_text.delta") == whole.output_text
    assert isinstance(events[4], openai.types.responses.ResponseTextDeltaEvent)
    assert events[-1].response.output_text == whole.output_text
    assert events[-1].response.id == events[0].response.id


def test_a_stream_has_names_and_no_done(server):
    body = {"input": "Hi", "max_output_tokens": 4, "stream": True, "temperature": 0}
    text = httpx.post(server.url + "/v1/responses", json=body, timeout=daemon.PATIENCE).text
    blocks = text.strip("\n").split("\n\n")
    for block in blocks:
        name, data = block.split("\n")
        assert name.removeprefix("event: ") == json.loads(data.removeprefix("data: "))["type"]
    assert "[DONE]" not in text


def test_the_sdks_accumulator_follows_the_stream(client):
    with client.responses.stream(model="smol", input=PARIS, temperature=0, max_output_tokens=60) as stream:
        snapshots = [event.snapshot for event in stream if event.type == "response.output_text.delta"]
    final = stream.get_final_response()
    assert final.output_text == snapshots[-1] and "Paris" in final.output_text


class City(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=20)
    is_capital: bool


def test_parse_gives_objects(client):
    response = client.responses.parse(model="smol", input="Tell me about Paris in JSON.", text_format=City,
                                      temperature=0, max_output_tokens=100)
    assert isinstance(response.output_parsed, City)
    assert response.text.format.type == "json_schema"


def test_a_tool_is_called_and_its_result_is_taken(client):
    first = client.responses.create(model="smol",
                                    input="How is the weather in Ulm?", tools=[WEATHER], temperature=0,
                                    tool_choice={"type": "function", "name": "weather"}, max_output_tokens=80,
                                    parallel_tool_calls=False)
    call = first.output[-1]
    assert (call.type == "function_call" and call.name == "weather"
            and set(json.loads(call.arguments)) == {"city"})
    second = client.responses.create(
        model="smol", previous_response_id=first.id, temperature=0, max_output_tokens=10, input=[
            {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}])
    # The same conversation, sent whole: the output's items are input items too.
    sent = client.responses.create(model="smol", temperature=0, max_output_tokens=10, store=False, input=[
        {"role": "user", "content": "How is the weather in Ulm?"}, *first.output,
        {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}])
    assert second.output_text == sent.output_text and second.usage.input_tokens == sent.usage.input_tokens


def test_a_streamed_call_has_its_arguments(client):
    events = list(client.responses.create(model="smol",
                                          input="How is the weather in Ulm?", tools=[WEATHER], temperature=0,
                                          tool_choice="required", max_output_tokens=80, stream=True,
                                          parallel_tool_calls=False))
    deltas = "".join(e.delta for e in events if e.type == "response.function_call_arguments.delta")
    done = [e for e in events if e.type == "response.function_call_arguments.done"]
    assert done[0].arguments == deltas and "city" in json.loads(deltas)
    assert events[-1].response.output[-1].arguments == deltas


def test_a_conversation_continues(client):
    first = client.responses.create(model="smol", input="My name is Ada.", temperature=0,
                                    max_output_tokens=20)
    second = client.responses.create(model="smol", input="And?", previous_response_id=first.id, temperature=0,
                                     max_output_tokens=20)
    chat = client.chat.completions.create(model="smol", temperature=0, max_tokens=20, messages=[
        {"role": "user", "content": "My name is Ada."}, {"role": "assistant", "content": first.output_text},
        {"role": "user", "content": "And?"}])
    assert second.output_text == chat.choices[0].message.content
    assert second.previous_response_id == first.id


def test_kept_responses_are_retrieved_listed_and_deleted(client):
    response = client.responses.create(
        model="smol", temperature=0, max_output_tokens=4, metadata={"a": "b"}, input=[
            {"role": "user", "content": "one"}, {"role": "assistant", "content": "two"},
            {"role": "user", "content": "three"}])
    assert client.responses.retrieve(response.id).to_dict() == response.to_dict()
    items = list(client.responses.input_items.list(response.id, limit=2, order="asc"))  # two pages
    assert [item.content[0].text for item in items] == ["one", "two", "three"]
    client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)
    with pytest.raises(openai.BadRequestError) as gone:
        client.responses.create(model="smol", input="x", previous_response_id=response.id)
    assert gone.value.code == "previous_response_not_found"
    unkept = client.responses.create(model="smol", input="x", max_output_tokens=2, store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(unkept.id)


def test_a_running_response_is_cancelled(client, server):
    stream = client.responses.create(model="smol", input="Count to a thousand.", stream=True,
                                     max_output_tokens=900, extra_body={"ignore_eos": True})
    events = []
    for event in stream:
        events.append(event)
        if len(events) == 8:
            assert client.responses.cancel(events[0].response.id).status == "cancelled"
    assert events[-1].response.status == "cancelled"
    assert events[-1].response.usage.output_tokens < 900
    assert client.responses.retrieve(events[0].response.id).status == "cancelled"
    daemon.wait_until(lambda: server.n_running() == 0, "the engine to have stopped")


def test_a_background_response_is_retrieved_later(client):
    whole = client.responses.create(model="smol", input=PARIS, temperature=0, max_output_tokens=40)
    begun = client.responses.create(model="smol", input=PARIS, temperature=0, max_output_tokens=40,
                                    background=True)
    assert begun.status == "in_progress" and begun.background
    ended = daemon.wait_until(
        lambda: (now := client.responses.retrieve(begun.id)).status == whole.status and now, "its end")
    assert ended.output_text == whole.output_text and ended.usage.output_tokens == whole.usage.output_tokens


def test_a_background_response_is_cancelled_or_deleted(client, server):
    endless = {"model": "smol", "input": PARIS, "max_output_tokens": 900, "background": True,
               "extra_body": {"ignore_eos": True}}
    begun = client.responses.create(**endless)
    daemon.wait_until(lambda: server.n_running() == 1, "the engine to have begun")
    assert client.responses.cancel(begun.id).status == "cancelled"
    daemon.wait_until(lambda: server.n_running() == 0, "the engine to have stopped")
    daemon.wait_until(lambda: client.responses.retrieve(begun.id).usage, "the last word on it")
    assert client.responses.retrieve(begun.id).status == "cancelled"
    client.responses.delete(client.responses.create(**endless).id)
    daemon.wait_until(lambda: server.n_running() == 0, "the engine to have stopped")


def test_logprobs(client):
    response = client.responses.create(model="smol", input=PARIS, temperature=0, max_output_tokens=6,
                                       top_logprobs=2, include=["message.output_text.logprobs"])
    logprobs = response.output[0].content[0].logprobs
    assert len(logprobs) == 6
    assert all(entry.logprob <= 0 and entry.top_logprobs[0].token == entry.token for entry in logprobs)
    assert "".join(entry.token for entry in logprobs) == response.output_text


def test_input_tokens(client):
    response = client.responses.create(model="smol", input=PARIS, max_output_tokens=1)
    assert client.responses.input_tokens.count(model="smol",
                                               input=PARIS).input_tokens == response.usage.input_tokens


def test_errors_are_the_right_exceptions(client):
    for arguments, param in (
            ({"background": True, "stream": True}, "background"),
            ({"tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}},
             "tool_choice.type"),
            ({"temperature": 9}, "temperature"), ({"max_output_tokens": 0}, "max_output_tokens"),
            ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
             "input[0].content[0].type")):
        with pytest.raises(openai.BadRequestError) as wrong:
            client.responses.create(**{"model": "smol", "input": "x", **arguments})
        assert wrong.value.param == param
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="gpt-unknown", input="x")
    with pytest.raises(openai.BadRequestError) as long:
        client.responses.create(model="smol", input="word " * 3000)
    assert long.value.code == "context_length_exceeded" and long.value.param == "input"


def test_simultaneous_conversations_do_not_mix(client):
    answers = {}

    def converse(name):
        first = client.responses.create(model="smol", input=f"My name is {name}.", temperature=0,
                                        max_output_tokens=8)
        again = client.responses.create(model="smol", input="Who am I?",
                                        previous_response_id=first.id, temperature=0,
                                        max_output_tokens=8)
        answers.setdefault(name, []).append((first.output_text, again.output_text))

    for _ in range(2):
        threads = [threading.Thread(target=converse, args=(name,)) for name in ("Ada", "Bob", "Cleo", "Dan")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=daemon.PATIENCE)
    assert all(len(pair) == 2 and pair[0] == pair[1] for pair in answers.values()) and len(answers) == 4
