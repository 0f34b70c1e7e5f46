"""Models with recurrent layers over HTTP: a conversation with tools continues from snapshots of their states,
and the log and the usage say how much was reused."""
import json
import re

import httpx
import pytest

import gguf_edit
import hearthd

# Each message begins with a control token that follows an end token, as in the templates of these models.
TEMPLATE = ("{%- if tools %}<s>system: {{ tools | tojson }}</s>{% endif %}"
            "{%- for m in messages %}<s>{{ m.role }}: {{ m.content or '' }}"
            "{%- for call in m.tool_calls or [] %}<call>{{ call.function | tojson }}</call>{% endfor %}"
            "</s>{% endfor %}{% if add_generation_prompt %}<s>assistant: {% endif %}")
WEATHER = {"type": "function", "function": {"name": "weather", "description": "The weather of a city",
                                            "parameters": {"type": "object",
                                                           "properties": {"city": {"type": "string"}}}}}


@pytest.fixture(scope="module", params=["qwen35", "qwen3next", "nemotron_h_moe", "lfm2"])
def server(request, tmp_path_factory):
    model = gguf_edit.copy_with(hearthd.ROOT / f"tests/data/arch/{request.param}.gguf",
                                tmp_path_factory.mktemp("states") / "model.gguf",
                                {"tokenizer.chat_template": TEMPLATE})
    server = hearthd.Hearthd("--threads", "2", "--slots", "2", "--context", "4096", model=model)
    yield server
    server.kill()


def chat(server, messages, **options):
    answer = httpx.post(server.url + "/v1/chat/completions", timeout=hearthd.PATIENCE,
                        json={"messages": messages, "tools": [WEATHER], "tool_choice": "none",
                              "max_tokens": 12, "temperature": 0, **options})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_ten_turns_with_tools_compute_hardly_anything_twice(server):
    messages, n_prompt, n_cached, last = [], 0, 0, 0
    for turn in range(10):
        messages.append({"role": "user", "content": f"Turn {turn}: how is the weather in Rome, please?"})
        messages.append({"role": "assistant", "content": None, "tool_calls": [
            {"id": f"call_{turn}", "type": "function",
             "function": {"name": "weather", "arguments": json.dumps({"city": "Rome"})}}]})
        messages.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": "sunny " * 5})
        usage = chat(server, messages)["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        # The client sends a different text than the model generated, so this prompt equals the previous one
        # only up to the beginning of that answer. Tokens after the last whole KV block before that point are
        # computed again.
        assert cached >= last - len("<s>assistant: ") - 31, turn
        messages.append({"role": "assistant", "content": f"It is sunny in Rome ({turn})."})
        last = usage["prompt_tokens"]
        n_prompt, n_cached = n_prompt + last, n_cached + cached
    assert n_cached > 0.75 * n_prompt
    lines = hearthd.wait_until(lambda: [one for one in server.lines if f"prompt_tokens={last} " in one],
                               "the line of the last request")
    logged, matched = map(int, re.search(r"cached_tokens=(\d+) matched_tokens=(\d+)", lines[0]).groups())
    assert logged == cached
    assert cached <= matched < last


def test_a_changed_beginning_is_told_and_computed_again(server):
    system = {"role": "system", "content": "Be brief, and be kind to everyone who asks you for something."}
    first = [system, {"role": "user", "content": "Tell me a long story about a lighthouse. " * 8}]
    n = chat(server, first)["usage"]["prompt_tokens"]
    changed = [system, {"role": "user", "content": first[1]["content"].replace("lighthouse", "windmill", 1)}]
    answer = chat(server, changed)
    # Only the system's message is equal.
    assert 0 < answer["usage"]["prompt_tokens_details"]["cached_tokens"] < n / 2
    n_changed = answer["usage"]["prompt_tokens"]
    lines = hearthd.wait_until(lambda: [one for one in server.lines if f"prompt_tokens={n_changed} " in one],
                               "the line of the changed conversation")
    assert "matched_messages=1" in lines[-1], lines
    again = chat(server, first)
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] >= n - 32


def test_the_memory_of_states_is_a_metric(server):
    text = httpx.get(server.url + "/metrics", timeout=hearthd.PATIENCE).text
    found = re.search(r'hearth_memory_bytes\{[^}]*purpose="states"[^}]*\} (\S+)', text)
    assert found and float(found[1]) > 0, text


ASKED = [{"prompt": "one two three four five. " * 4, "max_tokens": 150, "temperature": 0, "logprobs": 2},
         {"prompt": "a list: " * 9, "max_tokens": 100, "temperature": 0.7, "seed": 4, "logprobs": 2},
         {"prompt": "short", "max_tokens": 40, "temperature": 0, "n": 3, "logprobs": 2}]


def complete(server, body):
    answer = httpx.post(server.url + "/v1/completions", json=body, timeout=hearthd.PATIENCE)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"]


@pytest.mark.parametrize("name", ["qwen35", "qwen3next", "lfm2"])
@pytest.mark.parametrize("more", [[], ["--draft-model", hearthd.ROOT / "tests/data/arch/qwen3.gguf"]])
def test_drafts_change_no_answer(name, more):
    servers = [hearthd.Hearthd("--threads", "2", "--slots", "3", "--context", "2048", *arguments,
                               model=hearthd.ROOT / f"tests/data/arch/{name}.gguf")
               for arguments in (["--speculate", "off"], ["--speculate", "auto", *more])]
    try:
        for body in ASKED:
            said = complete(servers[0], body)
            predicted = {**body, "prediction": {"type": "content", "content": said[0]["text"]}}
            for _ in range(4):  # drafts begin only when costs are known
                assert complete(servers[1], predicted) == complete(servers[1], body) == said
        # On a busy machine, drafts may seem to cost more than they save for a while.
        def counts():
            return httpx.get(servers[1].url + "/props", timeout=hearthd.PATIENCE).json()["speculation"]

        hearthd.wait_until(lambda: counts()["accepted_tokens"] > 0 or complete(servers[1], predicted) is None,
                           "drafts that are accepted")
        assert counts()["on"] and counts()["accepted_tokens"] <= counts()["drafted_tokens"]
    finally:
        for server in servers:
            server.kill()


def test_a_model_with_states_is_refused_as_draft_model():
    states = hearthd.ROOT / "tests/data/arch/qwen35.gguf"
    ended = hearthd.run(["--port", "0", "--model", states, "--draft-model", states])
    assert ended.returncode == 2 and "recurrent layers" in ended.stderr, ended.stderr
