"""Tokens, templates and facts about the server, for programs that count tokens before they send a request."""
import httpx
import jinja2
import pytest

import hearthd
import small_model

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where is Zürich?"}]


@pytest.fixture(scope="module")
def small():
    server = hearthd.Hearthd("--slots", "2", model=small_model.path())
    yield server
    server.kill()


def post(server, path, **body):
    answer = httpx.post(server.url + path, json=body, timeout=hearthd.PATIENCE)
    assert answer.status_code == 200, answer.text
    return answer.json()


def get(server, path):
    return httpx.get(server.url + path, timeout=hearthd.PATIENCE).json()


@pytest.mark.parametrize("text", ["Once upon a time", "Zürich 🙂\n\n\tend", "a</s>"])
def test_texts_are_restored_from_their_tokens(small, text):
    tokens = post(small, "/tokenize", prompt=text, add_special_tokens=False)["tokens"]
    back = post(small, "/detokenize", tokens=tokens)
    assert back["prompt"].strip() == back["content"].strip() == text.strip()
    pieces = post(small, "/tokenize", content=text, with_pieces=True)["tokens"]
    assert [piece["id"] for piece in pieces] == tokens
    spelled = b"".join(bytes(p["piece"]) if isinstance(p["piece"], list) else p["piece"].encode()
                       for p in pieces)
    assert spelled.decode().strip() == text.strip()


def test_counts_are_those_of_usage(small):
    counted = post(small, "/tokenize", prompt="Once upon a time")["count"]
    assert post(small, "/v1/completions", prompt="Once upon a time",
                max_tokens=1)["usage"]["prompt_tokens"] == counted
    counted = post(small, "/tokenize", messages=CHAT)["count"]
    assert post(small, "/v1/chat/completions", messages=CHAT,
                max_tokens=1)["usage"]["prompt_tokens"] == counted


def test_the_template_rendered_elsewhere_gives_the_same_prompt(small):
    info = get(small, "/tokenizer_info")
    rendered = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(
        info["chat_template"]).render(messages=CHAT, add_generation_prompt=True)
    assert rendered == post(small, "/apply-template", messages=CHAT)["prompt"]
    assert info["chat_template"] == get(small, "/props")["chat_template"]
    eos = post(small, "/tokenize", prompt=info["eos_token"], add_special_tokens=False)["tokens"]
    assert len(eos) == 1 and info["added_tokens_decoder"][str(eos[0])]["content"] == info["eos_token"]


def test_prompts_are_cut_to_their_last_tokens(small):
    long = "word " * 2000  # far more than the context
    answer = post(small, "/v1/completions", prompt=long, max_tokens=4, truncate_prompt_tokens=-1,
                  ignore_eos=True)
    assert answer["usage"]["prompt_tokens"] == get(small, "/props")["n_ctx"] - 4
    answer = post(small, "/v1/chat/completions", max_tokens=1, truncate_prompt_tokens=20,
                  messages=[{"role": "user", "content": long}])
    assert answer["usage"]["prompt_tokens"] == 20
    refused = httpx.post(small.url + "/v1/completions", json={"prompt": long}, timeout=hearthd.PATIENCE)
    assert refused.json()["error"]["code"] == "context_length_exceeded"


def test_gaps_are_filled_by_models_that_can(small, start):
    tokens = post(small, "/tokenize", prompt="ab", add_special_tokens=False)["count"] + post(
        small, "/tokenize", prompt="cd", add_special_tokens=False)["count"]
    answer = post(small, "/v1/completions", prompt="ab", suffix="cd", max_tokens=2, temperature=0)
    assert answer["usage"]["prompt_tokens"] == tokens + 4  # a begin token and three of filling in
    filled = post(small, "/infill", input_prefix="ab", input_suffix="cd", n_predict=2, temperature=0)
    assert filled["content"] == answer["choices"][0]["text"]
    assert filled["tokens_evaluated"] == tokens + 4
    plain = start(model=small_model.SOURCE)
    refused = httpx.post(plain.url + "/infill", json={"input_prefix": "a"}, timeout=hearthd.PATIENCE)
    assert refused.status_code == 400 and "fill in the middle" in refused.json()["error"]["message"]


def test_slots_show_how_many_requests_run(small):
    assert [slot["is_processing"] for slot in get(small, "/slots")] == [False, False]
    assert get(small, "/props")["total_slots"] == 2
