"""Values of embeddings, through HTTP, compared with forward passes that share no code with the engine:
numpy's in double precision, and the hidden states that follow from the committed logits of transformers.

Tolerances. The engine multiplies by 15-bit activations and keeps keys and values as half floats. With two
layers of random weights this changes the entries of a unit vector by up to 8e-4, with thirty trained layers
by 1.4e-4.
"""
import json
import math

import gguf_edit
import httpx
import numpy as np
import numpy_forward
import pytest

import hearthd as daemon

ARCH = daemon.ROOT / "tests/data/arch"
N_VOCAB = 259
TOKENS = [(17 * i * i + 5 * i + 3) % N_VOCAB for i in range(48)]  # the same as in make_models.py
TOLERANCE = 2e-3


def embed(server, inputs):
    answer = httpx.post(server.url + "/v1/embeddings", json={"input": inputs}, timeout=daemon.PATIENCE)
    assert answer.status_code == 200, answer.text
    return np.array([item["embedding"] for item in answer.json()["data"]])


@pytest.mark.parametrize("name", ["llama", "llama-gqa-tied", "qwen2", "qwen3"])
def test_pooled_states_are_those_of_a_forward_pass_in_double(start, tmp_path, name):
    model = numpy_forward.Model(ARCH / f"{name}.gguf")
    lengths = (1, 7, 30, 48)
    states = model.hidden_states(TOKENS)  # causal, so a shorter text's states are the first of them
    wanted = {1: [states[:n].mean(axis=0) for n in lengths], 2: [states[0] for n in lengths],
              3: [states[n - 1] for n in lengths]}
    for pooling, vectors in wanted.items():
        path = gguf_edit.copy_with(ARCH / f"{name}.gguf", tmp_path / f"{name}-{pooling}.gguf",
                                   {f"{model.arch}.pooling_type": pooling})
        server = start("--context", "64", "--prefill-chunk", "5", model=path)
        found = embed(server, [TOKENS[:n] for n in lengths])
        for vector, expected in zip(found, vectors):
            assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)
            assert np.abs(vector - numpy_forward.unit(expected)).max() < TOLERANCE
        server.kill()


@pytest.mark.parametrize("name", ["llama", "llama-linear", "llama-llama3", "qwen2", "qwen2-yarn", "qwen3"])
def test_the_last_state_is_what_the_logits_of_transformers_imply(start, name):
    """logits = states @ output.T, and the output matrix has full rank, so the states follow from the
    logits."""
    output = numpy_forward.Model(ARCH / f"{name}.gguf").weight("output")
    logits = np.fromfile(ARCH / f"{name}.logits", "<f4").reshape(-1, N_VOCAB).astype(np.float64)
    states = np.linalg.lstsq(output, logits.T, rcond=None)[0].T
    ends = [4 * row + 1 for row in range(len(states))]
    found = embed(start("--context", "64", model=ARCH / f"{name}.gguf"), [TOKENS[:end] for end in ends])
    for vector, state in zip(found, states):
        assert np.abs(vector - numpy_forward.unit(state)).max() < TOLERANCE


def test_a_real_model_gives_the_states_of_a_forward_pass_in_double(server, model_path):
    texts = json.loads((daemon.ROOT / "tests/data/golden/smollm2-texts.json").read_text())
    tokens = min((text["tokens"] for text in texts if len(text["tokens"]) >= 16), key=len)[:24]
    expected = numpy_forward.unit(numpy_forward.Model(model_path).hidden_states(tokens)[-1])
    found = embed(server, [tokens])[0]
    assert np.abs(found - expected).max() < 5e-4


NEAR = [("The cat sleeps on the sofa.", "A kitten is napping on the couch."),
        ("How do I reset my password?", "I forgot my login password and need a new one."),
        ("The stock market fell sharply today.", "Shares dropped a lot on the exchange this afternoon.")]


@pytest.mark.parametrize("pooling", [1, 3])
def test_texts_of_one_meaning_are_nearer_than_others(start, model_path, tmp_path, pooling):
    """A chat model is a poor embedding model, but if this fails, pooling is wrong."""
    path = gguf_edit.copy_with(model_path, tmp_path / "pooled.gguf", {"llama.pooling_type": pooling})
    server = start("--context", "256", model=path)
    vectors = embed(server, [text for pair in NEAR for text in pair])
    near = [float(vectors[2 * i] @ vectors[2 * i + 1]) for i in range(len(NEAR))]
    far = [float(vectors[2 * i] @ vectors[2 * j + 1]) for i in range(len(NEAR))
           for j in range(len(NEAR)) if i != j]
    assert math.fsum(near) / len(near) > math.fsum(far) / len(far)
