"""Pydantic AI (pip install pydantic-ai-slim[openai]): an agent with a tool, answers of a class, streams."""
import pytest

from examples import ANSWER, DESCRIBE, MODEL, QUESTION, City

pydantic_ai = pytest.importorskip("pydantic_ai",
                                  reason="pydantic-ai-slim is not installed: tests/clients/run.sh")


@pytest.fixture()
def model(base_url):
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=base_url, api_key="none"))


def test_an_agent_answers(model):
    run = pydantic_ai.Agent(model, model_settings={"temperature": 0, "max_tokens": 12}).run_sync(QUESTION)
    assert run.output.startswith(ANSWER)
    assert run.usage.output_tokens <= 12


def test_an_agent_streams_the_same(model):
    agent = pydantic_ai.Agent(model, model_settings={"temperature": 0, "max_tokens": 12})
    whole = agent.run_sync(QUESTION).output
    stream = agent.run_stream_sync(QUESTION)
    assert list(stream.stream_text())[-1] == whole


@pytest.mark.parametrize("output", ["ToolOutput", "NativeOutput"])
def test_output_has_the_requested_class(model, output):
    # Once as a call of a tool that the agent forces, and once as response_format.
    agent = pydantic_ai.Agent(model, output_type=getattr(pydantic_ai, output)(City), retries=0,
                              model_settings={"temperature": 0, "max_tokens": 60})
    assert isinstance(agent.run_sync(DESCRIBE).output, City)


def test_an_agents_tools_may_be_called(model):
    from typing import Literal

    agent = pydantic_ai.Agent(model, output_type=City, retries=0,
                              model_settings={"temperature": 0, "max_tokens": 60,
                                              "parallel_tool_calls": False})
    asked = []

    @agent.tool_plain
    def find_country(city: Literal["Paris", "Berlin", "Rome"]) -> str:
        """Finds a city's country."""
        asked.append(city)
        return "France"

    # Every step must call a tool: the agent's own or the one that ends the run. This model may choose badly
    # and never end.
    limits = pydantic_ai.UsageLimits(request_limit=3)
    try:
        assert isinstance(agent.run_sync(DESCRIBE, usage_limits=limits).output, City)
    except pydantic_ai.UsageLimitExceeded:
        assert len(asked) == 3


def test_errors_are_the_packages_own(base_url, model):
    from pydantic_ai.exceptions import ModelHTTPError

    with pytest.raises(ModelHTTPError) as wrong:
        pydantic_ai.Agent(model, model_settings={"temperature": 9}).run_sync(QUESTION)
    assert wrong.value.status_code == 400
