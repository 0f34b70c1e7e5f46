"""Models whose layers have a sliding window, with prompts many times its length: these layers keep only the
keys and values in the window. Their answers over HTTP are compared, bit by bit, with those of a model that
keeps all keys and values."""
import concurrent.futures
import re

import httpx
import pytest

import gguf_edit
import hearthd

MODELS = hearthd.ROOT / "tests/data/arch"
WINDOW = 8  # of the models, in tokens


@pytest.fixture(scope="module", params=["gemma3", "gpt-oss", "phi3-long"])
def model(request, tmp_path_factory):
    """A small model with a longer context than it was made for."""
    arch = request.param.split("-long")[0]
    target = tmp_path_factory.mktemp("windows") / "model.gguf"
    return gguf_edit.copy_with(MODELS / f"{request.param}.gguf", target, {f"{arch}.context_length": 65536})


@pytest.fixture(scope="module")
def servers(model):
    """Two servers: one frees what windows have passed, and one keeps everything, because its steps are so
    long that nothing would be saved."""
    frees = hearthd.Hearthd("--threads", "2", "--slots", "3", "--context", "512", "--prefill-chunk", "32",
                            model=model)
    keeps = hearthd.Hearthd("--threads", "2", "--slots", "3", "--context", "512", "--prefill-chunk", "512",
                            model=model)
    yield frees, keeps
    frees.kill()
    keeps.kill()


def complete(server, prompt, **options):
    answer = httpx.post(server.url + "/v1/completions", timeout=hearthd.PATIENCE,
                        json={"prompt": prompt, "max_tokens": 40, "temperature": 0, "logprobs": 3, **options})
    assert answer.status_code == 200, answer.text
    return answer.json()


def prompt_of(n_tokens, seed):
    return [1] + [(7 * i + i * i + 11 * seed) % 250 + 3 for i in range(n_tokens - 1)]


def memory_line(server):
    return next(line for line in server.lines if "kv_cache" in line)


def kv_megabytes(server):
    return int(re.search(r"kv_cache\D*(\d+) MB", memory_line(server)).group(1))


def test_long_prompts_have_the_answers_of_a_model_that_keeps_everything(servers):
    frees, keeps = servers
    assert "a window of 8 tokens" in memory_line(frees)
    assert "kv_windows" not in memory_line(keeps)
    prompts = [prompt_of(n, n) for n in (3 * WINDOW, 100, 257, 400)]
    expected = [complete(keeps, prompt)["choices"] for prompt in prompts]
    assert [complete(frees, prompt)["choices"] for prompt in prompts] == expected
    # more prompts than slots, and from the prefix cache
    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        crowd = list(pool.map(lambda prompt: complete(frees, prompt), prompts))
    assert [answer["choices"] for answer in crowd] == expected


def test_a_conversation_goes_on_from_the_prefix_cache(servers):
    frees, keeps = servers
    text, n_before = prompt_of(120, 5), 0
    for turn in range(4):
        answer, expected = (complete(server, text, max_tokens=24) for server in (frees, keeps))
        assert answer["choices"] == expected["choices"]
        cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        # all full blocks of the previous prompt, except that of its last token
        assert cached >= n_before - 16, turn
        text, n_before = text + prompt_of(30, turn)[1:], len(text)


def test_scored_prompts_and_several_answers(servers):
    frees, keeps = servers
    prompt = prompt_of(150, 9)
    for options in ({"echo": True, "max_tokens": 0}, {"n": 3, "temperature": 1, "seed": 4, "max_tokens": 30}):
        assert complete(frees, prompt, **options)["choices"] == complete(keeps, prompt, **options)["choices"]


def test_memory_does_not_grow_with_the_context_in_layers_with_a_window(model):
    def started(context):
        server = hearthd.Hearthd("--threads", "1", "--slots", "2", "--context", context, model=model)
        try:
            n, n_layers = map(int, re.search(r"(\d+) of (\d+) layers", memory_line(server)).groups())
            return kv_megabytes(server), n / n_layers
        finally:
            server.kill()

    short, share = started(16384)
    long, _ = started(65536)
    if share == 1:
        assert long == short  # no layer sees everything
    else:
        assert long == pytest.approx(4 * short, abs=4)
