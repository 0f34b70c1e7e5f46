"""Predictors trained here and served: a client gets the quality that the training report states.

Trains on the prompts that are built into hearth-profiler, with a copy of the small ReLU model. The held-out
text is scored through the API in the windows that training measured.
"""
import json
import math
import shutil
import subprocess

import httpx
import pytest

import hearthd

RELU = hearthd.ROOT / "tests/data/relu"
PROMPTS = hearthd.ROOT / "profiler/activity/prompts"
CONTEXT = 64
HELD_OUT = next(item
                for item in json.loads((RELU / "relu-texts.json").read_text()) if item["name"] == "prose")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model with predictors beside it, and what their training reported."""
    folder = tmp_path_factory.mktemp("trained")
    model = shutil.copy(RELU / "relu-5m-q8_0.gguf", folder / "model.gguf")
    text = folder / "text.txt"
    text.write_text("\n".join((PROMPTS / f"{name}.txt").read_text() for name in
                              ("chat", "prose", "explain", "letters", "lists", "code", "tables")))
    held_out = folder / "held-out.txt"
    held_out.write_bytes(HELD_OUT["text"].encode())
    done = subprocess.run([hearthd.BUILD / "hearth-profiler",
                           "train-predictors", "--model", model, "--text", text,
                           "--held-out", held_out, "--side-file", "--window", str(CONTEXT), "--threads", "2",
                           "--perplexity-rise", "2"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return model, json.loads((folder / "model.gguf.predictors.gguf.training.json").read_text())


@pytest.fixture
def serve(trained):
    started = []

    def make(mode):
        started.append(hearthd.Hearthd("--threads", "1", "--sparsity", mode, model=trained[0]))
        return started[-1]

    yield make
    for one in started:
        one.kill()


def perplexity(server):
    """The perplexity of the held-out text as hearth-profiler measures it: of the second half of each window,
    given the first."""
    total, n, tokens = 0.0, 0, HELD_OUT["tokens"]
    for begin in range(0, len(tokens) // CONTEXT * CONTEXT, CONTEXT):
        window = [tokens[0], *tokens[begin + 1:begin + CONTEXT]]  # each window begins with the begin token
        answer = httpx.post(server.url + "/v1/completions", timeout=hearthd.PATIENCE,
                            json={"prompt": window, "max_tokens": 0, "echo": True, "logprobs": 0})
        assert answer.status_code == 200, answer.text
        scored = answer.json()["choices"][0]["logprobs"]["token_logprobs"][CONTEXT // 2 + 1:]
        assert len(scored) == CONTEXT // 2 - 1
        total, n = total - sum(scored), n + len(scored)
    return math.exp(total / n)


def sparsity(server):
    return httpx.get(server.url + "/v1/models", timeout=hearthd.PATIENCE).json()["data"][0]["sparsity"]


def test_trained_predictors_are_served_as_their_report_says(trained, serve):
    report = trained[1]
    exact, predicted = serve("exact"), serve("predicted")
    assert sparsity(exact)["mode"] == "exact" and sparsity(predicted)["mode"] == "predicted"
    assert perplexity(exact) == pytest.approx(report["held_out"]["perplexity_exact"], rel=1e-4)
    served = perplexity(predicted)
    assert served == pytest.approx(report["served"]["perplexity"], rel=1e-4)
    # The written file in the engine gives what the nets gave in training, up to the rounding of its weights.
    assert served == pytest.approx(report["held_out"]["perplexity_predicted"], rel=0.02)
    # Many neurons are left out and little is lost, even after so short a training.
    assert served < 1.1 * perplexity(exact)
    assert sparsity(predicted)["proposed_share"] == pytest.approx(report["served"]["proposed"], abs=0.1)
    assert sparsity(predicted)["proposed_share"] < 0.7


def test_a_prompt_gets_the_same_text_every_time_whatever_else_runs(serve):
    server = serve("predicted")
    asked = {"prompt": "The old house stood", "max_tokens": 24, "temperature": 0}
    alone = httpx.post(server.url + "/v1/completions", timeout=hearthd.PATIENCE, json=asked).json()["choices"]
    crowd = httpx.post(server.url + "/v1/completions", timeout=hearthd.PATIENCE,
                       json={**asked,
                             "prompt": [asked["prompt"], "She said that the", asked["prompt"]]}).json()
    assert [crowd["choices"][i]["text"] for i in (0, 2)] == [alone[0]["text"]] * 2
