"""LangChain (pip install langchain-openai): ChatOpenAI, OpenAI and OpenAIEmbeddings with base_url."""
import asyncio

import pytest

import hearthd
from examples import ANSWER, DESCRIBE, MODEL, QUESTION, WEATHER_QUESTION, WEATHER_TOOL, City, is_weather_call

langchain = pytest.importorskip("langchain_openai",
                                reason="langchain-openai is not installed: tests/clients/run.sh")


@pytest.fixture()
def chat(base_url):
    """chat(**options) -> a ChatOpenAI."""
    def make(**options):
        return langchain.ChatOpenAI(
            **{"base_url": base_url, "api_key": "none", "model": MODEL, "temperature": 0,
               "max_tokens": 60, "max_retries": 0, "timeout": hearthd.PATIENCE, **options})

    return make


def test_chat_answers_and_streams_the_same(chat):
    model = chat(max_tokens=12)
    whole = model.invoke([("system", "You answer in one sentence."), ("human", QUESTION)])
    assert whole.content and whole.usage_metadata["output_tokens"] <= 12
    plain = model.invoke(QUESTION).content
    assert plain.startswith(ANSWER)
    assert "".join(chunk.content for chunk in model.stream(QUESTION)) == plain
    assert asyncio.run(model.ainvoke(QUESTION)).content == plain
    assert [answer.content for answer in model.batch([QUESTION, QUESTION])] == [plain, plain]


def test_bound_tools_are_called_and_their_results_answered(chat):
    from langchain_core.messages import HumanMessage, ToolMessage

    question = HumanMessage(WEATHER_QUESTION)
    asked = chat().bind_tools([WEATHER_TOOL], tool_choice="any", parallel_tool_calls=False).invoke([question])
    call, = asked.tool_calls
    assert call["name"] == "get_weather" and is_weather_call(call["args"])
    told = chat(max_tokens=20).bind_tools([WEATHER_TOOL], tool_choice="none").invoke(
        [question, asked, ToolMessage("21 degrees, sunny", tool_call_id=call["id"])])
    assert told.content and not told.tool_calls


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_structured_output_is_of_the_class(chat, method):
    # LangChain's function validates the answer with the class and raises if it does not fit.
    assert isinstance(chat().with_structured_output(City, method=method).invoke(DESCRIBE), City)


def test_completions(base_url):
    model = langchain.OpenAI(base_url=base_url, api_key="none", model=MODEL, temperature=0, max_tokens=4,
                             max_retries=0)
    whole = model.invoke("The sky is")
    assert whole and "".join(model.stream("The sky is")) == whole


def test_the_responses_api(chat):
    answer = chat(max_tokens=16, use_responses_api=True).invoke(QUESTION)
    assert answer.text.startswith(ANSWER)


def test_embeddings(base_url):
    # Otherwise OpenAI's tokenizer, which is fetched from the network, cuts the texts.
    embeddings = langchain.OpenAIEmbeddings(base_url=base_url, api_key="none", model=MODEL,
                                            check_embedding_ctx_length=False)
    first, second = embeddings.embed_documents(["The cat sits.", "A kitten rests."])
    assert len(first) == len(second) > 0 and first != second
    assert embeddings.embed_query("The cat sits.") == pytest.approx(first)


def test_errors_are_those_of_openais_package(chat):
    import openai

    with pytest.raises(openai.NotFoundError):
        chat(model="of-elsewhere").invoke(QUESTION)
    with pytest.raises(openai.BadRequestError):
        chat(top_p=7).invoke(QUESTION)
