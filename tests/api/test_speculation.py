"""Speculative decoding over HTTP: answers that copy their prompt are the same with and without it."""
import json
import urllib.request

import pytest

import hearthd

TINY = hearthd.ROOT / "tests/data/arch/llama.gguf"
CODE = '''def load(path):
    with open(path) as f:
        return json.load(f)

def total(items):
    result = 0
    for item in items:
        result += item["price"] * item["count"]
    return result
'''
COPYING = {"prompt": f"Here is a Python file:\n```python\n{CODE}```\nThe same file again:\n```python\n",
           "max_tokens": 70, "logprobs": 2}
VARIANTS = {
    "greedy": {"temperature": 0},
    "sampled": {"temperature": 0.8, "seed": 11},
    "penalized": {"temperature": 0.5, "seed": 3, "frequency_penalty": 0.4, "repetition_penalty": 1.1},
    "stopped": {"temperature": 0, "stop": ["result"]},
    "several": {"temperature": 0.7, "seed": 5, "n": 3},
    "constrained": {"temperature": 0, "logprobs": None,
                    "guided_regex": "def load[a-z()]{1,12}:\n    with open[^`]{5,60}"},
}


@pytest.fixture(scope="module")
def servers(model_path):
    pair = {mode: hearthd.Hearthd("--speculate", mode, "--context", "1024", model=model_path)
            for mode in ("off", "auto")}
    yield pair
    for one in pair.values():
        one.kill()


def ask(server, body, path="/v1/completions"):
    answer = post(server, path, body)
    return answer["choices"], answer["usage"]


def post(server, path, body):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=hearthd.PATIENCE) as response:
        return json.load(response)


def props(server):
    with urllib.request.urlopen(server.url + "/props", timeout=hearthd.PATIENCE) as response:
        return json.load(response)["speculation"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_copying_gives_the_same_answers(servers, variant):
    body = {**COPYING, **VARIANTS[variant]}
    # The second time uses what the first one has taught, and the prefix cache.
    for _ in range(2 if variant in ("greedy", "sampled") else 1):
        assert ask(servers["auto"], body) == ask(servers["off"], body)


def test_an_answer_continued_from_the_cache_is_the_same(servers):
    first = {**COPYING, "temperature": 0}
    said = ask(servers["off"], first)[0][0]["text"]
    second = {**first, "prompt": first["prompt"] + said + "\n\n", "max_tokens": 30}
    for mode in ("auto", "off"):
        ask(servers[mode], first)
    assert ask(servers["auto"], second) == ask(servers["off"], second)


@pytest.mark.parametrize("content",
                         [CODE, [{"type": "text", "text": CODE[:100]}, {"type": "text", "text": CODE[100:]}]])
def test_a_prediction_changes_no_token_and_is_accounted_for(servers, content):
    """A chat without the text in its prompt. With drafts, the usage tells how the prediction fared."""
    body = {"messages": [{"role": "user", "content": "Write a function that loads a file."}],
            "temperature": 0, "max_tokens": 60, "prediction": {"type": "content", "content": content}}
    plain = {key: value for key, value in body.items() if key != "prediction"}
    said, _ = ask(servers["off"], plain, "/v1/chat/completions")
    for mode in ("off", "auto"):
        choices, usage = ask(servers[mode], body, "/v1/chat/completions")
        assert choices == said
        details = usage["completion_tokens_details"]
        assert details.keys() == {"accepted_prediction_tokens", "rejected_prediction_tokens"}
        assert all(n == 0 if mode == "off" else 0 <= n for n in details.values())
    assert "completion_tokens_details" not in ask(servers["auto"], plain, "/v1/chat/completions")[1]


def test_an_answer_that_is_predicted_whole_takes_tokens_from_the_prediction(servers):
    plain = {"prompt": "Once upon a time", "max_tokens": 120, "temperature": 0.8, "seed": 5}
    said = ask(servers["off"], plain)[0]
    body = {**plain, "prediction": {"type": "content", "content": said[0]["text"]}}
    n_accepted = 0
    for _ in range(5):  # drafts begin only when costs are known
        choices, usage = ask(servers["auto"], body)
        assert choices == said
        n_accepted += usage["completion_tokens_details"]["accepted_prediction_tokens"]
    assert n_accepted > 0


def test_counts_of_drafts(servers):
    for _ in range(3):
        ask(servers["auto"], {**COPYING, "temperature": 0})
    facts = props(servers["auto"])
    assert facts["on"] and 0 < facts["accepted_tokens"] <= facts["drafted_tokens"]
    assert props(servers["off"]) == {"on": False, "drafted_tokens": 0, "accepted_tokens": 0}
    timings = post(servers["auto"], "/completion",
                   {"prompt": COPYING["prompt"], "n_predict": 60, "temperature": 0})["timings"]
    assert 0 <= timings["draft_n_accepted"] <= timings["draft_n"]
    assert "draft_n" not in post(servers["off"], "/completion", {"prompt": "Once", "n_predict": 2})["timings"]


@pytest.fixture(scope="module")
def drafting(model_path):
    """The model drafts for itself: every draft is right, though it does not pay."""
    server = hearthd.Hearthd("--speculate", "auto", "--draft-model", model_path, "--context", "1024",
                             "--slots", "3", model=model_path)
    yield server
    server.kill()


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_draft_model_changes_no_answer(servers, drafting, variant):
    body = {**COPYING, **VARIANTS[variant], "max_tokens": 40}
    assert ask(drafting, body)[0] == ask(servers["off"], body)[0]


def test_a_draft_model_is_logged_and_counted(drafting):
    ask(drafting, {"prompt": "Once upon a time", "max_tokens": 60, "temperature": 0.7, "seed": 2})
    assert props(drafting)["drafted_tokens"] > 0
    assert any("draft model" in line and "memory" in line for line in drafting.lines)


@pytest.mark.parametrize("arguments, word", [
    (["--speculate", "auto", "--draft-model", "/nowhere.gguf"], "/nowhere.gguf"),
    (["--speculate", "auto", "--draft-model", __file__], "GGUF"),
    (["--speculate", "auto", "--draft-model", TINY], "vocabulary"),
    (["--speculate", "off", "--draft-model", TINY], "--speculate off"),
])
def test_an_unsuitable_draft_model_is_refused_at_start(model_path, arguments, word):
    ended = hearthd.run(["--port", "0", "--model", model_path, *arguments])
    assert ended.returncode == 2 and word in ended.stderr, ended.stderr


ARCH = hearthd.ROOT / "tests/data/arch"


def test_an_assistant_changes_no_answer_and_is_logged():
    """Gemma 4's assistant, a file of its own, drafts from the model's hidden states, keys and values."""
    answers = []
    for more in ([], ["--draft-model", str(ARCH / "gemma4-assistant.gguf")]):
        server = hearthd.Hearthd("--context", "64", "--threads", "2", *more, model=ARCH / "gemma4.gguf")
        try:
            body = {"max_tokens": 40, "temperature": 0, "logprobs": 1}
            answers.append([ask(server, {**body, "prompt": prompt})[0]
                            for prompt in ("Once upon", "def f(x):")])
            assert any("the assistant drafts" in line for line in server.lines) == bool(more)
        finally:
            server.kill()
    assert answers[0] == answers[1]
    checked = hearthd.run(["--check-config", "--model", ARCH / "gemma4.gguf",
                           "--draft-model", ARCH / "gemma4-assistant.gguf"])
    assert checked.returncode == 0 and "an assistant of the model" in checked.stdout, checked.stderr


@pytest.mark.parametrize("model, more, word", [
    ("gemma4-assistant", [], "it only drafts for a Gemma 4 model"),
    ("llama", ["--draft-model", ARCH / "gemma4-assistant.gguf"], "drafts for models of architecture gemma4"),
    ("gemma4-e2b", ["--draft-model", ARCH / "gemma4-assistant.gguf"], "reads keys of 2 x 16 numbers"),
])
def test_an_assistant_of_another_model_is_refused_at_start(model, more, word):
    ended = hearthd.run(["--port", "0", "--model", ARCH / f"{model}.gguf", *more])
    assert ended.returncode == 2 and word in ended.stderr, ended.stderr


@pytest.fixture(scope="module")
def predicting():
    """A model with a layer that predicts later tokens, without drafts, with drafts of the text, with all."""
    model = hearthd.ROOT / "tests/data/arch/qwen35-nextn.gguf"
    flags = ("--context", "2048", "--slots", "3", "--threads", "2")
    servers = {mode: hearthd.Hearthd("--speculate", mode, *flags, model=model)
               for mode in ("off", "text", "auto")}
    yield servers
    for one in servers.values():
        one.kill()


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_layer_that_predicts_later_tokens_changes_no_answer(predicting, variant):
    body = {**COPYING, **VARIANTS[variant]}
    for _ in range(2):
        said = ask(predicting["off"], body)
        assert ask(predicting["text"], body) == said and ask(predicting["auto"], body) == said
    assert props(predicting["off"])["drafted_tokens"] == 0


def test_the_layer_that_predicts_later_tokens_is_logged_and_counted(predicting):
    for seed in range(5):
        ask(predicting["auto"],
            {"prompt": f"Once upon {seed}", "max_tokens": 120, "temperature": 0.9, "seed": seed})
    assert props(predicting["auto"])["drafted_tokens"] > 0
    lines = {mode: [line for line in server.lines if "predicts later tokens" in line]
             for mode, server in predicting.items()}
    assert len(lines["auto"]) == 1 and "layer 5" in lines["auto"][0], lines
    assert not lines["off"] and not lines["text"], lines
