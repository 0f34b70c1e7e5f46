"""--expert-trace: hearthd records which experts served tokens choose, and hearth-profiler replays that."""
import concurrent.futures
import json
import re
import shutil
import stat
import subprocess

import httpx
import pytest

import hearthd

MIXTURE = hearthd.ROOT / "tests/data/arch/qwen3moe.gguf"
PROMPTS = [[1] + [(7 * i + n) % 250 + 3 for i in range(8 + 3 * n)] for n in range(2)]
N_GENERATED = 20


@pytest.fixture()
def serve(tmp_path):
    """serve(*flags) -> a server that writes the trace in a folder of its own, and the trace's path."""
    started = []
    trace = tmp_path / "traces" / "experts.trace"
    trace.parent.mkdir()

    def make(*flags, model=MIXTURE):
        started.append(hearthd.Hearthd("--threads", "1", "--device", "cpu", "--expert-trace", trace, *flags,
                                       model=model))
        return started[-1], trace

    yield make
    for one in started:
        one.kill()


def complete(server, prompt, n=N_GENERATED):
    answer = httpx.post(server.url + "/v1/completions", timeout=hearthd.PATIENCE,
                        json={"prompt": prompt, "max_tokens": n, "temperature": 0, "ignore_eos": True})
    assert answer.status_code == 200, answer.text
    return answer.json()


def stop(server):
    server.signal()
    assert server.wait() == 0, server.log()


def recorded(server):
    """The numbers of tokens and sequences in the file, by the last line of the log about it; None: there is
    no such line."""
    found = re.findall(r"expert trace tokens=(\d+) sequences=(\d+)", server.log())
    return tuple(map(int, found[-1])) if found else None


def replayed(trace, *more):
    done = subprocess.run([hearthd.BUILD / "hearth-profiler", "replay", "--trace", trace, "--model", MIXTURE,
                           "--budget", "50%", "--machine", "rtx4090", "--train", trace, "--json", *more],
                          capture_output=True, text=True, timeout=hearthd.PATIENCE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("speculate", ["off", "auto"])
def test_two_requests_at_once_are_recorded_and_replayed(serve, speculate):
    server, trace = serve("--slots", "2", "--prefill-chunk", "4", "--speculate", speculate)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda prompt: complete(server, prompt), PROMPTS))
    assert not trace.exists()  # it is written after five minutes, and at the end
    stop(server)
    # The last token of an answer is never computed.
    n_decoded = 2 * (N_GENERATED - 1)
    assert recorded(server) == (sum(map(len, PROMPTS)) + n_decoded, 2)
    assert stat.S_IMODE(trace.stat().st_mode) == 0o600
    assert list(trace.parent.iterdir()) == [trace]
    decoded, whole = replayed(trace), replayed(trace, "--prompts")
    assert decoded["tokens"] == n_decoded
    assert whole["tokens"] == n_decoded + sum(map(len, PROMPTS))
    assert {policy["policy"] for policy in decoded["policies"]} >= {"none", "static", "lru", "optimum"}


def test_a_prompt_from_the_prefix_cache_is_not_recorded_again(serve):
    server, _ = serve("--slots", "1")
    prompt = [1] + [n % 250 + 3 for n in range(40)]
    complete(server, prompt, n=2)
    cached = complete(server, prompt, n=2)["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached > 0
    stop(server)
    assert recorded(server) == (2 * (len(prompt) + 1) - cached, 2)


def test_a_model_that_was_unloaded_continues_its_trace_and_another_one_is_not_recorded(serve, tmp_path):
    model, other = (shutil.copy(MIXTURE.with_name(name), tmp_path)
                    for name in (MIXTURE.name, "mixtral.gguf"))
    server, trace = serve("--idle-unload", "0.01", model=model)
    complete(server, PROMPTS[0])
    one = (len(PROMPTS[0]) + N_GENERATED - 1, 1)
    both = (sum(map(len, PROMPTS)) + 2 * (N_GENERATED - 1), 2)
    hearthd.wait_until(lambda: recorded(server) == one, "the model to be unloaded")
    complete(server, PROMPTS[1])
    hearthd.wait_until(lambda: recorded(server) == both, "the model to be unloaded again")

    answer = httpx.post(server.url + "/admin/model", json={"model": other}, timeout=hearthd.PATIENCE)
    assert answer.status_code == 202, answer.text
    hearthd.wait_until(lambda: "is the trace of another model" in server.log(), "the other model")
    hearthd.wait_until(lambda: server.health()[1]["status"] != "loading", "the load to end")
    complete(server, PROMPTS[0])
    stop(server)
    assert recorded(server) == both and replayed(trace)["tokens"] == 2 * (N_GENERATED - 1)


@pytest.mark.parametrize("flags", [(), ("--check-config",)])
def test_a_model_without_experts_is_refused(tmp_path, flags):
    done = hearthd.run(["--port", "0", "--model", hearthd.SMALL_MODEL, "--expert-trace", tmp_path / "t",
                        *flags])
    assert done.returncode == 2
    assert "it is no mixture of experts" in done.stderr.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_refused(tmp_path):
    for path, reason in [(tmp_path / "none" / "t", "a file cannot be made beside it"),
                         (tmp_path, "is not a plain file")]:
        done = hearthd.run(["--port", "0", "--model", MIXTURE, "--expert-trace", path])
        assert done.returncode == 2
        assert str(path) in done.stderr and reason in done.stderr.splitlines()[-1]
