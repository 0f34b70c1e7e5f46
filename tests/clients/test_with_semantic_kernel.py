"""Semantic Kernel (pip install semantic-kernel): its OpenAIChatCompletion with an AsyncOpenAI of another base
URL."""
import asyncio
import json
from typing import Annotated

import pytest

import hearthd
from examples import ANSWER, DESCRIBE, MODEL, QUESTION, WEATHER_QUESTION, City

semantic_kernel = pytest.importorskip("semantic_kernel",
                                      reason="semantic-kernel is not installed: tests/clients/run.sh")


def ask(base_url, question, use, **settings):
    """Runs the coroutine use(service, history, settings, kernel)."""
    import openai
    from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion, OpenAIChatPromptExecutionSettings
    from semantic_kernel.contents import ChatHistory

    async def run():
        async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0,
                                      timeout=hearthd.PATIENCE) as client:
            service = OpenAIChatCompletion(ai_model_id=MODEL, async_client=client)
            kernel = semantic_kernel.Kernel()
            kernel.add_service(service)
            history = ChatHistory()
            history.add_user_message(question)
            return await use(service, history, OpenAIChatPromptExecutionSettings(temperature=0, **settings),
                             kernel)

    return asyncio.run(run())


def test_chat_answers_and_streams_the_same(base_url):
    async def both(service, history, settings, kernel):
        whole = await service.get_chat_message_content(history, settings)
        parts = [part async for part in service.get_streaming_chat_message_content(history, settings)]
        return str(whole), "".join(str(part) for part in parts)

    whole, streamed = ask(base_url, QUESTION, both, max_tokens=12)
    assert whole.startswith(ANSWER) and streamed == whole


def test_a_required_function_is_called(base_url):
    from semantic_kernel.connectors.ai import FunctionChoiceBehavior
    from semantic_kernel.functions import kernel_function

    called = []

    class Weather:
        @kernel_function(description="Tells whether it is day in Paris.")
        def is_day(self, certain: Annotated[bool, "whether to be certain"]) -> str:
            called.append(certain)
            return "It is day."

    async def call(service, history, settings, kernel):
        kernel.add_plugin(Weather(), plugin_name="weather")
        # After one round of calls it makes another request without tools.
        settings.function_choice_behavior = FunctionChoiceBehavior.Required(auto_invoke=True)
        return await service.get_chat_message_content(history, settings, kernel=kernel)

    answer = ask(base_url, WEATHER_QUESTION, call, max_tokens=40)
    assert called and all(isinstance(certain, bool) for certain in called)
    assert answer is not None


def test_an_answer_follows_a_class(base_url):
    async def describe(service, history, settings, kernel):
        return str(await service.get_chat_message_content(history, settings))

    City.model_validate(json.loads(ask(base_url, DESCRIBE, describe, max_tokens=60, response_format=City)))


def test_errors_are_the_packages_own(base_url):
    from semantic_kernel.exceptions import ServiceException

    async def wrong(service, history, settings, kernel):
        service.ai_model_id = "of-elsewhere"
        return await service.get_chat_message_content(history, settings)

    with pytest.raises(ServiceException):
        ask(base_url, QUESTION, wrong)
