"""The modes of running the FFN as clients and readers of the log see them: the small ReLU model served in
every mode."""
import json
import re

import httpx
import pytest

import hearthd

RELU = hearthd.ROOT / "tests/data/relu"
PLAIN = RELU / "relu-5m-q8_0.gguf"
POWERINFER = RELU / "relu-5m-q4_0.powerinfer.gguf"
SILU = hearthd.ROOT / "tests/data/arch/llama.gguf"
GREEDY = json.loads((RELU / "relu-greedy.json").read_text())


@pytest.fixture()
def serve():
    started = []

    def make(model, *flags, **options):
        started.append(hearthd.Hearthd("--threads", "1", "--log-level", "debug", *flags, model=model,
                                       **options))
        return started[-1]

    yield make
    for one in started:
        one.kill()


def greedy_text(server, prompt, n=32):
    answer = httpx.post(server.url + "/v1/completions", timeout=hearthd.PATIENCE,
                        json={"prompt": prompt, "max_tokens": n, "temperature": 0})
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["text"]


def sparsity_of(server):
    models = httpx.get(server.url + "/v1/models", timeout=hearthd.PATIENCE).json()
    return models["data"][0]["sparsity"]


def log_line(server):
    lines = [line for line in server.lines if "sparsity" in line and "mode=" in line]
    assert len(lines) == 1, server.log()
    return lines[0]


def test_exact_and_dense_give_the_references_greedy_text(serve):
    exact, dense = serve(PLAIN), serve(PLAIN, "--sparsity", "dense")
    for item in GREEDY:
        text = greedy_text(exact, item["prompt"])
        assert greedy_text(dense, item["prompt"]) == text
        if min(item["margins"]) > 0.05:
            assert text.strip() == item["text"].strip()


def test_powerinfers_file_in_every_mode(serve):
    servers = {mode: serve(POWERINFER, "--sparsity", mode)
               for mode in ("dense", "exact", "predicted", "auto")}
    shown = {mode: sparsity_of(server) for mode, server in servers.items()}
    text = {mode: greedy_text(server, "The old house stood") for mode, server in servers.items()}
    assert text["exact"] == text["dense"]
    assert all(len(one.strip()) > 10 for one in text.values()), text

    for mode in ("dense", "exact", "predicted"):
        assert shown[mode]["mode"] == mode
        assert f"mode={mode}" in log_line(servers[mode])
    dense_bytes = shown["dense"]["bytes_per_token"]
    assert "active_share" not in shown["dense"] and "active_neurons" not in log_line(servers["dense"])
    for mode in ("exact", "predicted", "auto"):
        one = shown[mode]
        assert 0.1 < one["active_share"] < 0.3
        assert one["dense_bytes_per_token"] == dense_bytes
        assert one["bytes_per_token"] < dense_bytes
        share = re.search(r'active_neurons="?([0-9.]+) %', log_line(servers[mode]))
        assert abs(float(share[1]) / 100 - one["active_share"]) < 0.001
        assert re.search(r'per_token="?\d+ MB', log_line(servers[mode]))
    assert one["active_share"] < shown["predicted"]["proposed_share"] + 0.001 < 0.4
    assert shown["predicted"]["predictor_threshold"] == 0
    assert "asked for" in shown["predicted"]["reason"]

    # "auto" takes the mode that reads less, and shows both numbers.
    least = min(("exact", "predicted"), key=lambda mode: shown[mode]["bytes_per_token"])
    assert shown["auto"]["mode"] == least
    assert re.search(r"[0-9.]+ MB predicted, [0-9.]+ MB exact", shown["auto"]["reason"])
    assert text["auto"] == text[least]


def test_activity_beside_the_model_is_logged_and_counts_of_powerinfer_are_not_read(serve, tmp_path):
    assert "activity of 4 layers from" in serve(POWERINFER).log()
    (tmp_path / "model.gguf").symlink_to(POWERINFER)
    assert "activity of" not in serve(tmp_path / "model.gguf").log()
    (tmp_path / "activation").symlink_to(POWERINFER.parent / "activation")
    log = serve(tmp_path / "model.gguf").log()
    assert log.count("--import FOLDER makes an activity file of them") == 1 and "activity of" not in log


def test_a_model_without_zeros_runs_dense_and_says_why(serve):
    server = serve(SILU)
    assert sparsity_of(server)["mode"] == "dense"
    assert "silu, has no zeros" in sparsity_of(server)["reason"]
    assert "silu, has no zeros" in log_line(server)


def test_predictors_threshold_from_flag_and_environment(serve):
    server = serve(POWERINFER, "--sparsity", "predicted", env={"HEARTH_PREDICTOR_THRESHOLD": "-1000"})
    assert sparsity_of(server)["proposed_share"] == 1.0
    assert sparsity_of(server)["predictor_threshold"] == -1000
    all_neurons = greedy_text(server, "She said that the")
    assert greedy_text(serve(POWERINFER, "--sparsity", "exact"), "She said that the") == all_neurons
    server = serve(POWERINFER, "--sparsity", "predicted", "--predictor-threshold", "1000")
    assert sparsity_of(server)["proposed_share"] == sparsity_of(server)["active_share"] == 0.0


@pytest.mark.parametrize("flags", [("--slots", "1", "--context", "1"), ("--slots", "64", "--context", "16"),
                                   ("--slots", "1", "--context", "16", "--prefill-chunk", "1")])
@pytest.mark.parametrize("mode", ["exact", "predicted", "auto"])
def test_small_and_crowded_servers(serve, flags, mode):
    server = serve(POWERINFER, "--sparsity", mode, *flags)
    assert 0.0 < sparsity_of(server)["active_share"] < 0.5
    if flags[3] == "16":
        assert greedy_text(server, "She said that the", 8)


@pytest.mark.parametrize("model, flags, words", [
    (PLAIN, ["--sparsity", "predicted"], ["no predictors", "take exact"]),
    (SILU, ["--sparsity", "predicted"], ["no predictors", "take dense"]),
    (PLAIN, ["--sparsity", "calibrated"], ["relu", "take exact"]),
    (POWERINFER, ["--sparsity", "sparse"], ["--sparsity", "sparse", "auto"]),
    (POWERINFER, ["--sparsity", ""], ["--sparsity", "auto"]),
    *[(POWERINFER, ["--sparsity", "predicted", "--predictor-threshold", x],
       ["--predictor-threshold", "-1000"])
      for x in ("nan", "inf", "-inf", "1001", "x", "1e400", "")],
])
def test_impossible_requests_are_one_sentence(model, flags, words):
    done = hearthd.run(["--model", model, "--port", "0", *flags])
    assert done.returncode == 2, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    for word in words:
        assert word in last, last
    assert "terminate called" not in done.stderr
