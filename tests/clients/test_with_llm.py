"""LLM, Simon Willison's command (pip install llm): extra-openai-models.yaml in its folder names the
server."""
import importlib.util
import json
import os
import subprocess
import sys

import pytest

import hearthd
from examples import ANSWER, DESCRIBE, MODEL, QUESTION, City

if importlib.util.find_spec("llm") is None:
    pytest.skip("the package llm is not installed: tests/clients/run.sh", allow_module_level=True)


@pytest.fixture()
def llm(base_url, tmp_path):
    """llm(*arguments) -> what the command prints."""
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: hearth\n  model_name: {MODEL}\n  api_base: {base_url}\n  supports_schema: true\n"
        "  supports_tools: true\n")

    def run(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "llm", *arguments], env={**os.environ, "LLM_USER_PATH": str(tmp_path)},
            capture_output=True, text=True, timeout=hearthd.PATIENCE, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def test_answers_and_streams_the_same(llm):
    ask = ("-m", "hearth", "-o", "temperature", "0", "-o", "max_tokens", "12", QUESTION)
    whole = llm(*ask, "--no-stream")
    assert whole.startswith(ANSWER) and llm(*ask) == whole


def test_the_conversation_continues(llm):
    limits = ("-o", "temperature", "0", "-o", "max_tokens", "12")
    llm("-m", "hearth", *limits, QUESTION)
    assert llm("-c", *limits, "Are you sure?")
    logged = json.loads(llm("logs", "--json", "-n", "2"))
    assert len({entry["conversation_id"] for entry in logged}) == 1


def test_an_answer_follows_a_schema(llm):
    City.model_validate_json(llm("-m", "hearth", "-o", "temperature", "0", "-o", "max_tokens", "60",
                                 "--schema", json.dumps(City.model_json_schema()), DESCRIBE))
