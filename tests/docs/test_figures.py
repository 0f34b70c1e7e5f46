"""Pictures and tables in docs/ that scripts make: the committed ones equal what the scripts make today, from
committed data or from the program's output.
"""
import json
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIGURES = ROOT / "docs/figures"
BUILD = os.environ.get("HEARTH_BUILD_DIR")
sys.path.insert(0, str(FIGURES))
import ffn  # noqa: E402
import mixtures  # noqa: E402
import rooms  # noqa: E402
import timeline  # noqa: E402
import which_model  # noqa: E402


def committed(name):
    text = (FIGURES / name).read_text(encoding="utf-8")
    xml.etree.ElementTree.fromstring(text)
    return text


def test_timelines_are_drawn_from_their_traces():
    assert committed("timeline.svg") == timeline.drawn(FIGURES / "timeline.json", in_order=True)
    assert committed("layer.svg") == timeline.drawn(FIGURES / "layer.json")
    assert committed("prompt.svg") == timeline.drawn(FIGURES / "prompt.json")


def test_the_rooms_are_drawn_from_the_table_that_is_enforced():
    assert committed("rooms.svg") == rooms.drawn(rooms.layering.ROOMS)


def test_the_speeds_of_mixtures_are_drawn_from_their_table():
    rows = mixtures.read()
    assert committed("mixtures.svg") == mixtures.draw(rows)
    assert ([tuple(row[column] for column in mixtures.KEYS) for row in rows]
            == [tuple(map(str, key)) for key in mixtures.keys(mixtures.MODELS)])


def test_the_ffn_is_drawn_from_its_plan():
    assert committed("ffn.svg") == ffn.draw(json.loads((FIGURES / "ffn.json").read_text()))


@pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")
def test_the_ffns_plan_is_what_the_program_says():
    assert json.loads((FIGURES / "ffn.json").read_text()) == ffn.planned(
        pathlib.Path(BUILD) / "hearth-profiler")


def committed_table():
    page = which_model.PAGE.read_text(encoding="utf-8")
    return page.split(which_model.BEGIN)[1].split(which_model.END)[0].strip().splitlines()


@pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")
def test_rows_of_the_table_of_models_are_what_the_program_says():
    """Covers a file, a shape with predictors, and a mixture; only the nightly run compares the whole
    table."""
    pytest.importorskip("gguf")
    chosen = [model for model in which_model.MODELS
              if model[0] in ("Qwen3 14B", "Llama 2 70B with ReLU and predictors", "Gemma 4 26B-A4B")]
    made = which_model.table(pathlib.Path(BUILD) / "hearth-profiler", chosen).splitlines()
    assert len(made) == 5 and [line for line in made if line not in committed_table()] == []


@pytest.mark.nightly
@pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")
def test_the_table_of_models_is_what_the_program_says():
    pytest.importorskip("gguf")
    assert committed_table() == which_model.table(pathlib.Path(BUILD) / "hearth-profiler").splitlines()


def test_the_speed_of_prompts_by_cublaslt_is_the_measured_one():
    measured = json.loads((ROOT / "tests/data/measured/h200/models.json").read_text())
    speeds = {one["name"]: one["bench"]["prefill_tokens_per_s"] for one in measured["runs"]}
    times = f"{speeds['plain-full-fast'] / speeds['plain-full']:.2f} times as fast"
    option = (ROOT / "docs/configuration.md").read_text().split("| `--prompt-products`")[1].split("\n")[0]
    assert "not measured" not in option
    assert times in " ".join((ROOT / "docs/cuda.md").read_text().split())


def test_the_layers_of_a_trace_are_cut_by_name(tmp_path):
    done = subprocess.run([sys.executable, FIGURES / "layer.py", "--token", tmp_path / "a.json",
                           FIGURES / "layer.json", "99"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "the CPU computes nothing of layer 99" in done.stderr
