"""The API through the openai package, as its users see it."""
import concurrent.futures
import json

import openai
import pytest

# This model's first token is a near tie (0.08 nats in float32) between "The" and nonsense, so the right
# answer shows precise computation.
PARIS = [{"role": "user", "content": "What is the capital of France?"}]


def test_chat_answers_the_question(client):
    answer = client.chat.completions.create(model="smol", messages=PARIS, temperature=0, max_tokens=40)
    choice = answer.choices[0]
    assert choice.message.content.startswith("The capital of France is Paris")
    assert choice.message.role == "assistant"
    assert choice.finish_reason in ("stop", "length")
    assert answer.object == "chat.completion"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_chat_streams_the_same_answer(client):
    whole = client.chat.completions.create(model="smol", messages=PARIS, temperature=0, max_tokens=40)
    chunks = list(client.chat.completions.create(model="smol", messages=PARIS,
                                                 temperature=0, max_tokens=40, stream=True,
                                                 stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert "Paris" in text
    assert text == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert len({(chunk.id, chunk.created) for chunk in chunks}) == 1
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert reasons[-1] == whole.choices[0].finish_reason and set(reasons[:-1]) == {None}
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_chat_stream_helper(client):
    with client.beta.chat.completions.stream(model="smol", messages=PARIS, temperature=0,
                                             max_tokens=40) as stream:
        for _ in stream:
            pass
    assert "Paris" in stream.get_final_completion().choices[0].message.content


def test_chat_logprobs(client):
    answer = client.chat.completions.create(model="smol", messages=PARIS,
                                            temperature=0, max_tokens=8, logprobs=True,
                                            top_logprobs=3)
    content = answer.choices[0].logprobs.content
    assert len(content) == answer.usage.completion_tokens
    for entry in content:
        assert entry.logprob <= 0 and len(entry.top_logprobs) == 3
        assert entry.top_logprobs[0].token == entry.token  # temperature 0 takes the most likely token
        assert bytes(entry.bytes).decode("utf-8", "replace") == entry.token
    assert bytes(b for e in content for b in e.bytes).decode() == answer.choices[0].message.content


def test_completions_with_every_form_of_prompt(client):
    for prompt, n in (("The sky is", 1), (["The sky is", "Grass is"], 2), ([504, 6376], 1),
                      ([[504], [504, 6376]], 2)):
        answer = client.completions.create(model="smol", prompt=prompt, temperature=0, max_tokens=4)
        assert [choice.index for choice in answer.choices] == list(range(n))
        assert all(choice.text for choice in answer.choices)


def test_completions_default_to_sixteen_tokens(client):
    answer = client.completions.create(model="smol", prompt="Once upon a time there was", temperature=0)
    assert answer.usage.completion_tokens == 16 and answer.choices[0].finish_reason == "length"


def test_completions_echo_scores_the_prompt(client):
    answer = client.completions.create(model="smol", prompt="The capital of France is Paris", max_tokens=0,
                                       echo=True, logprobs=2)
    choice = answer.choices[0]
    assert choice.text == "The capital of France is Paris"
    assert "".join(choice.logprobs.tokens) == choice.text
    assert choice.logprobs.token_logprobs[0] is None
    assert all(value <= 0 for value in choice.logprobs.token_logprobs[1:])
    assert choice.logprobs.text_offset[0] == 0
    assert answer.usage.completion_tokens == 0


def test_completions_stream(client):
    whole = client.completions.create(model="smol", prompt="The sky is", temperature=0, max_tokens=12)
    parts = list(client.completions.create(model="smol", prompt="The sky is", temperature=0, max_tokens=12,
                                           stream=True))
    assert "".join(part.choices[0].text for part in parts if part.choices) == whole.choices[0].text


def test_stop_n_seed_and_logit_bias(client):
    counting = "1, 2, 3, 4, 5, 6,"
    answer = client.completions.create(model="smol", prompt=counting, temperature=0, max_tokens=30, stop=" 9")
    assert answer.choices[0].finish_reason == "stop" and " 9" not in answer.choices[0].text
    several = client.completions.create(model="smol", prompt="A", n=3, seed=1, max_tokens=6)
    again = client.completions.create(model="smol", prompt="A", n=3, seed=1, max_tokens=6)
    assert [c.text for c in several.choices] == [c.text for c in again.choices]
    plain = client.completions.create(model="smol", prompt=counting, temperature=0, max_tokens=4)
    biased = client.completions.create(model="smol", prompt=counting, temperature=0, max_tokens=4,
                                       logit_bias={"504": 100})
    after = client.completions.create(model="smol", prompt=counting, temperature=0, max_tokens=4)
    assert biased.choices[0].text != plain.choices[0].text
    assert after.choices[0].text == plain.choices[0].text  # one request's bias does not affect the next


def test_models(client, server, model_path):
    ids = [model.id for model in client.models.list()]
    assert ids[0] == "smol" and model_path.stem in ids
    assert client.models.retrieve("smol").object == "model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nothing-of-the-kind")


def test_errors_are_the_right_exceptions(client):
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(model="gpt-unknown", messages=PARIS)
    assert unknown.value.code == "model_not_found" and "smol" in unknown.value.message
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model="smol", messages=PARIS, temperature=9)
    assert wrong.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as long:
        client.completions.create(model="smol", prompt="word " * 3000)
    assert long.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="smol", messages=[])
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="smol", prompt="a", extra_body={"max_tokens": "many"})


def test_clients_at_once_get_what_they_get_alone(client):
    prompts = [f"Here is a list of {thing}:"
               for thing in ("birds", "rivers", "tools", "cities", "colors", "metals")]

    def complete(prompt):
        answer = client.completions.create(model="smol", prompt=prompt, temperature=0, max_tokens=24)
        return answer.choices[0].text

    alone = [complete(prompt) for prompt in prompts]
    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        assert list(pool.map(complete, prompts)) == alone


def test_a_format_and_tools_give_calls_or_a_text_of_the_format(client):
    schema = {"type": "object", "properties": {"capital": {"type": "string", "maxLength": 20}},
              "required": ["capital"], "additionalProperties": False}
    tool = {"type": "function", "function": {"name": "look_up", "strict": True, "parameters": {
        "type": "object", "properties": {"place": {"enum": ["Paris", "Rome"]}}, "required": ["place"],
        "additionalProperties": False}}}

    def ask(choice, seed):
        answer = client.chat.completions.create(
            model="smol", messages=PARIS, temperature=1.5, seed=seed, max_tokens=120, tools=[tool],
            tool_choice=choice, parallel_tool_calls=False,
            response_format={"type": "json_schema", "json_schema": {"name": "capital", "schema": schema}})
        return answer.choices[0]

    for seed in range(6):
        choice = ask("auto", seed)
        if choice.finish_reason == "tool_calls":
            assert json.loads(choice.message.tool_calls[0].function.arguments)["place"] in ("Paris", "Rome")
            assert choice.message.content is None
        else:
            assert list(json.loads(choice.message.content)) == ["capital"]
    assert ask("required", 1).finish_reason == "tool_calls"
    assert list(json.loads(ask("none", 1).message.content)) == ["capital"]
