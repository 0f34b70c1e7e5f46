"""Bodies that a careless or hostile client might send, to every endpoint: each is answered or refused, and
the server keeps working.

A seeded mutator changes good bodies: other types and ranges, odd texts, members lost, doubled or swapped
between endpoints, bytes flipped and cut. HEARTH_MUTATIONS sets their number (600).
"""
import copy
import json
import os
import pathlib
import random
import shutil

import httpx
import pytest

import hearthd
import small_model

HELLO = [{"role": "user", "content": "Hello"}]
TOOL = {"type": "function", "function": {"name": "now", "description": "The time", "parameters": {
    "type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}}}
SAMPLING = {"temperature": 0.7, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "seed": 1, "stop": ["a", "b"],
            "logit_bias": {"5": -100}, "presence_penalty": 0.5, "repetition_penalty": 1.1,
            "dry_multiplier": 0.8, "mirostat": 2, "xtc_probability": 0.5, "stop_token_ids": [7],
            "min_tokens": 1, "priority": -3, "timeout": 60}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0}}, "required": ["a"]}
GOOD = [
    ("/v1/completions", {"prompt": "Once", "max_tokens": 2, "n": 2, "logprobs": 2, "echo": True, **SAMPLING}),
    ("/v1/completions", {"prompt": [[5, 6], [7]], "max_tokens": 1, "stream": True,
                         "stream_options": {"include_usage": True}}),
    ("/v1/completions", {"prompt": "a", "suffix": "b", "max_tokens": 2, "guided_regex": "[ab]{2}"}),
    ("/v1/chat/completions", {"messages": HELLO, "max_tokens": 2, "logprobs": True, "top_logprobs": 2,
                              **SAMPLING}),
    ("/v1/chat/completions", {"messages": HELLO + [{"role": "assistant", "content": None, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "noon"}]}],
        "tools": [TOOL], "tool_choice": "auto", "parallel_tool_calls": False, "max_completion_tokens": 3,
        "stream": True}),
    ("/v1/chat/completions", {"messages": HELLO, "max_tokens": 3, "chat_template_kwargs": {"mood": "dry"},
                              "response_format": {"type": "json_schema",
                                                 "json_schema": {"name": "x", "schema": SCHEMA}}}),
    ("/completion", {"prompt": ["Once", 5], "n_predict": 2, "n_probs": 2, "return_tokens": True, **SAMPLING}),
    ("/completion", {"prompt": "Once", "n_predict": 2, "stream": True,
                     "response_fields": ["content", "timings/prompt_n"], "grammar": 'root ::= "a" | "b"'}),
    ("/infill", {"input_prefix": "def", "input_suffix": "end", "prompt": "x", "n_predict": 2,
                 "spm_infill": True}),
    ("/admin/model", {"model": "/nowhere/model.gguf", "alias": ["a"], "context": 64,
                      "chat_template_file": "", "draft_model": None}),
    ("/admin/model", {"model": "second", "action": "load"}),
    ("/v1/completions", {"model": "second", "prompt": "Once", "max_tokens": 2}),
    ("/tokenize", {"content": "Hello", "with_pieces": True, "add_special": True, "parse_special": False}),
    ("/tokenize", {"messages": HELLO, "return_token_strs": True, "tools": [TOOL]}),
    ("/detokenize", {"tokens": [5, 6, 7]}),
    ("/apply-template", {"messages": HELLO, "tools": [TOOL]}),
    ("/v1/embeddings", {"input": ["near", "far"], "encoding_format": "base64", "dimensions": 8}),
    ("/v1/embeddings", {"input": [[5, 6], [7]], "truncate_prompt_tokens": 1}),
    ("/v1/rerank", {"query": "near", "documents": ["far", {"text": "by"}], "top_n": 1,
                    "return_documents": True, "max_tokens_per_doc": 3, "truncate_prompt_tokens": -1,
                    "raw_scores": True}),
    ("/v1/responses", {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
                                 {"type": "reasoning", "summary": [],
                                 "content": [{"type": "reasoning_text", "text": "?"}]},
                                 {"type": "function_call", "call_id": "c1", "name": "now", "arguments": "{}"},
                                 {"type": "function_call_output", "call_id": "c1", "output": "noon"}],
                       "instructions": "Be brief.", "max_output_tokens": 3, "stream": True,
                       "truncation": "auto",
                       "tools": [{"type": "function", "name": "now",
                                  "parameters": TOOL["function"]["parameters"]}],
                       "include": ["message.output_text.logprobs"], "top_logprobs": 1,
                       "metadata": {"a": "b"}}),
    ("/v1/responses", {"input": "Hello", "previous_response_id": None, "store": False, "max_output_tokens": 3,
                       "reasoning": {"effort": "low", "summary": "auto"},
                       "text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA},
                                "verbosity": "low"}}),
    ("/v1/responses/input_tokens", {"input": "Hello", "instructions": "Be brief."}),
    ("/v1/messages", {"messages": HELLO + [{"role": "assistant", "content": [
        {"type": "thinking", "thinking": "?", "signature": ""},
        {"type": "tool_use", "id": "t1", "name": "now", "input": {"zone": "UTC"}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "noon"}]}]}],
        "system": [{"type": "text", "text": "Be brief."}], "max_tokens": 3, "stop_sequences": ["x"],
        "stream": True,
        "tools": [{"name": "now", "description": "The time", "input_schema": TOOL["function"]["parameters"]}],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}, "metadata": {"user_id": "u"}}),
    ("/v1/messages", {"messages": HELLO, "max_tokens": 3,
                      "thinking": {"type": "enabled", "budget_tokens": 1024},
                      "output_config": {"effort": "low",
                                        "format": {"type": "json_schema", "schema": SCHEMA}}}),
    ("/v1/messages/count_tokens", {"messages": HELLO, "system": "Be brief."}),
    ("/api/chat", {"messages": HELLO + [{"role": "assistant", "content": "", "tool_calls": [
        {"function": {"name": "now", "arguments": {"zone": "UTC"}}}]},
        {"role": "tool", "tool_name": "now", "content": "noon"}],
        "tools": [TOOL], "options": {"num_predict": 3, "temperature": 0.5, "seed": 1}, "think": False}),
    ("/api/chat", {"messages": HELLO, "stream": False, "format": SCHEMA,
                   "options": {"num_predict": 3}, "keep_alive": "5m"}),
    ("/api/generate", {"prompt": "Once", "system": "Be brief.",
                       "options": {"num_predict": 3, "stop": ["x"]}, "logprobs": True}),
    ("/api/generate", {"prompt": "a", "suffix": "b", "raw": True, "stream": False,
                       "options": {"num_predict": 3}}),
    ("/api/show", {"model": "small", "verbose": True}),
    ("/api/embed", {"input": ["near", "far"], "truncate": True, "dimensions": 8}),
    ("/api/embeddings", {"prompt": "near"}),
]
ODD = [None, True, False, 0, -1, 1, 1.5, -0.0, 1e308, -1e308, 2**31, 2**53, 2**63, 2**64, 10**30, "", "a",
       "\\u0000", "é", "🙂" * 3, "\\ud83d", " " * 2000, "<s>", "[" * 100, [], {}, [[]], [None], {"": None},
       [1, "a"], "auto", "NaN",
       {"type": "object"}, {"$ref": "#"}, {"type": "array", "minItems": 10**9}, "(a*)*b", "root ::= root"]
LENGTHS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict", "num_predict")


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def at(body, path):
    for key in path:
        body = body[key]
    return body


def change(body, rng):
    """Changes one place of a body."""
    path = rng.choice([path for path in places(body) if path])
    parent, key = at(body, path[:-1]), path[-1]
    kind = rng.randrange(7)
    if kind == 0:
        del parent[key]
    elif kind == 1:
        parent[key] = [copy.deepcopy(parent[key])] * rng.choice([1, 2, 70])
    elif kind == 2 and isinstance(parent, dict):
        parent[rng.choice(["x", key + "x", key.upper(), "", "constructor"])] = parent.pop(key)
    elif kind == 3:
        parent[key] = copy.deepcopy(at(body, rng.choice(list(places(body)))))
    elif kind == 4:
        other = rng.choice(GOOD)[1]
        name = rng.choice(list(other))
        body[name] = copy.deepcopy(other[name])
    elif kind == 5 and isinstance(parent[key], (int, float)) and not isinstance(parent[key], bool):
        parent[key] = rng.choice([-parent[key], parent[key] + 0.5, parent[key] * 10**6, str(parent[key])])
    else:
        parent[key] = copy.deepcopy(rng.choice(ODD))


def short(body):
    """Keeps answers short; limits that the server refuses are sent all the same."""
    for name in LENGTHS:
        value = body.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 3 < value:
            body[name] = 3
    if not any(name in body for name in LENGTHS):
        body["max_output_tokens" if "input" in body else "max_tokens"] = 3
    if isinstance(body.get("options"), dict) and "options" in body:
        body["options"] = short(body["options"])
    for name in ("n", "best_of"):
        if isinstance(body.get(name), int) and body[name] > 2:
            body[name] = 2
    return body


def damage(data, rng):
    """Flips, drops, doubles or cuts bytes."""
    kind, place = rng.randrange(5), rng.randrange(len(data))
    if kind == 0:
        return data[:place] + bytes([rng.randrange(256)]) + data[place + 1:]
    if kind == 1:
        return data[:place]
    if kind == 2:
        return data[:place] + data[place:] * 2
    if kind == 3:
        return data[:place] + rng.choice(
            [b"\x00", b"\xff", b"\xed\xa0\x80", b",", b"{", b"[" * 200, b"1e999", b'"']) + data[place:]
    return data[:place] + data[place + 1:]


def mutated(rng):
    path, body = rng.choice(GOOD)
    body = copy.deepcopy(body)
    for _ in range(rng.choice([1, 1, 2, 4])):
        if len(list(places(body))) > 1:
            change(body, rng)
    data = json.dumps(short(body)).encode("utf-8", "surrogatepass")
    return path, damage(data, rng) if rng.random() < 0.2 else data


def memory_of(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    # in MiB
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) // 1024


def ordinary(server):
    answer = httpx.post(server.url + "/v1/chat/completions", timeout=hearthd.PATIENCE,
                        json={"messages": HELLO, "max_tokens": 4, "temperature": 0})
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]["content"]


def send(client, server, rng, counts):
    path, data = mutated(rng)
    answer = client.post(server.url + path, content=data)
    # 504: a tiny timeout
    assert answer.status_code < 500 or answer.status_code == 504, (path, data, answer.text)
    assert '"internal_error"' not in answer.text, (path, data, answer.text)
    if answer.status_code >= 400:
        assert answer.json(), (path, data)
    counts[answer.status_code] = counts.get(answer.status_code, 0) + 1


@pytest.mark.parametrize("n", [int(os.environ.get("HEARTH_MUTATIONS", 600)),
                               pytest.param(10_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("several", [False, True], ids=["one model", "several models"])
def test_mutated_bodies_leave_the_server_whole(start, tmp_path, n, several):
    ranker = hearthd.ROOT / "tests/data/arch/bert-rank.gguf"  # for /v1/rerank
    cache = ("--cache-gib", "0.1", "--cache-dir", tmp_path / "prefixes")
    if several:
        folder = tmp_path / "models"
        folder.mkdir()
        for name in ("small", "second"):
            shutil.copy(small_model.path(), folder / f"{name}.gguf")
        shutil.copy(ranker, folder)
        server = start("--slots", "4", "--models-folder", folder, *cache, model=folder / "small.gguf")
    else:
        server = start("--slots", "4", "--embedding-model", ranker, *cache, model=small_model.path())
    before, memory = ordinary(server), memory_of(server)
    rng, counts = random.Random(n), {}
    with httpx.Client(timeout=hearthd.PATIENCE) as client:
        for _ in range(n):
            send(client, server, rng, counts)
    print(f"{n} bodies: {dict(sorted(counts.items()))}; {memory} MiB before, {memory_of(server)} MiB after")
    # the mutator produces both good and bad bodies
    assert counts.get(200, 0) > n / 20 and counts.get(400, 0) > n / 20
    metrics = httpx.get(server.url + "/metrics", timeout=hearthd.PATIENCE).text
    assert server.health()[0] == 200
    assert hearthd.total(hearthd.samples(metrics), "hearth_running_sequences") == 0
    assert ordinary(server) == before
    assert memory_of(server) < memory + 300, "the process has grown"
    assert "internal error" not in server.log() and "error of its own" not in server.log()
