"""Coding agents as their users run them: Claude Code (in the package claude-agent-sdk), Codex (in
openai-codex-cli-bin) and OpenAI's agents SDK (openai-agents).

A model that recites takes the part of a model that is good at calling tools. hearthd connect configures the
agents. Each agent has a home folder of its own and no other variables, so it can only reach this server.
"""
import asyncio
import importlib.util
import os
import pathlib
import shlex
import subprocess

import pytest

import hearthd
import reciting_model
from reciting_model import call

WRITTEN = "hello from hearth\n"
DONE = "The file was written."
ASKED = "Write hello.txt"


def program(package, path):
    """The program that a package brings along."""
    found = importlib.util.find_spec(package)
    if found is None:
        pytest.skip(f"the package {package} is not installed: tests/clients/run.sh")
    return pathlib.Path(found.origin).parent / path


@pytest.fixture
def agent(tmp_path, model_path):
    """agent(*answers) -> a server that recites, and run(*command, **environment) in an empty folder."""
    servers = []
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()

    def start(*answers):
        model = reciting_model.write(tmp_path / "reciting.gguf", model_path, "A title", *answers)
        servers.append(hearthd.Hearthd("--device", "cpu", "--alias", "local", "--slots", "2",
                                       "--context", "32768", model=model))

        def run(*command, **environment):
            # an agent tries again for minutes if the server refuses its requests
            done = subprocess.run(list(map(str, command)), cwd=work, capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=2 * hearthd.PATIENCE,
                                  env={"PATH": os.environ["PATH"], "HOME": str(home), **environment})
            assert done.returncode == 0, done.stdout + done.stderr + servers[-1].log()
            return done.stdout
        return servers[-1], run
    start.work, start.home = work, home
    yield start
    for server in servers:
        server.kill()


def settings_of(client, server):
    done = hearthd.run(["connect", client, "--port", server.port])
    assert done.returncode == 0, done.stderr
    return done.stdout


def answered(server, path):
    """The access log's lines of POST requests, which must all be successful and for the path."""
    lines = [line for line in server.lines if " POST /" in line]
    assert all(f" POST {path} status=200 " in line for line in lines), server.log()
    return lines


def number(line, name):
    return int(line.split(f" {name}=")[1].split(" ")[0])


def check_session(server, path, n_requests):
    """All requests of a session were answered, and each reused what it has in common with the one before."""
    lines = answered(server, path)
    assert len(lines) == n_requests, server.log()
    for before, after in zip(lines, lines[1:]):
        assert number(after, "cached_tokens") > 0.9 * number(before, "prompt_tokens"), server.log()


def test_claude_code_writes_a_file_and_runs_a_command(agent):
    claude = program("claude_agent_sdk", "_bundled/claude")
    file = agent.work / "hello.txt"
    server, run = agent(call("Write", file_path=str(file), content=WRITTEN),
                        call("Bash", command="wc -l hello.txt > lines.txt", description="Counts lines"), DONE)
    words = shlex.split(settings_of("claude-code", server), comments=True)
    variables = dict(word.split("=", 1) for word in words if "=" in word)
    printed = run(claude, "-p", ASKED, "--permission-mode", "acceptEdits", "--allowedTools", "Write,Bash",
                  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", **variables)
    assert printed.strip() == DONE
    assert file.read_text() == WRITTEN
    assert (agent.work / "lines.txt").read_text() == "1 hello.txt\n"
    check_session(server, "/v1/messages", 3)


def test_codex_runs_a_command_and_resumes(agent):
    codex = program("codex_cli_bin", "bin/codex")
    server, run = agent(call("exec_command", cmd=f"printf '{WRITTEN.strip()}\\n' > hello.txt"), DONE)
    (agent.home / ".codex").mkdir()
    (agent.home / ".codex/hearth.config.toml").write_text(settings_of("codex", server))
    command = [codex, "--profile", "hearth", "exec", "--skip-git-repo-check", "-s", "danger-full-access"]
    assert run(*command, ASKED).strip() == DONE
    assert (agent.work / "hello.txt").read_text() == WRITTEN
    assert run(*command, "resume", "--last", "And now?").strip() == DONE
    check_session(server, "/v1/responses", 3)


@pytest.mark.parametrize("api", ["OpenAIChatCompletionsModel", "OpenAIResponsesModel"])
def test_openais_agents_call_a_tool_and_stream(agent, api):
    agents = pytest.importorskip(
        "agents", reason="the package openai-agents is not installed: tests/clients/run.sh")
    server, _ = agent(call("is_day", city="Paris"), DONE)
    agents.set_tracing_disabled(True)
    asked_for = []

    @agents.function_tool
    def is_day(city: str) -> str:
        """Tells whether it is day in a city."""
        asked_for.append(city)
        return "It is day."

    async def both():
        client = agents.AsyncOpenAI(base_url=server.url + "/v1", api_key="none")
        one = agents.Agent(name="one", instructions="Be brief.", tools=[is_day],
                           model=getattr(agents, api)(model="local", openai_client=client))
        whole = await agents.Runner.run(one, "Is it day in Paris?")
        streamed = agents.Runner.run_streamed(one, "Is it day in Paris?")
        kinds = {event.type async for event in streamed.stream_events()}
        return whole.final_output, streamed.final_output, kinds

    whole, streamed, kinds = asyncio.run(both())
    assert whole == streamed == DONE and asked_for == ["Paris", "Paris"]
    assert {"raw_response_event", "run_item_stream_event"} <= kinds
    path = "/v1/responses" if "Responses" in api else "/v1/chat/completions"
    assert len(answered(server, path)) == 4
