"""smolagents (pip install smolagents[openai]): the model alone, and an agent with one tool."""
import pytest

from examples import ANSWER, MODEL, QUESTION

smolagents = pytest.importorskip("smolagents",
                                 reason="the package smolagents is not installed: tests/clients/run.sh")


def make_model(base_url, **options):
    return smolagents.OpenAIServerModel(model_id=MODEL, api_base=base_url, api_key="none", temperature=0,
                                        **options)


def ask(text):
    return [smolagents.ChatMessage(role=smolagents.MessageRole.USER,
                                   content=[{"type": "text", "text": text}])]


def test_the_model_answers_and_streams_the_same(base_url):
    model = make_model(base_url, max_tokens=12)
    whole = model.generate(ask(QUESTION))
    assert whole.content.startswith(ANSWER) and whole.token_usage.output_tokens <= 12
    assert "".join(part.content or "" for part in model.generate_stream(ask(QUESTION))) == whole.content


def test_an_agent_takes_its_steps(base_url):
    """The agent forces a call in each step (tool_choice "required"), and every step calls one of its two
    tools."""
    @smolagents.tool
    def is_day(certain: bool) -> str:
        """Tells whether it is day.

        Args:
            certain: whether to be certain
        """
        return "It is day."

    model = make_model(base_url, max_tokens=80, parallel_tool_calls=False)
    agent = smolagents.ToolCallingAgent(tools=[is_day], model=model, max_steps=2,
                                        verbosity_level=smolagents.LogLevel.OFF)
    agent.run("Is it day?")
    calls = [call for step in agent.memory.steps for call in getattr(step, "tool_calls", None) or []]
    assert calls and {call.name for call in calls} <= {"is_day", "final_answer"}
