"""Random schemas through the daemon: whatever a model with random weights draws at a high temperature, every
answer that ends by itself is valid under PyPI's jsonschema, formats included. Many requests run at once and
share slots, masks and caches.

The vocabulary is the default model's: its tokens of many bytes extend across the ends of names, numbers and
strings.
"""
import collections
import concurrent.futures
import json
import pathlib
import random
import sys

import httpx
import jsonschema
import pytest

import hearthd as daemon

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from random_model import write_random_model
from random_schemas import RandomSchemas

N_SHORT, N_FULL = 25, 1000
N_AT_ONCE, N_SLOTS = 12, 6
MAX_TOKENS = 700
CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER


@pytest.fixture(scope="module")
def random_server(model_path, tmp_path_factory):
    path = write_random_model(tmp_path_factory.mktemp("random") / "random.gguf", model_path)
    server = daemon.Hearthd("--slots", N_SLOTS, "--context", 1024, "--threads", 2, model=path)
    yield server
    server.signal()
    assert server.wait() == 0, server.log()


def random_schema(rng):
    """A random schema; one in ten is combined with a string and a list with large bounds, which are counted
    in blocks."""
    schema = RandomSchemas(rng).root()
    if rng.random() >= 0.1:
        return schema
    definitions = schema.pop("$defs", {}) if isinstance(schema, dict) else {}
    return {"$defs": definitions, "type": "object", "required": ["long", "list", "value"], "properties": {
        "long": {"type": "string", "minLength": rng.randrange(3),
                 "maxLength": rng.choice([1600, 100_000, 1_000_000])},
        "list": {"type": "array", "items": {"enum": [1, 2, "x"]}, "maxItems": rng.choice([2000, 100_000])},
        "value": schema}}


def ask(client, seed):
    """Sends one random schema once. Returns the outcome: "valid", "cut", "refused", or what is wrong."""
    rng = random.Random(seed)
    schema = random_schema(rng)
    field = rng.choice([{"guided_json": schema},
                        {"response_format": {"type": "json_schema",
                                             "json_schema": {"name": "random", "schema": schema}}}])
    answer = client.post("/v1/completions", json={
        "prompt": "Some JSON: ", "max_tokens": MAX_TOKENS,
        "seed": seed, "temperature": rng.choice([1.5, 2.0]),
        "logprobs": rng.choice([None, 0]), **field})
    about = f"seed {seed}: {json.dumps(schema)}"
    if answer.status_code == 400:
        error = answer.json()["error"]
        assert "cannot be enforced" in error["message"] and error["param"].startswith(next(iter(field))), (
            about, error)
        return "refused"
    assert answer.status_code == 200, (about, answer.text)
    choice = answer.json()["choices"][0]
    if choice["finish_reason"] == "length":
        return "cut"
    assert choice["finish_reason"] == "stop", (about, choice)
    errors = list(jsonschema.Draft202012Validator(schema, format_checker=CHECKER).iter_errors(
        json.loads(choice["text"])))
    return f"{about}\n{choice['text']}\n{errors[0].message}" if errors else "valid"


def check_all(server, seeds):
    counts = collections.Counter()
    with httpx.Client(base_url=server.url, timeout=10 * daemon.PATIENCE) as client:
        with concurrent.futures.ThreadPoolExecutor(N_AT_ONCE) as pool:
            for outcome in pool.map(lambda seed: ask(client, seed), seeds):
                counts[outcome] += 1
    print(dict(counts))
    wrong = [outcome for outcome in counts if outcome not in ("valid", "cut", "refused")]
    assert not wrong, "\n\n".join(wrong)
    # Random text seldom closes what it opens, so some answers are cut off; but the test needs most of them to
    # be complete.
    assert counts["valid"] > 0.6 * len(seeds), counts
    assert counts["refused"] < 0.15 * len(seeds), counts


def test_random_schemas(random_server):
    check_all(random_server, range(N_SHORT))


@pytest.mark.nightly
def test_more_random_schemas(random_server):
    check_all(random_server, range(N_SHORT, N_SHORT + N_FULL))
