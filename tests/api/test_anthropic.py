"""Anthropic's Messages API through the anthropic package, as its users see it."""
import anthropic
import pytest

import hearthd as daemon

PARIS = [{"role": "user", "content": "What is the capital of France?"}]
GREEDY = {"temperature": 0}  # newer versions of the package have no such parameter
WEATHER = {
    "name": "get_weather",
    "description": "Tells the weather in a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]},
                       "days": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["city", "days"],
        "additionalProperties": False,
    },
}


@pytest.fixture()
def claude(server):
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0,
                             timeout=daemon.PATIENCE) as sdk:
        yield sdk


def ask(claude, **options):
    options = {"model": "smol", "max_tokens": 40, "messages": PARIS, "extra_body": GREEDY, **options}
    return claude.messages.create(**options)


def test_a_message_answers_the_question(claude):
    answer = ask(claude)
    assert answer.type == "message" and answer.role == "assistant" and answer.model == "smol"
    assert [block.type for block in answer.content] == ["text"]
    assert answer.content[0].text.startswith("The capital of France is Paris")
    assert answer.stop_reason in ("end_turn", "max_tokens") and answer.stop_sequence is None
    total = answer.usage.input_tokens + answer.usage.cache_read_input_tokens
    assert total == claude.messages.count_tokens(model="smol", messages=PARIS).input_tokens
    assert answer.usage.output_tokens > 0
    assert answer._request_id


def test_a_stream_builds_the_same_message(claude):
    whole = ask(claude)
    with claude.messages.stream(model="smol", max_tokens=40, messages=PARIS, extra_body=GREEDY) as stream:
        text = "".join(stream.text_stream)
        built = stream.get_final_message()
    assert text == whole.content[0].text
    assert built.content[0].text == text
    assert (built.stop_reason, built.stop_sequence) == (whole.stop_reason, whole.stop_sequence)
    assert built.usage.output_tokens == whole.usage.output_tokens
    assert built.usage.input_tokens + built.usage.cache_read_input_tokens == (
        whole.usage.input_tokens + whole.usage.cache_read_input_tokens)


def test_the_raw_events_of_a_stream(claude):
    events = list(ask(claude, stream=True, max_tokens=3))
    assert [event.type for event in events if event.type != "content_block_delta"] == [
        "message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop"]
    assert events[-2].delta.stop_reason == "max_tokens" and events[-2].usage.output_tokens == 3


def test_stop_sequences(claude):
    answer = ask(claude, stop_sequences=["Paris"])
    assert answer.stop_reason == "stop_sequence" and answer.stop_sequence == "Paris"
    assert answer.content[0].text == "The capital of France is "


def test_a_system_text_and_blocks(claude):
    blocks = [{"type": "text", "text": "What is the capital of France?",
               "cache_control": {"type": "ephemeral"}}]
    plain = ask(claude, system="Be brief.")
    assert ask(claude, system=[{"type": "text", "text": "Be brief."}],
               messages=[{"role": "user", "content": blocks}]).content == plain.content


def test_the_answer_continues_a_prefill(claude):
    answer = ask(claude, messages=[*PARIS, {"role": "assistant", "content": "The capital of France is"}])
    assert answer.content[0].text.startswith(" Paris")


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "get_weather"}])
def test_a_forced_tool_is_called_with_its_schema(claude, choice):
    options = {"tools": [WEATHER], "tool_choice": {**choice, "disable_parallel_tool_use": True},
               "messages": [{"role": "user", "content": "What is the weather in Paris?"}], "max_tokens": 200}
    answer = ask(claude, **options)
    assert answer.stop_reason == "tool_use"
    call = answer.content[-1]
    assert call.type == "tool_use" and call.name == "get_weather" and call.id
    assert call.input["city"] in ("Paris", "Rome") and 1 <= call.input["days"] <= 9
    with claude.messages.stream(model="smol", extra_body=GREEDY, **options) as stream:
        built = stream.get_final_message()
    assert built.content[-1].input == call.input and built.stop_reason == "tool_use"
    # The conversation goes on with the result.
    history = [*options["messages"],
               {"role": "assistant", "content": [block.to_dict() for block in answer.content]},
               {"role": "user",
                "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "It rains."}]}]
    assert ask(claude, tools=[WEATHER], tool_choice={"type": "none"},
               messages=history).content[0].type == "text"


def test_a_schema_for_the_answer(claude):
    schema = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"],
              "additionalProperties": False}
    answer = ask(claude, output_config={"format": {"type": "json_schema", "schema": schema}})
    assert answer.content[0].text.replace(" ", "").replace("\n", "") in (
        '{"city":"Paris"}', '{"city":"Rome"}')


def test_thinking_is_accepted_by_a_model_that_does_not_think(claude):
    answer = ask(claude, thinking={"type": "enabled", "budget_tokens": 1024})
    assert [block.type for block in answer.content] == ["text"]


def test_errors_are_the_right_exceptions(claude):
    with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
        ask(claude, max_tokens=0)
    with pytest.raises(anthropic.BadRequestError, match="image"):
        ask(claude, messages=[{"role": "user", "content": [{"type": "image", "source": {
            "type": "base64", "media_type": "image/png", "data": ""}}]}])
    with pytest.raises(anthropic.BadRequestError, match="web_search"):
        ask(claude, tools=[{"type": "web_search_20250305", "name": "web_search"}])
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
        ask(claude, system="word " * 2000)
    with pytest.raises(anthropic.NotFoundError) as caught:
        ask(claude, model="claude-opus")
    assert caught.value.body["error"]["type"] == "not_found_error"


def test_models_in_pages(claude, server):
    models = list(claude.models.list(limit=1))  # one page per model
    assert len(models) == 2 and models[0].id == "smol"
    assert all(model.type == "model" and model.display_name == model.id for model in models)
    assert claude.models.retrieve("smol").max_input_tokens == 1024
    with pytest.raises(anthropic.NotFoundError) as caught:
        claude.models.retrieve("claude-opus")
    assert caught.value.body["error"]["type"] == "not_found_error"


def test_errors_of_the_transport_and_of_unknown_paths(claude, server):
    with pytest.raises(anthropic.NotFoundError) as unknown:
        claude.messages.batches.list()
    assert unknown.value.body["type"] == "error" and unknown.value.request_id
    head = "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n"
    assert '"type":"request_too_large"' in server.ask(head)


def test_keys_headers_and_names_of_programs(start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    server = start("--api-key-file", keys, "--alias", "*", "--context", "512")
    with anthropic.Anthropic(base_url=server.url, api_key="wrong", max_retries=0) as claude:
        with pytest.raises(anthropic.AuthenticationError):
            ask(claude, model="claude-any", max_tokens=2)
    with anthropic.Anthropic(base_url=server.url, api_key="secret", max_retries=0) as claude:
        answer = claude.beta.messages.create(model="claude-any", max_tokens=2, messages=PARIS,
                                             betas=["interleaved-thinking-2025-05-14"],
                                             metadata={"user_id": "u"})
        assert answer.model == "claude-any"
    with anthropic.Anthropic(base_url=server.url, auth_token="secret", max_retries=0) as claude:
        assert claude.messages.count_tokens(model="claude-other", messages=PARIS).input_tokens > 10


def test_closing_a_stream_cancels_it(claude, server):
    stream = ask(claude, stream=True, max_tokens=900, extra_body={"temperature": 0, "ignore_eos": True})
    next(iter(stream))
    assert server.n_running() == 1
    stream.close()
    daemon.wait_until(lambda: server.n_running() == 0, "the request to be cancelled")
