"""Instructor (pip install instructor): classes as answers, in the modes that use tools, JSON and schemas."""
import asyncio

import pytest

import hearthd
from examples import DESCRIBE, MODEL, City

instructor = pytest.importorskip("instructor",
                                 reason="the package instructor is not installed: tests/clients/run.sh")

OPTIONS = {"model": MODEL, "response_model": City, "messages": [{"role": "user", "content": DESCRIBE}],
           "temperature": 0, "max_tokens": 60, "max_retries": 0}


def openai_client(kind, base_url):
    return kind(base_url=base_url, api_key="none", max_retries=0, timeout=hearthd.PATIENCE)


@pytest.mark.parametrize("mode", ["TOOLS", "TOOLS_STRICT", "JSON_SCHEMA"])
def test_the_answer_is_of_the_class(base_url, mode):
    import openai

    client = instructor.from_openai(openai_client(openai.OpenAI, base_url),
                                    mode=getattr(instructor.Mode, mode))
    city, raw = client.chat.completions.create_with_completion(**OPTIONS)
    assert isinstance(city, City) and raw.usage.completion_tokens > 0


def test_from_provider(base_url):
    client = instructor.from_provider(f"openai/{MODEL}", base_url=base_url, api_key="none")
    options = {name: value for name, value in OPTIONS.items() if name != "model"}
    assert isinstance(client.chat.completions.create(**options), City)


def test_partial_answers_end_in_the_whole_one(base_url):
    import openai

    client = instructor.from_openai(openai_client(openai.OpenAI, base_url))
    whole = client.chat.completions.create(**OPTIONS)
    partial = list(client.chat.completions.create_partial(**OPTIONS))
    assert len(partial) > 1 and partial[-1].model_dump() == whole.model_dump()


def test_async(base_url):
    import openai

    async def ask():
        async with openai_client(openai.AsyncOpenAI, base_url) as client:
            return await instructor.from_openai(client).chat.completions.create(**OPTIONS)

    assert isinstance(asyncio.run(ask()), City)
