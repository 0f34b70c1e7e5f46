"""hearthd --kv-type: answers with 8-bit keys and values, the log's lines, and models that cannot use them."""
import concurrent.futures
import re

import httpx
import pytest

import hearthd

RELU = hearthd.ROOT / "tests/data/relu/relu-5m-q8_0.gguf"
ARCH = hearthd.ROOT / "tests/data/arch"


@pytest.fixture()
def serve():
    started = []

    def make(*flags, **options):
        started.append(hearthd.Hearthd("--threads", "1", *flags, model=RELU, **options))
        return started[-1]

    yield make
    for one in started:
        one.kill()


def text(server, prompt):
    answer = httpx.post(server.url + "/v1/completions", timeout=hearthd.PATIENCE,
                        json={"prompt": prompt, "max_tokens": 24, "temperature": 0})
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["text"]


def memory_of(server):
    line = next(line for line in server.lines if "kv_cache" in line)
    return int(re.search(r"kv_cache\D*(\d+) MB", line).group(1)), re.search(r"kv_type\W*(\w+)", line).group(1)


def test_keys_and_values_of_8_bits_answer_and_take_half_of_the_memory(serve):
    halves, rounded = serve("--slots", "16", "--kv-contexts", "16"), serve(
        "--slots", "16", "--kv-contexts", "16", "--kv-type", "q8_0")
    before, name = memory_of(halves)
    assert name == "f16" and before >= 10
    after, name = memory_of(rounded)
    assert name == "q8_0" and abs(after - before * 34 / 64) <= 1
    prompts = ["The old man and the sea. " * n + "Once upon a time" for n in (0, 1, 12)]
    alone = [text(rounded, prompt) for prompt in prompts]
    assert all(alone)
    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:  # together, and from the prefix cache
        assert list(pool.map(lambda prompt: text(rounded, prompt), prompts)) == alone


def test_the_environment_sets_it_too_and_other_words_are_refused(serve):
    assert memory_of(serve(env={"HEARTH_KV_TYPE": "q8_0"}))[1] == "q8_0"
    done = hearthd.run(["--model", RELU, "--port", "0", "--kv-type", "q4_0"])
    assert done.returncode == 2 and "f16" in done.stderr and "q8_0" in done.stderr


@pytest.mark.parametrize("model, reason", [("llama", "multiple of 32 dimensions, and this model's have"),
                                           ("deepseek2-v2", "latent attention")])
def test_models_that_cannot_have_them_are_refused_with_the_reason(model, reason):
    done = hearthd.run(["--model", ARCH / f"{model}.gguf", "--port", "0", "--threads", "1",
                        "--kv-type", "q8_0"])
    assert done.returncode == 2, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert "--kv-type q8_0" in last and reason in last and "take --kv-type f16." in last, last
