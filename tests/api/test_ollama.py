"""Ollama's API through the ollama package, as its users see it."""
import asyncio
import json

import httpx
import ollama
import pytest

import hearthd as daemon

PARIS = [{"role": "user", "content": "What is the capital of France?"}]
GREEDY = {"temperature": 0, "repeat_penalty": 1, "num_predict": 40}
CITY = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"],
        "additionalProperties": False}


def get_weather(city: str, days: int) -> str:
    """Tells the weather in a city.

    Args:
      city: The name of the city
      days: How many days ahead
    """
    return "It rains."


@pytest.fixture()
def lama(server):
    client = ollama.Client(host=server.url, timeout=daemon.PATIENCE)
    yield client
    client.close()


def test_a_chat_answers_the_question(lama):
    answer = lama.chat("smol", PARIS, options=GREEDY)
    assert answer.message.role == "assistant"
    assert answer.message.content.startswith("The capital of France is Paris")
    assert answer.model == "smol" and answer.done and answer.done_reason in ("stop", "length")
    assert answer.prompt_eval_count > 10 and answer.eval_count > 5
    assert answer.total_duration >= answer.eval_duration > 0


def test_a_chat_streams_the_same_answer(lama):
    whole = lama.chat("smol:latest", PARIS, options=GREEDY)
    parts = list(lama.chat("smol:latest", PARIS, options=GREEDY, stream=True))
    assert "".join(part.message.content for part in parts) == whole.message.content
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    assert parts[-1].eval_count == whole.eval_count and parts[-1].done_reason == whole.done_reason


def test_the_async_client_answers_and_streams_the_same(lama, server):
    async def ask():
        client = ollama.AsyncClient(host=server.url, timeout=daemon.PATIENCE)
        whole = await client.chat("smol", PARIS, options=GREEDY)
        stream = await client.chat("smol", PARIS, options=GREEDY, stream=True)
        return whole.message.content, "".join([part.message.content async for part in stream])

    assert asyncio.run(ask()) == (lama.chat("smol", PARIS, options=GREEDY).message.content,) * 2


def test_streaming_is_the_default_on_the_wire(server):
    with httpx.stream("POST", server.url + "/api/chat", timeout=daemon.PATIENCE,
                      json={"model": "smol", "messages": PARIS, "options": GREEDY}) as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in answer.iter_lines()]
    assert len(lines) > 2 and lines[-1]["done"]


def test_generate(lama):
    chat = lama.chat("smol", PARIS, options=GREEDY)
    whole = lama.generate("smol", PARIS[0]["content"], options=GREEDY)
    assert whole.response == chat.message.content
    assert "".join(part.response for part in lama.generate("smol", PARIS[0]["content"], options=GREEDY,
                                                           stream=True)) == whole.response
    raw = lama.generate("smol", "The capital of France is", raw=True, options={**GREEDY, "num_predict": 3})
    assert raw.response.startswith(" Paris") and raw.done_reason == "length"
    brief = lama.generate("smol", "Hi", system="Answer in French.", options=GREEDY)
    assert brief.prompt_eval_count > 3


def test_an_answer_goes_on_with_the_last_message(lama):
    answer = lama.chat("smol", [*PARIS, {"role": "assistant", "content": "The capital of France is"}],
                       options=GREEDY)
    assert answer.message.content.startswith(" Paris")


def test_formats(lama):
    answer = lama.chat("smol", PARIS, format=CITY, options=GREEDY)
    assert json.loads(answer.message.content)["city"] in ("Paris", "Rome")
    assert json.loads(lama.generate("smol", "Paris", format=CITY, options=GREEDY).response)["city"] in (
        "Paris", "Rome")
    loose = lama.chat("smol", PARIS, format="json", options={**GREEDY, "num_predict": 10})
    assert loose.message.content.lstrip().startswith("{")


def test_options_stop_and_seed(lama):
    stopped = lama.chat("smol", PARIS, options={**GREEDY, "stop": ["Paris"]})
    assert stopped.message.content == "The capital of France is " and stopped.done_reason == "stop"
    drawn = [lama.chat("smol", PARIS, options={"seed": 5, "num_predict": 12}).message.content
             for _ in range(2)]
    assert drawn[0] == drawn[1]


def test_a_forced_tool_is_called(lama, server):
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    tool = ollama._utils.convert_function_to_tool(get_weather).model_dump(exclude_none=True)
    body = {"model": "smol", "messages": messages, "tools": [tool], "tool_choice": "required",
            "parallel_tool_calls": False, "options": {**GREEDY, "num_predict": 200}}
    whole = httpx.post(server.url + "/api/chat", json={**body, "stream": False},
                       timeout=daemon.PATIENCE).json()
    calls = whole["message"]["tool_calls"]
    assert [call["function"]["name"] for call in calls] == ["get_weather"]
    assert set(calls[0]["function"]["arguments"]) == {"city", "days"}
    with httpx.stream("POST", server.url + "/api/chat", json=body, timeout=daemon.PATIENCE) as answer:
        lines = [json.loads(line) for line in answer.iter_lines()]
    streamed = [call for line in lines for call in line["message"].get("tool_calls", [])]
    assert [call["function"] for call in streamed] == [call["function"] for call in calls]
    # The conversation continues with the result, which names only the tool.
    history = [*messages, ollama.Message(role="assistant", tool_calls=[{"function": calls[0]["function"]}]),
               {"role": "tool", "tool_name": "get_weather", "content": get_weather("Paris", 1)}]
    assert lama.chat("smol", history, options=GREEDY).message.content


def test_tools_of_functions_are_accepted(lama):
    answer = lama.chat("smol", PARIS, tools=[get_weather], options=GREEDY)
    assert answer.message.content or answer.message.tool_calls


def test_log_probabilities(lama):
    answer = lama.chat("smol", PARIS, options={**GREEDY, "num_predict": 4}, logprobs=True, top_logprobs=2)
    assert len(answer.logprobs) == answer.eval_count == 4
    assert all(len(token.top_logprobs) == 2 and token.logprob <= 0 for token in answer.logprobs)
    assert "".join(token.token for token in answer.logprobs) == answer.message.content


def test_a_request_without_messages_loads_the_model(lama):
    assert lama.generate("smol", keep_alive="5m").done_reason == "load"
    assert lama.chat("smol", []).done_reason == "load"


def test_embeddings(lama):
    both = lama.embed("smol", ["The sky is blue.", "Grass is green."])
    assert len(both.embeddings) == 2 and both.prompt_eval_count > 4
    assert abs(sum(x * x for x in both.embeddings[0]) - 1) < 1e-5
    assert list(lama.embed("smol:latest", "Grass is green.").embeddings[0]) == list(both.embeddings[1])
    assert list(lama.embeddings("smol", "Grass is green.").embedding) == list(both.embeddings[1])
    assert len(lama.embed("smol", "Grass", dimensions=16).embeddings[0]) == 16
    assert lama.embed("smol", "word " * 2000).prompt_eval_count == 1024
    with pytest.raises(ollama.ResponseError):
        lama.embed("smol", "word " * 2000, truncate=False)


def test_the_model_is_described(lama, server, model_path):
    names = [model.model for model in lama.list().models]
    assert names[0] == "smol:latest" and len(names) == 2
    listed = lama.list().models[0]
    assert listed.size == model_path.stat().st_size and len(listed.digest) == 64
    assert listed.details.family == "llama" and listed.details.format == "gguf"
    shown = lama.show("smol")
    assert {"completion", "tools"} <= set(shown.capabilities) and "thinking" not in shown.capabilities
    assert shown.modelinfo["general.architecture"] == "llama"
    assert shown.modelinfo["llama.context_length"] == 1024
    assert shown.modelinfo["tokenizer.ggml.tokens"] is None
    assert shown.modelinfo["general.parameter_count"] > 100e6
    assert "messages" in shown.template
    running = lama.ps().models
    assert [(model.name, model.context_length) for model in running] == [("smol:latest", 1024)]
    assert httpx.get(server.url + "/api/version", timeout=daemon.PATIENCE).json()["version"].count(".") == 2
    for method in ("GET", "HEAD"):
        assert httpx.request(method, server.url, timeout=daemon.PATIENCE).status_code == 200


def test_errors_are_the_package_s_exception(lama):
    def status_of(call):
        with pytest.raises(ollama.ResponseError) as caught:
            call()
        assert caught.value.error
        return caught.value.status_code
    assert status_of(lambda: lama.chat("llama3", PARIS)) == 404
    assert status_of(lambda: lama.show("llama3")) == 404
    assert status_of(lambda: lama.chat("smol", PARIS, options={"temperature": 9})) == 400
    assert status_of(lambda: lama.chat("smol", PARIS, think=True)) == 400
    assert status_of(lambda: lama.generate("smol", "a", suffix="b")) == 400
    assert status_of(lambda: lama.chat("smol", [{"role": "user", "content": "word " * 2000}])) == 400
    for call in (lama.pull, lama.push, lama.delete):
        assert status_of(lambda: call("smol")) == 501
    assert status_of(lambda: lama.copy("smol", "other")) == 501
    assert status_of(lambda: lama.create("other", from_="smol")) == 501


def test_errors_before_an_endpoint_have_ollamas_shape(server):
    for method, path, status in (("GET", "/api/nothing", 404), ("PUT", "/api/chat", 405)):
        answer = httpx.request(method, server.url + path, timeout=daemon.PATIENCE)
        assert answer.status_code == status and isinstance(answer.json()["error"], str)
    assert '{"error":"the request body is larger' in server.ask(
        "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n")


def test_closing_a_stream_cancels_it(lama, server):
    parts = lama.chat("smol", PARIS, stream=True, options={**GREEDY, "num_predict": 900, "ignore_eos": True})
    next(parts)
    assert server.n_running() == 1
    parts.close()
    daemon.wait_until(lambda: server.n_running() == 0, "the request to be cancelled")
