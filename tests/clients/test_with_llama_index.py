"""LlamaIndex (pip install llama-index-llms-openai-like llama-index-embeddings-openai-like)."""
import asyncio

import pytest

import hearthd
from examples import ANSWER, DESCRIBE, MODEL, QUESTION, WEATHER_QUESTION, City, is_weather_call

openai_like = pytest.importorskip(
    "llama_index.llms.openai_like",
    reason="llama-index-llms-openai-like is not installed: tests/clients/run.sh")


@pytest.fixture()
def llm(base_url):
    """llm(**options) -> an OpenAILike."""
    def make(**options):
        return openai_like.OpenAILike(
            **{"api_base": base_url, "api_key": "none", "model": MODEL, "is_chat_model": True,
               "context_window": 2048, "temperature": 0, "max_tokens": 12, "max_retries": 0,
               "timeout": hearthd.PATIENCE, **options})

    return make


def chat_message(text):
    from llama_index.core.llms import ChatMessage

    return ChatMessage(role="user", content=text)


def test_chat_answers_and_streams_the_same(llm):
    whole = llm().chat([chat_message(QUESTION)]).message.content
    assert whole.startswith(ANSWER)
    assert "".join(part.delta or "" for part in llm().stream_chat([chat_message(QUESTION)])) == whole
    assert asyncio.run(llm().achat([chat_message(QUESTION)])).message.content == whole


def test_complete_uses_chat_or_completions(llm):
    assert llm().complete(QUESTION).text.startswith(ANSWER)
    plain = llm(is_chat_model=False)
    whole = plain.complete("The sky is").text
    assert whole and "".join(part.delta or "" for part in plain.stream_complete("The sky is")) == whole


def test_a_forced_tool_is_called(llm):
    from typing import Literal

    from llama_index.core.tools import FunctionTool

    def get_weather(city: Literal["Paris", "Berlin", "Rome"], unit: Literal["celsius", "fahrenheit"]) -> str:
        """Tells the weather of a city."""
        return f"21 degrees {unit} in {city}"

    tool = FunctionTool.from_defaults(get_weather)
    model = llm(is_function_calling_model=True, max_tokens=60)
    answer = model.chat_with_tools([tool], user_msg=WEATHER_QUESTION, tool_required=True)
    call, = model.get_tool_calls_from_response(answer)
    assert call.tool_name == "get_weather" and is_weather_call(call.tool_kwargs)
    assert str(tool(**call.tool_kwargs)).startswith("21 degrees")


def test_structured_output_is_of_the_class(llm):
    model = llm(is_function_calling_model=True, max_tokens=60)
    assert isinstance(model.as_structured_llm(City).complete(DESCRIBE).raw, City)


def test_embeddings(base_url):
    from llama_index.embeddings.openai_like import OpenAILikeEmbedding

    embedding = OpenAILikeEmbedding(model_name=MODEL, api_base=base_url, api_key="none", max_retries=0)
    first, second = embedding.get_text_embedding_batch(["The cat sits.", "A kitten rests."])
    assert len(first) == len(second) > 0 and first != second


def test_errors_are_those_of_openais_package(llm):
    import openai

    with pytest.raises(openai.NotFoundError):
        llm(model="of-elsewhere").chat([chat_message(QUESTION)])
