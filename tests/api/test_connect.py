"""hearthd connect: the configurations that it prints, read by the parsers of their formats."""
import json
import os
import shutil
import subprocess
import tomllib

import httpx
import pytest

import hearthd

KEY = "k-of-the-test-never-shown"


@pytest.fixture(scope="module")
def server():
    server = hearthd.Hearthd("--alias", "local", model=hearthd.SMALL_MODEL)
    yield server
    server.kill()


@pytest.fixture(scope="module")
def guarded():
    server = hearthd.Hearthd("--alias", "local", model=hearthd.SMALL_MODEL, env={"HEARTH_API_KEY": KEY})
    yield server
    server.kill()


def connect(client, server, *options, env=None):
    done = hearthd.run(["connect", client, "--port", server.port, *options], env=env)
    assert done.returncode == 0, done.stderr
    assert KEY not in done.stdout + done.stderr
    return done


def served(server, key=None):
    """The name and the context that /v1/models shows for the model that generates."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    answer = httpx.get(server.url + "/v1/models", headers=headers, timeout=hearthd.PATIENCE).json()["data"]
    return next((model["id"], model["max_model_len"]) for model in answer if model["generates"])


def environment_after(lines, env):
    """The variables that a shell has after it has read the lines."""
    shown = subprocess.run(["sh", "-c", lines + "\nexec env -0"], capture_output=True, check=True,
                           env={"PATH": os.environ["PATH"], **env}, timeout=hearthd.PATIENCE)
    return dict(entry.split("=", 1) for entry in shown.stdout.decode().split("\0") if entry)


def test_claude_code_gets_lines_for_a_shell(server):
    done = connect("claude-code", server)
    name, context = served(server)
    variables = environment_after(done.stdout, {"ANTHROPIC_API_KEY": "of another account"})
    assert variables["ANTHROPIC_BASE_URL"] == server.url
    assert variables["ANTHROPIC_AUTH_TOKEN"] == "none" and "ANTHROPIC_API_KEY" not in variables
    assert variables["ANTHROPIC_MODEL"] == variables["ANTHROPIC_DEFAULT_HAIKU_MODEL"] == name
    assert variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == str(context)
    assert variables["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == str(context // 8)
    assert "then run: claude\n" in done.stderr and "small for a coding agent" in done.stderr


def test_codex_gets_a_profile(server):
    done = connect("codex", server)
    name, context = served(server)
    assert tomllib.loads(done.stdout) == {
        "model": name, "model_provider": "hearth", "model_context_window": context,
        "model_providers": {"hearth": {"name": "Hearth", "base_url": server.url + "/v1",
                                       "wire_api": "responses"}}}
    assert "~/.codex/hearth.config.toml, then run: codex --profile hearth\n" in done.stderr


def test_opencode_gets_a_provider(server):
    done = connect("opencode", server)
    name, context = served(server)
    read = json.loads(done.stdout)
    assert read["model"] == f"hearth/{name}"
    provider = read["provider"]["hearth"]
    assert provider["npm"] == "@ai-sdk/openai-compatible"
    assert provider["options"] == {"baseURL": server.url + "/v1", "apiKey": "none"}
    limit = provider["models"][name]["limit"]
    assert limit["context"] == context and 0 < limit["output"] < context
    assert done.stderr.startswith("\nWrite this to opencode.json") and "then run: opencode\n" in done.stderr


def test_a_key_is_named_and_not_shown(guarded):
    env = {"HEARTH_API_KEY": KEY}
    name, _ = served(guarded, KEY)
    variables = environment_after(connect("claude-code", guarded, env=env).stdout, env)
    assert variables["ANTHROPIC_AUTH_TOKEN"] == KEY and variables["ANTHROPIC_MODEL"] == name
    codex = connect("codex", guarded, env=env)
    assert tomllib.loads(codex.stdout)["model_providers"]["hearth"]["env_key"] == "HEARTH_API_KEY"
    assert "HEARTH_API_KEY must hold the key" in codex.stderr
    opencode = json.loads(connect("opencode", guarded, env=env).stdout)
    assert opencode["provider"]["hearth"]["options"]["apiKey"] == "{env:HEARTH_API_KEY}"
    for env, sentence in [({}, "requires an API key; set HEARTH_API_KEY"),
                          ({"HEARTH_API_KEY": "wrong"}, "refuses the one in HEARTH_API_KEY")]:
        refused = hearthd.run(["connect", "codex", "--port", guarded.port], env=env)
        assert refused.returncode == 1 and sentence in refused.stderr and refused.stdout == ""


def test_a_model_that_is_not_loaded_yet_is_named(small, tmp_path):
    shutil.copy(hearthd.SMALL_MODEL, tmp_path / "only.gguf")
    unloaded = small("--models-folder", tmp_path, model=None)
    codex = tomllib.loads(connect("codex", unloaded).stdout)
    assert (codex["model"], codex["model_context_window"]) == ("only", 512)
    assert unloaded.health() == (200, {"status": "unloaded", "models": []})


def test_names_and_addresses_are_quoted(small):
    name = "it's \"odd\" \\ ä $HOME"
    odd = small("--alias", name)
    assert served(odd)[0] == name
    codex = tomllib.loads(connect("codex", odd, "--url", odd.url + "/v1/").stdout)
    assert codex["model"] == name
    assert codex["model_providers"]["hearth"]["base_url"] == odd.url + "/v1"
    assert name in json.loads(connect("opencode", odd).stdout)["provider"]["hearth"]["models"]
    assert environment_after(connect("claude-code", odd).stdout, {})["ANTHROPIC_MODEL"] == name


def test_wrong_uses_are_answered_with_a_sentence(server):
    for arguments, code, sentence in [
        (["connect"], 2, "hearthd connect needs claude-code|codex|opencode"),
        (["connect", "emacs"], 2, "knows claude-code, codex and opencode, not"),
        (["connect", "codex", "--url", "localhost"], 2, "expected an address such as http://127.0.0.1:8080"),
        (["connect", "codex", "--url", "http://127.0.0.1:1"], 1, "start it with 'hearthd FILE|NAME'"),
        (["connect", "codex", "--url", server.url + "/nowhere"], 1, "names no model that generates text"),
    ]:
        done = hearthd.run(arguments)
        assert (done.returncode, done.stdout) == (code, "") and sentence in done.stderr, done.stderr
