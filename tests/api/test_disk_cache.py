"""The prefix cache on disk over HTTP: restarts, idle unloads and other models between, damaged files, the
limit, and a conversation of a coding agent."""
import json
import os
import pathlib
import re
import shutil
import stat

import httpx
import pytest

import gguf_edit
import hearthd

ARCH = hearthd.ROOT / "tests/data/arch"
TEMPLATE = ("{%- for m in messages %}<s>{{ m.role }}: {{ m.content or '' }}"
            "{%- for call in m.tool_calls or [] %}<call>{{ call.function | tojson }}</call>{% endfor %}"
            "</s>{% endfor %}{% if add_generation_prompt %}<s>assistant: {% endif %}")
TEXT = "The quick brown fox jumps over the lazy dog, and the dog sleeps. " * 4


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Small models that chat, with a context for conversations."""
    folder = tmp_path_factory.mktemp("models")
    contexts = {"qwen3": 32768, "qwen35": 32768, "gemma3": 2048, "llama": 2048}
    return {name: gguf_edit.copy_with(ARCH / f"{name}.gguf", folder / f"{name}.gguf",
                                      {"tokenizer.chat_template": TEMPLATE,
                                       f"{name}.context_length": context})
            for name, context in contexts.items()}


@pytest.fixture
def start(tmp_path):
    """Starts servers that share a folder of prefixes, one after another."""
    servers = []
    folder = tmp_path / "prefixes"

    def begin(model, *arguments, gib="1", **keywords):
        for server in servers:
            stop(server)
        servers.append(hearthd.Hearthd("--device", "cpu", "--threads", "2", "--context", "2048",
                                       "--cache-gib", gib, "--cache-dir", folder, *arguments, model=model,
                                       **keywords))
        return servers[-1]
    begin.folder = folder
    yield begin
    for server in servers:
        server.kill()


def stop(server):
    if server.process.poll() is None:
        server.signal()
        assert server.wait() == 0, server.log()


def complete(server, prompt=TEXT, **fields):
    """Returns the text of an answer, and how many tokens of the prompt were reused."""
    answer = httpx.post(server.url + "/v1/completions", timeout=hearthd.PATIENCE,
                        json={"prompt": prompt, "max_tokens": 16, "temperature": 0, "logprobs": 2, **fields})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    choice = body["choices"][0]
    return ((choice["text"], json.dumps(choice["logprobs"])),
            body["usage"]["prompt_tokens_details"]["cached_tokens"])


def metric(server, name):
    text = httpx.get(server.url + "/metrics", timeout=hearthd.PATIENCE).text
    values = [float(found[3]) for line in text.splitlines()
              if (found := hearthd.SAMPLE.match(line)) and found[1] == name]
    assert len(values) == 1, (name, text)
    return values[0]


def files_of(folder):
    return sorted(path for path in pathlib.Path(folder).iterdir() if path.is_file())


@pytest.mark.parametrize("name", ["qwen3", "gemma3", "qwen35"])
@pytest.mark.parametrize("more", [[], ["--kv-type", "q8_0"]], ids=["f16", "q8_0"])
def test_a_restart_computes_nothing_twice(start, models, name, more):
    server = start(models[name], *more)
    expected, cached = complete(server)
    assert cached == 0
    server = start(models[name], *more)
    answer, cached = complete(server)
    assert answer == expected
    assert cached >= 200
    assert metric(server, "hearth_disk_cache_hits_tokens_total") == cached
    assert metric(server, "hearth_disk_cache_bytes") == sum(f.stat().st_size for f in files_of(start.folder))
    line = next(line for line in server.lines if "disk cache" in line)
    assert str(start.folder) in line and re.search(r"files=[1-9]", line), line


def test_it_is_off_unless_it_is_asked_for(models, tmp_path):
    server = hearthd.Hearthd("--threads", "2", model=models["qwen3"], env={"XDG_CACHE_HOME": str(tmp_path)})
    try:
        complete(server)
        assert not (tmp_path / "hearth" / "prefixes").exists()
        assert not any("disk cache" in line for line in server.lines)
    finally:
        server.kill()


def test_the_default_folder_is_private(models, tmp_path):
    server = hearthd.Hearthd("--device", "cpu", "--threads", "2", "--cache-gib", "1", model=models["qwen3"],
                             env={"XDG_CACHE_HOME": str(tmp_path)})
    try:
        complete(server)
        stop(server)
        folder = tmp_path / "hearth" / "prefixes"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert files_of(folder) and all(stat.S_IMODE(f.stat().st_mode) == 0o600 for f in files_of(folder))
    finally:
        server.kill()


def test_a_folder_that_others_may_write_is_not_used(start, models):
    start.folder.mkdir()
    start.folder.chmod(0o777)
    server = start(models["qwen3"])
    complete(server)
    assert any("disk cache: off" in line and "chmod 700" in line for line in server.lines)
    stop(server)
    assert not files_of(start.folder)


def test_an_idle_unload_and_another_model_between(start, models):
    server = start(models["qwen3"], "--idle-unload", "0.005")
    expected, _ = complete(server)
    hearthd.wait_until(lambda: server.health()[1]["status"] == "unloaded", "the model to be unloaded")
    answer, cached = complete(server)
    assert answer == expected and cached >= 200
    server = start(models["llama"])
    other, cached = complete(server)
    assert cached == 0  # another model's keys
    server = start(models["qwen3"])
    answer, cached = complete(server)
    assert answer == expected and cached >= 200
    assert httpx.post(server.url + "/admin/model", json={"model": str(models["llama"])},
                      timeout=hearthd.PATIENCE).status_code == 202
    hearthd.wait_until(lambda: httpx.get(server.url + "/admin/model", timeout=hearthd.PATIENCE).json()
                       ["model"] == "llama", "the other model")
    answer, cached = complete(server)
    assert answer == other and cached >= 200


def test_other_bits_are_other_prefixes(start, models, tmp_path):
    expected, _ = complete(start(models["qwen3"]))
    assert complete(start(models["qwen3"], "--activation-bits", "8"))[1] == 0
    assert complete(start(models["qwen3"], "--kv-type", "q8_0"))[1] == 0
    assert complete(start(models["qwen3"], "--isa", "scalar"))[1] == 0
    assert complete(start(models["qwen3"], "--threads", "1"))[1] >= 200
    changed = gguf_edit.copy_with(models["qwen3"], tmp_path / "qwen3.gguf", {"qwen3.context_length": 4096})
    shutil.copystat(models["qwen3"], changed)
    assert complete(start(changed))[1] == 0
    answer, cached = complete(start(models["qwen3"]))
    assert answer == expected and cached >= 200


@pytest.mark.parametrize("name", ["qwen3", "qwen35"])
def test_damaged_files_change_no_answer(start, models, name):
    expected, _ = complete(start(models[name]))
    def flipped(data):
        middle = len(data) // 2
        return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1:]

    changes = {"flipped": flipped, "cut": lambda data: data[:-1], "empty": lambda data: b"",
               "garbage": lambda data: os.urandom(len(data)), "of another block": None}
    for kind, change in changes.items():
        server = start(models[name])
        answer, _ = complete(server)
        assert answer == expected, kind
        stop(server)
        files = files_of(start.folder)
        contents = [path.read_bytes() for path in files]
        if change is None:
            contents = contents[1:] + contents[:1]
        for path, data in zip(files, contents):
            path.write_bytes(data if change is None else change(data))
        server = start(models[name])
        answer, cached = complete(server)
        assert answer == expected and cached == 0, kind
    answer, cached = complete(start(models[name]))
    assert answer == expected and cached >= 200


def test_the_limit_holds(start, models):
    limit = 0.0005  # GiB
    server = start(models["qwen3"], gib=str(limit))
    for i in range(12):
        complete(server, f"{i}: {TEXT}")
    stop(server)
    bytes_left = sum(path.stat().st_size for path in files_of(start.folder))
    assert limit * 2**30 / 2 < bytes_left <= limit * 2**30
    server = start(models["qwen3"], gib=str(limit))
    assert complete(server, f"11: {TEXT}")[1] >= 200  # the last one is there
    assert complete(server, f"0: {TEXT}")[1] == 0


def test_the_folder_may_be_deleted_at_any_time(start, models):
    server = start(models["qwen3"])
    expected, _ = complete(server)
    # The server may still write files, with which the folder would not be empty at the end.
    gone = start.folder.rename(start.folder.with_name("gone"))
    shutil.rmtree(gone)
    assert complete(server)[0] == expected
    complete(server, "another " + TEXT)
    hearthd.wait_until(lambda: any("cannot be written" in line for line in server.lines), "the warning")
    server = start(models["qwen3"])
    answer, cached = complete(server)
    assert answer == expected and cached == 0
    for path in files_of(start.folder):
        path.unlink(missing_ok=True)  # an unfinished file gets its name
    complete(server, "a third " + TEXT)
    stop(server)
    assert files_of(start.folder)


def test_a_folder_that_cannot_be_made_is_a_sentence(models, tmp_path):
    (tmp_path / "file").write_text("")
    server = hearthd.Hearthd("--device", "cpu", "--threads", "2", "--cache-gib", "1", "--cache-dir",
                             tmp_path / "file" / "prefixes", model=models["qwen3"])
    try:
        complete(server)
        assert any("disk cache: off" in line and str(tmp_path) in line for line in server.lines)
    finally:
        server.kill()


def test_two_servers_share_a_folder(start, models):
    first = start(models["qwen3"])
    expected, _ = complete(first)
    second = hearthd.Hearthd("--device", "cpu", "--threads", "2", "--context", "2048", "--cache-gib", "1",
                             "--cache-dir", start.folder, model=models["qwen3"])
    try:
        def reused():
            answer, cached = complete(second)
            assert answer == expected
            return cached >= 200
        hearthd.wait_until(reused, "the first server's prefix")
        text = "from the second: " + TEXT
        said, _ = complete(second, text)
        stop(second)
        answer, cached = complete(first, text)
        assert answer == said and cached >= 200
    finally:
        second.kill()


def session_turn(turn):
    """What a coding agent adds in a turn: a call, the file that it reads, and what it says about it."""
    call = {"id": f"call_{turn}", "type": "function",
            "function": {"name": "read_file", "arguments": json.dumps({"path": f"src/part_{turn}.c"})}}
    text = "\n".join(f"int f{turn}_{i}(int x) {{ return x + {turn * i}; }}" for i in range(10))
    return [{"role": "user", "content": f"Turn {turn}: go on."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": text}]


@pytest.mark.parametrize("name, n_turns", [("qwen3", 30), ("qwen35", 10)])
def test_a_conversation_goes_on_after_a_restart(start, models, name, n_turns):
    context = ["--context", "32768", "--slots", "2", "--kv-contexts", "1"]
    server = start(models[name], *context)
    messages = [{"role": "system", "content": "You change programs. " * 40}]
    rows, last = [], 0
    for turn in range(n_turns):
        if turn == n_turns // 2:
            server = start(models[name], *context)
        messages += session_turn(turn)
        answer = httpx.post(server.url + "/v1/chat/completions", timeout=hearthd.PATIENCE,
                            json={"messages": messages, "max_tokens": 12, "temperature": 0})
        assert answer.status_code == 200, answer.text
        usage = answer.json()["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        rows.append((turn, usage["prompt_tokens"], cached))
        # The prompts part where the answer begins, and whole KV blocks are reused.
        assert cached >= last - len("<s>assistant: ") - 31, rows
        last = usage["prompt_tokens"]
        messages.append({"role": "assistant", "content": f"Part {turn} is read."})
    for turn, n_prompt, cached in rows:
        print(f"{name} turn {turn}: {cached} of {n_prompt} tokens reused"
              + (" after the restart" if turn == n_turns // 2 else ""))


@pytest.mark.skipif(not hearthd.EMULATED.exists(), reason=f"{hearthd.EMULATED} is not built")
def test_with_a_gpu_it_is_off_and_says_so(models, tmp_path):
    server = hearthd.Hearthd("--cache-gib", "1", "--cache-dir", tmp_path / "prefixes", "--context", "2048",
                             binary=hearthd.EMULATED, model=models["qwen3"])
    try:
        answer, _ = complete(server)
        assert answer
        assert any("disk cache: off" in line and "GPU" in line for line in server.lines)
        assert not (tmp_path / "prefixes").exists() or not list((tmp_path / "prefixes").iterdir())
    finally:
        server.kill()
