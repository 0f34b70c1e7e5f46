"""Limits on thinking through the daemon: the ending comes after the right number of tokens, and the same
answer comes streamed, beside other requests, with drafts, and after a slot was lost.

The model's texts mean nothing, so it never closes its thinking by itself.
"""
import concurrent.futures
import json

import httpx
import pytest

import gguf_edit
import hearthd as daemon
from small_model import SOURCE

TEMPLATE = ("{% for m in messages %}<|{{ m.role }}|>"
            "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
            "{{ m.content or '' }}\n{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|><think>\n{% endif %}")
FIRST_WORDS = "That is all the thinking that this answer allows. "
LAST_WORDS = "I answer with what I have found so far."
HELLO = [{"role": "user", "content": "Tell me a story."}]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return gguf_edit.copy_with(SOURCE, tmp_path_factory.mktemp("thinking") / "thinking.gguf",
                               {"tokenizer.chat_template": TEMPLATE})


def start(model, *options):
    return daemon.Hearthd("--threads", 1, *options, model=model)


@pytest.fixture(scope="module")
def server(model):
    server = start(model, "--slots", 3, "--reasoning-budget", 12)
    yield server
    server.signal()
    assert server.wait() == 0, server.log()


def body(**fields):
    return {"messages": HELLO, "max_tokens": 90, "temperature": 0.8, "seed": 3, **fields}


def ask(server, **fields):
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body(**fields), timeout=daemon.PATIENCE)
    assert answer.status_code == 200, answer.text
    return answer.json()


def parts(answer, choice=0):
    message = answer["choices"][choice]["message"]
    return message.get("reasoning_content") or "", message["content"] or ""


def streamed(server, **fields):
    thought = text = ""
    with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body(stream=True, **fields),
                      timeout=daemon.PATIENCE) as stream:
        for line in stream.iter_lines():
            if not line.startswith("data: {"):
                continue
            for choice in json.loads(line[6:])["choices"]:
                thought += choice["delta"].get("reasoning_content") or ""
                text += choice["delta"].get("content") or ""
    return thought, text


def test_thinking_ends_with_a_sentence_and_the_answer_follows(server):
    free = parts(ask(server, thinking_budget=-1))
    assert LAST_WORDS not in free[0] and not free[1]  # it would think until the end
    for limit in (5, 40):
        answer = ask(server, thinking_budget=limit)
        thought, text = parts(answer)
        own = thought.removesuffix(LAST_WORDS).removesuffix(FIRST_WORDS)
        assert free[0].startswith(own.rstrip()) and thought.endswith(LAST_WORDS)
        assert text and LAST_WORDS not in text
        n_thought = answer["usage"]["completion_tokens_details"]["reasoning_tokens"]
        assert limit < n_thought < limit + 60 and answer["usage"]["completion_tokens"] == 90
    shorter, longer = (parts(ask(server, thinking_budget=limit))[0] for limit in (5, 40))
    assert len(shorter) < len(longer)


def test_the_server_has_a_limit_for_requests_without_one(server):
    assert parts(ask(server)) == parts(ask(server, thinking_budget=12))
    assert parts(ask(server, reasoning_effort="max")) == parts(ask(server, thinking_budget=-1))


def test_a_limit_of_zero_closes_thinking_at_once(server):
    thought, text = parts(ask(server, reasoning_effort="none"))
    assert not thought and text and "think" not in text


def test_the_answer_is_the_same_streamed_beside_others_and_with_log_probabilities(server):
    expected = {seed: parts(ask(server, seed=seed)) for seed in range(6)}
    assert len(set(expected.values())) > 1
    for seed, answer in expected.items():
        assert streamed(server, seed=seed) == answer
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        at_once = list(pool.map(lambda seed: parts(ask(server, seed=seed)), expected))
    assert at_once == list(expected.values())
    scored = ask(server, seed=2, logprobs=True, top_logprobs=1)
    assert parts(scored) == expected[2]
    choices = ask(server, seed=0, n=3)
    assert [parts(choices, i) for i in range(3)] == [expected[i] for i in range(3)]


def test_other_apis_have_the_limit_too(server):
    url = server.url
    anthropic = httpx.post(f"{url}/v1/messages", timeout=daemon.PATIENCE, json={
        "messages": HELLO, "max_tokens": 90, "thinking": {"type": "enabled", "budget_tokens": 20}}).json()
    assert [block["type"] for block in anthropic["content"]] == ["thinking", "text"]
    assert anthropic["content"][0]["thinking"].endswith(LAST_WORDS)
    response = httpx.post(f"{url}/v1/responses", timeout=daemon.PATIENCE, json={
        "input": "Tell me a story.", "max_output_tokens": 90, "thinking_budget": 20}).json()
    assert [item["type"] for item in response["output"]] == ["reasoning", "message"]
    assert response["usage"]["output_tokens_details"]["reasoning_tokens"] > 20


@pytest.mark.parametrize("options", [("--speculate", "off"), ("--slots", 4, "--kv-contexts", 1)])
def test_neither_drafts_nor_lost_slots_change_an_answer(server, model, options):
    requests = [{"seed": seed, "thinking_budget": 10 + seed, "max_tokens": 300,
                 "prediction": {"type": "content", "content": FIRST_WORDS}}
                for seed in range(4)]
    expected = [parts(ask(server, **fields)) for fields in requests]
    other = start(model, *options)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda fields: parts(ask(other, **fields)), requests)) == expected
    other.signal()
    assert other.wait() == 0, other.log()
