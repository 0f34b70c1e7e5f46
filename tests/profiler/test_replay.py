"""Traces of experts and their replay for their users: what synth and count write is replayed, tables and JSON
agree, and every mistake has one message.

HEARTH_BUILD_DIR locates the program. Run by tests/run.sh.
"""
import json
import os
import pathlib
import subprocess

import pytest

BUILD = os.environ.get("HEARTH_BUILD_DIR")
ROOT = pathlib.Path(__file__).resolve().parents[2]
SKEWED = ROOT / "tests/data/traces/skewed.trace"
POLICIES = ["none", "static", "lru", "lfu", "decay", "learned", "prefetch", "optimum"]
pytestmark = pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")


def profiler(*arguments):
    program = [str(pathlib.Path(BUILD) / "hearth-profiler"), *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, timeout=300)


def replay(*arguments, trace=SKEWED, budget="25%", machine="rtx4090"):
    return profiler("replay", "--trace", trace, "--budget", budget, "--machine", machine, *arguments)


def refused(done):
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    return done.stderr


def test_a_planted_trace_is_replayed_as_text_and_json():
    done = replay()
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line]
    rows = [words for words in lines if words[0] in POLICIES]
    assert [row[0] for row in rows] == POLICIES
    told = json.loads(replay("--json").stdout)
    assert [policy["policy"] for policy in told["policies"]] == POLICIES
    for row, policy in zip(rows, told["policies"]):
        assert float(row[1]) == pytest.approx(100 * policy["hit_rate"], abs=0.06)
        assert float(row[3]) == pytest.approx(1e3 * policy["seconds_per_token"], abs=0.006)
    rates = {policy["policy"]: policy["hit_rate"] for policy in told["policies"]}
    assert rates["none"] == 0 and rates["optimum"] == max(rates.values())
    assert told["tokens"] == 750 and told["budget_share"] == pytest.approx(0.25)
    alone = json.loads(replay("--json", "--policy", "static").stdout)
    assert alone["policies"] == told["policies"][1:2]
    assert told["prefetch_accuracy"] == 0.8 and "prefetch predicts 80 %" in done.stdout
    never = json.loads(replay("--json", "--prefetch-accuracy", 0).stdout)["policies"]
    learned, prefetch = (never[POLICIES.index(name)] for name in ("learned", "prefetch"))
    assert prefetch["copies_per_token"] == learned["copies_per_token"]
    assert prefetch["seconds_per_token"] == pytest.approx(learned["seconds_per_token"])


def test_budgets_in_bytes_and_training_on_another_trace(tmp_path):
    told = json.loads(replay("--json", "--policy", "static", "--train", SKEWED, budget="512MiB").stdout)
    assert told["budget_bytes"] == 512 << 20 and told["tokens"] == 1000
    assert str(SKEWED) in told["trained_on"]
    other = tmp_path / "other.trace"
    planted = ["synth", "--shape", "qwen3-30b-a3b", "--layers", 4, "--tokens", 100, "--trace", other]
    assert profiler(*planted, "--seed", 5).returncode == 0
    less = json.loads(replay("--json", "--policy", "static", "--train", other, budget="512MiB").stdout)
    assert less["policies"][0]["hit_rate"] < told["policies"][0]["hit_rate"]
    assert "exists already" in refused(profiler(*planted))


def test_a_traced_model_is_replayed(tmp_path):
    model, trace, counted = tmp_path / "moe.gguf", tmp_path / "moe.trace", tmp_path / "moe.activity"
    text = tmp_path / "a.txt"
    text.write_text("The old harbour was quiet that morning, and the boats lay still.")
    assert profiler("synth", "--shape", "tiny-moe", "--out", model).returncode == 0
    done = profiler("count", "--model", model, "--text", text, "--no-prompts", "--out", counted,
                    "--trace", trace)
    assert done.returncode == 0, done.stderr
    done = replay("--model", model, "--train", counted, "--json", trace=trace)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["tokens"] == 48  # what count lets a model generate
    more = json.loads(replay("--model", model, "--prompts", "--json", trace=trace).stdout)
    assert more["tokens"] > 48 * 3 // 4
    assert "which is no shape; give --model its file" in refused(replay(trace=trace))
    assert "another model" in refused(replay("--model", model))
    assert "another model" in refused(replay("--train", counted))


@pytest.mark.parametrize("arguments, word", [
    (dict(budget="a lot"), "--budget"),
    (dict(budget="101%"), "--budget"),
    (dict(budget="8GB"), "8GiB"),
    (dict(machine="rtx9999"), "rtx4090"),
    (dict(trace="none.trace"), "none.trace"),
    (dict(trace=__file__), "it is not a trace of experts"),
])
def test_mistakes_are_one_sentence(arguments, word):
    said = refused(replay(**arguments))
    assert word in said and len(said.splitlines()) == 1


def test_wrong_options_are_refused():
    assert "--policy" in refused(replay("--policy", "fifo"))
    assert "--prefetch-accuracy" in refused(replay("--prefetch-accuracy", "80"))
    assert 'no type "q2"' in refused(replay("--type", "q2"))
    assert "choose fewer" in refused(replay("--context", 1 << 20))
    assert "unlike the shape gpt-oss-120b" in refused(replay("--shape", "gpt-oss-120b"))
    assert "needs the file to write" in refused(profiler("synth", "--shape", "tiny"))
    assert "has none" in refused(profiler("synth", "--shape", "tiny", "--trace", "x"))
    assert "--trace" in refused(profiler("synth", "--shape", "tiny-moe", "--out", "x", "--topic-tokens", "5"))
    assert "--active" in refused(profiler("synth", "--shape", "tiny-moe", "--trace", "x", "--active", "0.1"))
