"""Speculative decoding over HTTP: answers that copy their prompt are the same with it and without."""
import json
import urllib.request

import pytest

import hearthd

CODE = '''def load(path):
    with open(path) as f:
        return json.load(f)

def total(items):
    result = 0
    for item in items:
        result += item["price"] * item["count"]
    return result
'''
COPYING = {"prompt": f"Here is a Python file:\n```python\n{CODE}```\nThe same file again:\n```python\n", "max_tokens": 70,
           "logprobs": 2}
VARIANTS = {
    "greedy": {"temperature": 0},
    "sampled": {"temperature": 0.8, "seed": 11},
    "penalised": {"temperature": 0.5, "seed": 3, "frequency_penalty": 0.4, "repetition_penalty": 1.1},
    "stopped": {"temperature": 0, "stop": ["result"]},
    "several": {"temperature": 0.7, "seed": 5, "n": 3},
    "constrained": {"temperature": 0, "logprobs": None, "guided_regex": "def load[a-z()]{1,12}:\n    with open[^`]{5,60}"},
}


@pytest.fixture(scope="module")
def servers(model_path):
    pair = {mode: hearthd.Hearthd("--speculate", mode, "--context", "1024", model=model_path)
            for mode in ("off", "auto")}
    yield pair
    for one in pair.values():
        one.kill()


def ask(server, body):
    request = urllib.request.Request(server.url + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=hearthd.PATIENCE) as response:
        answer = json.load(response)
    return answer["choices"], answer["usage"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_copying_gives_the_same_answers(servers, variant):
    body = {**COPYING, **VARIANTS[variant]}
    for _ in range(2):  # the second time with what the first one has taught, and from the prefix cache
        assert ask(servers["auto"], body) == ask(servers["off"], body)


def test_an_answer_is_continued_from_the_cache_alike(servers):
    first = {**COPYING, "temperature": 0}
    said = ask(servers["off"], first)[0][0]["text"]
    second = {**first, "prompt": first["prompt"] + said + "\n\n", "max_tokens": 30}
    for mode in ("auto", "off"):
        ask(servers[mode], first)
    assert ask(servers["auto"], second) == ask(servers["off"], second)
