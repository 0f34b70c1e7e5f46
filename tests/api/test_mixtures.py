"""Mixtures of experts and models with windows over HTTP: tiny models as converters write them.

architectures_test compares their logits with transformers'. Here, a client gets the same tokens alone and in
a crowd, an answer that follows a schema, calls of tools in the format of the model's family, and long texts
that span many windows.
"""
import concurrent.futures
import json

import httpx
import openai
import pytest

import gguf_edit
import hearthd

MODELS = hearthd.ROOT / "tests/data/arch"
TEMPLATES = hearthd.ROOT / "tests/data/chat_templates"
WEATHER = {"type": "function", "function": {"name": "weather", "strict": True, "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]},
                                     "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"], "additionalProperties": False}}}


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


@pytest.fixture(params=[("qwen3moe", "qwen3"), ("mixtral", "mistral_v3"), ("glm4moe", "glm45"),
                        ("granitemoe", "granite_33")],
                ids=lambda param: param[0])
def chatting(request, tmp_path):
    """A mixture with its family's chat template and room for 4,096 tokens, which are bytes."""
    name, template = request.param
    keys = {"tokenizer.chat_template": (TEMPLATES / f"{template}.jinja").read_text(encoding="utf-8")}
    arch = "llama" if name == "mixtral" else name
    model = gguf_edit.copy_with(MODELS / f"{name}.gguf", tmp_path / f"{name}.gguf",
                                {**keys, f"{arch}.context_length": 4096})
    started = hearthd.Hearthd("--threads", "2", "--slots", "2", model=model)
    yield started
    started.kill()


def test_a_mixture_calls_a_tool_as_its_family_does(chatting):
    client = openai.OpenAI(base_url=chatting.url + "/v1", api_key="none", timeout=hearthd.PATIENCE,
                           max_retries=0)
    asked = {"model": client.models.list().data[0].id,
             "messages": [{"role": "user", "content": "How is the weather?"}], "tools": [WEATHER],
             "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 300, "temperature": 0}
    answer = client.chat.completions.create(**asked).choices[0]
    assert answer.finish_reason == "tool_calls"
    call = answer.message.tool_calls[0]
    assert call.function.name == "weather"
    arguments = json.loads(call.function.arguments)
    assert arguments["city"] in ("Rome", "Oslo") and 1 <= arguments["days"] <= 9
    pieces = [chunk.choices[0].delta.tool_calls[0].function.arguments or "" for chunk in
              client.chat.completions.create(**asked, stream=True)
              if chunk.choices and chunk.choices[0].delta.tool_calls]
    assert json.loads("".join(pieces)) == arguments

    # The result goes back, and the conversation goes on.
    history = asked["messages"] + [answer.message.model_dump(exclude_none=True),
                                   {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    reply = client.chat.completions.create(**{**asked, "messages": history, "tool_choice": "none",
                                              "max_tokens": 5}).choices[0]
    assert reply.finish_reason == "length" and not reply.message.tool_calls


@pytest.mark.parametrize("name", ["gpt-oss", "gemma3", "cohere2", "smallthinker"])
def test_a_text_of_many_windows_is_the_same_in_one_request_and_in_turns(name, tmp_path):
    """40 windows of 8 tokens, computed at once and as a growing conversation whose beginning is in the prefix
    cache."""
    model = gguf_edit.copy_with(MODELS / f"{name}.gguf", tmp_path / f"{name}.gguf",
                                {f"{name}.context_length": 512})
    text = [1] + [(11 * i * i + 5 * i) % 250 + 3 for i in range(319)]
    answers = []
    for turns in ([320], [40, 100, 101, 215, 320]):
        server = hearthd.Hearthd("--threads", "2", "--slots", "2", "--prefill-chunk", "48", model=model)
        try:
            answers.append([complete(server, text[:n]) for n in turns][-1])
        finally:
            server.kill()
    assert answers[0]["choices"] == answers[1]["choices"]
    assert answers[0]["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert answers[1]["usage"]["prompt_tokens_details"]["cached_tokens"] >= 200
