"""`hearth-profiler plan` for its users: what it prints about shapes and files, and one message for every
mistake.

HEARTH_BUILD_DIR locates the program. Run by tests/run.sh.
"""
import json
import os
import pathlib
import subprocess
import sys

import pytest

BUILD = os.environ.get("HEARTH_BUILD_DIR")
DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
MACHINES = ["rtx4090", "rtx3090", "rtx3060", "rtx2080ti", "rtx5090", "rtx5060ti", "rtx4060-laptop",
            "rtxa6000", "h100", "h200"]
pytestmark = pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")


def plan(*arguments):
    program = [str(pathlib.Path(BUILD) / "hearth-profiler"), "plan", *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, timeout=300)


def answer(*arguments):
    done = plan(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(*arguments):
    done = plan(*arguments)
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_plan_reads_in_a_terminal():
    done = plan("--shape", "llama-13b", "--machine", "rtx4060-laptop")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert 10 <= len(lines) <= 28
    assert all(len(line) <= 112 for line in lines[1:])
    assert "predicted, not measured" in lines[0]
    for word in ["decode", "prefill", "mode", "GPU", "RAM", "a token", "assumed", "at best", "would help"]:
        assert sum(line.startswith(word) for line in lines) == 1, word


@pytest.mark.parametrize("machine", MACHINES)
def test_every_machine_can_be_planned_for(machine):
    found = answer("--shape", "opt-6.7b", "--machine", machine)
    best = found["best"]
    assert best["decode_tokens_per_s"] > 5
    assert best["decode_tokens_per_s"] <= best["decode_tokens_per_s_at_best"]
    assert best["vram_bytes"] <= found["vram_budget_bytes"]
    assert best["ram_bytes"] <= found["ram_budget_bytes"]
    assert len(found["layers"]) == 32
    assert sum(best["seconds"].values()) == pytest.approx(1 / best["decode_tokens_per_s"])
    for help_ in found["would_help"]:
        assert help_["decode_tokens_per_s"] > best["decode_tokens_per_s"]
    for other in found["other_modes"]:
        assert other["decode_tokens_per_s"] <= best["decode_tokens_per_s"]


def test_more_memory_is_faster_and_a_longer_context_slower():
    shape = ["--shape", "7b", "--machine", "rtx4060-laptop", "--sparsity", "exact"]
    speeds = [answer(*shape, "--vram-budget", gib)["best"]["decode_tokens_per_s"] for gib in (1, 2, 4, 6)]
    assert speeds == sorted(speeds) and speeds[0] < speeds[-1]
    short, long = (answer(*shape, "--vram-budget", 3, "--context", n)["best"] for n in (256, 4096))
    assert short["decode_tokens_per_s"] > long["decode_tokens_per_s"]
    assert short["vram_bytes"] <= 3 << 30


def test_keys_and_values_of_8_bits_leave_room_and_are_read_faster():
    shape = ["--shape", "7b", "--machine", "rtx4090", "--context", 4096, "--slots", 8]
    halves, rounded = (answer(*shape, "--kv-type", name) for name in ("f16", "q8_0"))
    assert (halves["kv_type"], rounded["kv_type"]) == ("f16", "q8_0")
    assert answer(*shape)["kv_type"] == "f16"
    assert rounded["best"]["decode_tokens_per_s"] > halves["best"]["decode_tokens_per_s"]
    bytes_of = [sum(found["best"][part] for part in ("vram_bytes", "ram_bytes"))
                for found in (halves, rounded)]
    assert bytes_of[1] < bytes_of[0]
    done = plan(*shape, "--kv-type", "q8_0")
    assert "KV cache as q8_0" in " ".join(done.stdout.split())
    assert "multiple of 32" in refused("--model", DATA / "arch" / "llama.gguf", "--machine", "rtx4090",
                                       "--kv-type", "q8_0")


def test_a_swiglu_model_is_dense():
    found = answer("--shape", "7b", "--machine", "rtx2080ti", "--ffn-activation", "silu")
    assert found["best"]["mode"] == "dense"
    assert found["active_share"] == 1
    assert found["other_modes"] == []


def test_a_file_is_planned_from_its_sizes_and_its_counts():
    model = DATA / "relu" / "relu-5m-q8_0.gguf"
    found = answer("--model", model, "--machine", "rtx4090", "--active", 0.18)
    assert found["weight_bytes"] < model.stat().st_size
    assert found["weight_bytes"] > 0.9 * model.stat().st_size
    counted = answer("--model", model, "--machine", "rtx4090", "--activity", DATA / "relu" / "activity.csv")
    assert "activity.csv" in counted["activity"]
    assert 0.1 < counted["active_share"] < 0.3


def test_a_machine_can_be_described_in_a_file(tmp_path):
    toml = subprocess.run(
        [sys.executable, "-c", "print(open(%r).read())" % str(
            DATA.parent.parent / "profiler" / "machine" / "machines" / "rtx4090.toml")],
        capture_output=True, text=True).stdout
    head, gpu = toml.split("[gpu]")
    own = tmp_path / "cpu.toml"
    own.write_text(head)
    found = answer("--shape", "7b", "--machine", own)
    assert not found["best"]["gpu"] and found["best"]["vram_bytes"] == 0
    assert "no GPU" in refused("--shape", "7b", "--machine", own, "--vram-budget", 4)


@pytest.mark.parametrize("arguments, words", [
    (["--machine", "rtx4090"], ["--model", "--shape"]),
    (["--shape", "llama-70c", "--machine", "rtx4090"], ["llama-70c", "Did you mean llama-70b?"]),
    (["--shape", "7b", "--machine", "rtx409"], ["rtx409", "Did you mean rtx4090?"]),
    (["--shape", "7b", "--type", "q4_9", "--machine", "rtx4090"], ["q4_9", "Did you mean q4_"]),
    (["--shape", "7b", "--machine", "rtx4090", "--context", 100000], ["100000", "4096"]),
    (["--shape", "7b", "--machine", "rtx4090", "--vram-budget", 0.05], ["--vram-budget", "need"]),
    (["--shape", "opt-175b", "--machine", "rtx4090", "--ram-budget", 16],
     ["opt-175b", "needs", "--ram-budget"]),
    (["--shape", "7b", "--machine", "rtx4090", "--ffn-activation", "silu", "--sparsity", "exact"],
     ["exact", "auto"]),
    (["--shape", "7b", "--machine", "rtx4090", "--sparsity", "calibrated"], ["exact zeros", "auto"]),
    (["--shape", "7b", "--machine", "rtx4090", "--ffn-activation", "swish"], ["swish", "silu"]),
    (["--model", "/nowhere/model.gguf", "--machine", "rtx4090"], ["/nowhere/model.gguf"]),
    (["--shape", "7b", "--machine", "rtx4090", "--activity", DATA / "relu" / "activity.csv"],
     ["activity.csv", "layers"]),
])
def test_mistakes_are_reported_in_a_sentence(arguments, words):
    sentence = refused(*arguments)
    for word in words:
        assert word in sentence, sentence


def test_calibrated_is_planned_as_dense():
    shape = ["--shape", "7b", "--machine", "rtx4090", "--ffn-activation", "silu"]
    assert answer(*shape, "--sparsity", "calibrated")["best"] == answer(*shape, "--sparsity", "dense")["best"]
    assert "depends on thresholds" in plan(*shape, "--sparsity", "calibrated").stderr


def test_the_reported_minimum_of_memory_is_enough():
    shape = ["--shape", "llama-13b", "--machine", "rtx4090"]
    sentence = refused(*shape, "--vram-budget", 0.05)
    least = float(sentence.split("KV cache need ")[1].split()[0])
    unit = {"MB": 1e6, "GB": 1e9}[sentence.split("KV cache need ")[1].split()[1].rstrip(";,")]
    assert plan(*shape, "--vram-budget", least * unit * 1.01 / (1 << 30)).returncode == 0
    sentence = refused(*shape, "--vram-budget", 2, "--ram-budget", 1)
    least, unit = sentence.split("not take needs ")[1].split()[:2]
    least = float(least) * {"MB": 1e6, "GB": 1e9}[unit] / (1 << 30)
    assert plan(*shape, "--vram-budget", 2, "--ram-budget", least * 1.02).returncode == 0


def test_kept_counts_of_a_model_are_used_for_planning(tmp_path):
    model = tmp_path / "model.gguf"
    model.write_bytes((DATA / "relu/relu-5m-q8_0.gguf").read_bytes())
    home = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    tool = str(pathlib.Path(BUILD) / "hearth-profiler")

    def run(*arguments):
        return subprocess.run([tool, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                              env=home)

    def assumed(*arguments):
        done = run("plan", "--model", model, "--machine", "rtx4090", *arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert "ReluLLaMA" in assumed()["activity"]
    counted = run("count", "--model", model, "--tokens", 200)
    assert counted.returncode == 0, counted.stderr
    kept = assumed()
    assert "tokens of the model show" in kept["activity"]
    own = tmp_path / "own.activity"
    (tmp_path / "cache/hearth").rename(tmp_path / "cache/away")
    [file] = (tmp_path / "cache/away").glob("*.activity")
    file.rename(own)
    assert "ReluLLaMA" in assumed()["activity"]
    assert {**assumed("--activity", own), "activity": kept["activity"]} == kept
    own.rename(model.with_name(model.name + ".activity"))  # it is also found beside the model
    assert assumed() == kept

    damaged = tmp_path / "damaged.activity"
    damaged.write_bytes(model.with_name(model.name + ".activity").read_bytes()[:-1])
    done = run("plan", "--model", model, "--machine", "rtx4090", "--activity", damaged)
    assert done.returncode == 2 and "damaged.activity" in done.stderr and done.stderr.count("\n") == 1
    done = run("plan", "--shape", "7b", "--machine", "rtx4090",
               "--activity", model.with_name(model.name + ".activity"))
    assert done.returncode == 2 and "is a shape" in done.stderr and done.stderr.count("\n") == 1


def test_predictors_beside_a_model_are_used_for_planning(tmp_path):
    model = tmp_path / "model.gguf"
    model.write_bytes((DATA / "relu/relu-5m-q8_0.gguf").read_bytes())

    def modes():
        found = answer("--model", model, "--machine", "rtx4090")
        return {mode["mode"] for mode in [found["best"], *found["other_modes"]]}

    assert modes() == {"exact", "dense"}
    text = tmp_path / "text.txt"
    text.write_text("".join(f"The {i * i} boats of harbour {i} came in {i % 7} days late.\n"
                            for i in range(300)))
    train = [str(pathlib.Path(BUILD) / "hearth-profiler"), "train-predictors",
             "--model", str(model), "--text", str(text),
             "--side-file", "--tokens", "512", "--measure-tokens", "128", "--window", "64", "--epochs", "1"]
    done = subprocess.run(train, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert modes() == {"exact", "predicted", "dense"}


def test_a_mixture_is_planned_by_its_closed_form():
    found = answer("--shape", "qwen3-30b-a3b", "--machine", "rtx4060-laptop")
    best = found["best"]
    assert best["gpu"] and best["device_layers"] == 48
    assert sum(best["seconds"].values()) == pytest.approx(1 / best["decode_tokens_per_s"])
    assert sum(part["token_bytes"] for part in found["parts"]) == pytest.approx(best["token_bytes"])
    experts = {part["what"]: part for part in found["parts"]}["experts"]
    # RAM has all experts, because the GPU exchanges its own for others.
    assert best["exchanges_experts"] and best["ram_bytes"] <= found["ram_budget_bytes"]
    assert 0 < experts["vram_bytes"] == experts["ram_copy_bytes"] == best["ram_copy_bytes"]
    assert experts["ram_bytes"] == 16 * experts["token_bytes"]
    # If RAM does not hold the whole model, it has the experts that the GPU lacks.
    tight = answer("--shape", "qwen3-30b-a3b", "--machine", "rtx4060-laptop", "--ram-budget",
                   found["weight_bytes"] / 2**30 - 0.1)
    missing = {part["what"]: part for part in tight["parts"]}["experts"]
    assert not tight["best"]["exchanges_experts"] and missing["ram_copy_bytes"] == 0
    assert missing["vram_bytes"] + missing["ram_bytes"] == 16 * missing["token_bytes"]
    assert missing["vram_bytes"] == experts["vram_bytes"]
    assert found["experts"]["of_a_layer"] == 128 and found["experts"]["of_a_token"] == 8
    done = plan("--shape", "gpt-oss-20b", "--machine", "rtx4090")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "MXFP4" in lines[0] and all(len(line) <= 112 for line in lines[1:])
    for word in ["decode", "prefill", "mode", "GPU", "RAM", "a token", "assumed"]:
        assert sum(line.startswith(word) for line in lines) == 1, word


@pytest.mark.parametrize("arguments, word", [
    (["--active", "0.1"], "--active"),
    (["--sparsity", "exact"], "leave --sparsity out"),
    (["--vram-budget", "6", "--ram-budget", "4"], "does not hold qwen3-30b-a3b"),
    (["--vram-budget", "0.01"], "holds nothing of qwen3-30b-a3b"),
])
def test_impossible_plans_for_mixtures_are_refused(arguments, word):
    assert word in refused("--shape", "qwen3-30b-a3b", "--machine", "rtx4090", *arguments)
