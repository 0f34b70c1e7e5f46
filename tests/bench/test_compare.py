"""tests/bench/compare.py without other engines: scripts replace the programs and print what they would print.

One test calls the real hearth-profiler, found through HEARTH_BUILD_DIR. No speed is judged. Run by
tests/run.sh.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

import pytest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = os.environ.get("HEARTH_BUILD_DIR")
sys.path.insert(0, str(HERE))

from comparison import chart, machine, models, programs, summary, table  # noqa: E402
from comparison.columns import Column, default_columns, parse_column  # noqa: E402
from comparison.results import OtherSetup, Results  # noqa: E402

DECODE, PREFILL = Column("decode", 64, 2), Column("prefill", 256, 2)
LLAMA_BENCH = """warning: something that is no JSON
[
  {
    "build_commit": "abc123",
    "n_prompt": 256, "n_gen": 0,
    "avg_ts": 99.0,
    "samples_ts": [ 40.5, 42.5, 90.0 ]
  }
]
"""
HEARTH_BENCH = json.dumps({"backend": "CPU avx2, 2 threads",
                           "prefill_tokens_per_s": 300.0, "decode_tokens_per_s": 20.0,
                           "decode_bytes_per_token": 1e9, "read_bandwidth_bytes_per_s": 25e9})


# Columns.

def test_column_is_read_and_written():
    assert parse_column("decode64@2") == DECODE and str(PREFILL) == "prefill256@2"


def test_default_columns():
    assert list(map(str, default_columns(1))) == ["decode64@1", "prefill32@1", "prefill256@1",
                                                  "prefill1024@1"]
    assert list(map(str, default_columns(8)))[:3] == ["decode64@1", "decode64@8", "prefill32@8"]


def test_short_prompts_are_repeated():
    assert [Column("prefill", n, 1).repeats for n in (1, 32, 100, 128, 1024)] == [128, 4, 1, 1, 1]
    assert DECODE.repeats == 1


# Calling the programs, and what they print.

def value_of(arguments, flag):
    return arguments[arguments.index(flag) + 1]


def test_hearth_is_called_for_a_column():
    program = programs.Program("hearth", "avx2", ("/bin/h", "--prefill-chunk", "256"))
    decode, prefill = (programs.arguments_of(program, "m.gguf", column) for column in (DECODE, PREFILL))
    assert (decode[:2] == ["/bin/h", "bench"] and value_of(decode, "--isa") == "avx2"
            and decode[-2:] == ["--prefill-chunk", "256"])
    assert [value_of(decode, flag) for flag in ("-p", "-n", "-t", "-r", "--sparsity")] == [
        "1", "64", "2", "1", "dense"]
    assert [value_of(prefill, flag) for flag in ("-p", "-n")] == ["256", "1"]
    assert value_of(programs.arguments_of(programs.Program("hearth", "native", ("h",)), "m", DECODE),
                    "--isa") == "auto"


def test_llama_bench_is_called_for_a_column():
    program = programs.Program("ik", "native", ("/bin/l", "-rtr", "1"))
    decode, prefill = (programs.arguments_of(program, "m.gguf", column) for column in (DECODE, PREFILL))
    assert decode[0] == "/bin/l" and value_of(decode, "-m") == "m.gguf" and value_of(decode, "-rtr") == "1"
    assert [value_of(decode, flag) for flag in ("-p", "-n", "-t", "-o")] == ["0", "64", "2", "json"]
    assert [value_of(prefill, flag) for flag in ("-p", "-n")] == ["256", "0"]


def test_hearths_output():
    found = programs.parse_hearth("a note\n" + HEARTH_BENCH, DECODE)
    assert found == {"tokens_per_s": 20.0, "bytes_per_token": 1e9, "read_bytes_per_s": 25e9,
                     "build": "CPU avx2, 2 threads"}
    assert programs.parse_hearth(HEARTH_BENCH, PREFILL)["tokens_per_s"] == 300.0


def test_llama_benchs_output_is_the_median_of_its_samples():
    assert programs.parse_llama_bench(LLAMA_BENCH, PREFILL) == {"tokens_per_s": 42.5, "build": "abc123"}


@pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")
@pytest.mark.parametrize("column", [Column("decode", 4, 1), Column("prefill", 60, 1)])
def test_hearth_takes_these_arguments_and_prints_what_is_read(column):
    program = programs.program_of("hearth", "scalar", str(pathlib.Path(BUILD) / "hearth-profiler"))
    found = programs.measure(program, HERE.parent / "data/arch/llama.gguf", column)
    assert "error" not in found, found
    assert ("CPU scalar" in found["build"]
            and min(found["tokens_per_s"], found["bytes_per_token"], found["read_bytes_per_s"]) > 0)


def script(path, body):
    path.write_text(f"#!{sys.executable}\nimport json, os, sys\n{body}\n")
    path.chmod(0o755)
    return path


def test_program_that_fails_is_quoted(tmp_path):
    bad = script(tmp_path / "bad", "print('no such model', file=sys.stderr); sys.exit(3)")
    with pytest.raises(programs.ProgramError, match="ended with code 3: no such model"):
        programs.run([str(bad)])


def test_program_that_does_not_end_is_ended(tmp_path):
    slow = script(tmp_path / "slow", "import time; time.sleep(600)")
    with pytest.raises(programs.ProgramError, match="ended after 1 s"):
        programs.run([str(slow)], time_limit_s=1)


def test_peer_keeps_its_options():
    peer = programs.parse_peer("ik@avx2=true -rtr 1")
    assert ((peer.name, peer.isa, peer.command[1:]) == ("ik", "avx2", ("-rtr", "1"))
            and peer.command[0].startswith("/"))


def test_machine_is_read_from_the_first_processor():
    facts = machine.describe(
        "model name : One\nflags : fpu avx2 fma avx512_vnni\n\nmodel name : Two\nflags : fpu\n")
    assert (facts["cpu"], facts["flags"]) == ("One", ["avx2", "fma", "avx512_vnni"]) and facts["cores"] >= 1
    assert machine.OtherPrograms().cpus() >= 0


# Medians, ratios and the tables.

def record(n, program, speed, column=DECODE, isa="native", type_="Q4_0", **more):
    own = {"bytes_per_token": 1e9, "read_bytes_per_s": 25e9} if program == "hearth" else {}
    return {"round": n, "isa": isa, "type": type_, "column": str(column),
            "program": program, "tokens_per_s": speed,
            "seconds": 2.0, "other_cpus": 0.5, "build": program + " 1", **own, **more}


def failed(n, program, sentence):
    return {**{k: v for k, v in record(n, program, 0).items() if k not in ("tokens_per_s", "build")},
            "error": sentence}


SETUP = {"machine": {"cpu": "A processor", "cores": 2, "flags": ["avx2"]}, "models": {"1b Q4_0": 5},
         "programs": {"hearth@native": {"command": "/h", "sha256": "1"}}}
RECORDS = [record(1, "hearth", 20), record(1, "a", 10), record(1, "b", 16),
           record(2, "hearth", 30), record(2, "a", 11),
           record(2, "b", 15), record(3, "hearth", 18), record(3, "a", 40), record(3, "b", 20)]


def test_cell_has_medians_and_compares_with_the_best_median():
    [cell] = summary.cells_of(RECORDS)
    assert (cell.speeds["hearth"] == summary.Spread(20, 18, 30)
            and cell.speeds["a"] == summary.Spread(11, 10, 40))
    assert cell.best_other == "b" and cell.ratio == 20 / 16
    assert (cell.ratios.least, cell.ratios.most) == (18 / 20, 30 / 15)
    assert cell.share("hearth") == pytest.approx(0.8) and cell.share("a") == pytest.approx(11 / 25)


def test_prompts_have_no_share_of_the_memorys_speed():
    [cell] = summary.cells_of([record(1, "hearth", 20, PREFILL)])
    assert cell.share("hearth") is None and cell.best_other is None and cell.ratio is None


def test_program_that_only_failed_has_its_error_and_no_speed():
    [cell] = summary.cells_of([record(1, "hearth", 20), failed(1, "a", "it fell"), failed(1, "b", "it fell"),
                               record(2, "b", 40)])
    assert cell.errors == {"a": "it fell"} and cell.best_other == "b" and cell.ratio == 0.5
    assert cell.ratios is None  # there was no round in which both ran


def test_memory_speed_by_threads():
    records = [record(1, "hearth", 1, Column("decode", 64, n), read_bytes_per_s=s)
               for n, s in ((2, 30), (1, 10), (2, 50))]
    assert summary.memory_speed(records) == {1: summary.Spread(10, 10, 10), 2: summary.Spread(40, 30, 50)}


def test_table_shows_the_verdict_the_ratios_and_the_speeds():
    slow = [record(1, "hearth", 9, type_="Q8_0"), record(1, "a", 10, type_="Q8_0")]
    text = table.render(Results(SETUP, RECORDS + slow))
    assert "first in 1 of 2 comparisons" in text and "lowest ratio is 0.90 (native, Q8_0, decode64@2)" in text
    assert "Below 1: native Q8_0 decode64@2 0.90." in text
    assert "| Q8_0 | **0.90** |" in text and "| Q4_0 | 1.25 |" in text
    assert ("| Q4_0 | 20 (18 to 30) | 11 (10 to 40) | 16 (15 to 20) | 1.25 (0.90 to 2.00) | "
            "80 % | 44 % | 64 % |" in text)
    assert "| Q8_0 | 9 (9 to 9) | 10 (10 to 10) |  | **0.90** (0.90 to 0.90) | 36 % | 40 % |  |" in text
    assert ("2 threads of eight streams read 25 GB/s of memory (25 to 25)" in text
            and "medians of 1 to 3 rounds" in text and "took 0.50 processors" in text)
    assert "| hearth@native | `/h` | hearth 1 |" in text
    assert "None is below 0.9." in table.render(Results(SETUP, RECORDS + slow), want=0.9)


def test_table_says_when_the_machine_was_not_quiet():
    quiet = [{**r, "other_cpus": 0.05} for r in RECORDS]
    assert ("not quiet" in table.render(Results(SETUP, RECORDS))
            and "not quiet" not in table.render(Results(SETUP, quiet)))


def test_table_without_others_and_with_failures():
    text = table.render(Results(SETUP, [record(1, "hearth", 20), failed(1, "a", "it fell")]))
    assert ("There is nothing to compare" in text and "| 20 (20 to 20) | failed |" in text
            and "- Q4_0, a: it fell" in text)


def test_chart_has_a_bar_for_each_program_that_ran():
    results = Results(SETUP, RECORDS + [record(1, "hearth", 9, type_="<Q8_0>")])
    root = xml.etree.ElementTree.fromstring(chart.draw(results, "native", "decode64@2"))
    rects = [r for r in root.iter("{http://www.w3.org/2000/svg}rect") if r.get("class") == "beyond"]
    words = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert len(rects) == 4 and "50 ms, 80 % memory" in words and "<Q8_0>" in words


# The file of results.

def test_results_are_read_back_and_failed_runs_are_tried_again(tmp_path):
    results = Results.resume(tmp_path / "r.json", SETUP)
    results.add(record(1, "hearth", 20))
    results.add(failed(1, "a", "it fell"))
    again = Results.resume(tmp_path / "r.json", SETUP)
    assert again.records == results.records
    assert again.done() == {(1, "native", "Q4_0", "decode64@2", "hearth")}
    again.add(record(1, "a", 10))
    assert len(Results.read(tmp_path / "r.json").records) == 2


@pytest.mark.parametrize("part, value, sentence", [
    ("programs", {"hearth@native": {"command": "/h", "sha256": "2"}}, "another hearth@native"),
    ("models", {"1b Q4_0": 6}, "another 1b Q4_0"), ("machine", {"cpu": "Another"}, "another machine")])
def test_results_of_another_setup_are_not_mixed(tmp_path, part, value, sentence):
    Results.resume(tmp_path / "r.json", SETUP).add(record(1, "hearth", 20))
    with pytest.raises(OtherSetup, match=sentence):
        Results.resume(tmp_path / "r.json", {**SETUP, part: value})


def test_results_take_more_programs_and_types(tmp_path):
    Results.resume(tmp_path / "r.json", SETUP).add(record(1, "hearth", 20))
    more = {**SETUP, "models": {"1b Q8_0": 9}, "programs": {"a@native": {"command": "/a", "sha256": "3"}}}
    merged = Results.resume(tmp_path / "r.json", more).setup
    assert (set(merged["models"]) == {"1b Q4_0", "1b Q8_0"}
            and set(merged["programs"]) == {"hearth@native", "a@native"})


# The whole tool, with scripts for programs.

@pytest.fixture
def bench(tmp_path):
    """A folder with models, a hearth-profiler and a llama-bench, each of which appends its name to the file
    `calls`."""
    told = f"open({str(tmp_path / 'calls')!r}, 'a').write(os.path.basename(sys.argv[0]) + ' ')\n"
    script(tmp_path / "hearth-profiler", told + f"print({HEARTH_BENCH!r})")
    script(tmp_path / "llama-bench", told + """
value = lambda flag: int(sys.argv[sys.argv.index(flag) + 1])
if os.path.exists(sys.argv[0] + '.fails'): sys.exit('the model is too large')
print(json.dumps([{'n_prompt': value('-p'), 'n_gen': value('-n'), 'samples_ts': [10.0],
                   'build_commit': 'abc123'}]))""")
    (tmp_path / "models.json").write_text('{"shape": "tiny", "bytes": {"Q4_0": 4, "Q8_0": 8}}')
    (tmp_path / "tiny-q4_0.gguf").write_bytes(b"4" * 4)
    (tmp_path / "tiny-q8_0.gguf").write_bytes(b"8" * 8)
    return tmp_path


def command(bench, *more, out="r.json"):
    words = [sys.executable, HERE / "compare.py", "run",
             "--models", bench, "--hearth", bench / "hearth-profiler",
             "--peer", f"a@native={bench / 'llama-bench'}", "--columns", "decode64@2,prefill256@2",
             "--out", bench / out, *more]
    return list(map(str, words))


def run(bench, *more, out="r.json"):
    return subprocess.run(command(bench, *more, out=out), capture_output=True, text=True, timeout=120)


def calls(bench):
    path = bench / "calls"
    made = path.read_text().split() if path.exists() else []
    path.unlink(missing_ok=True)
    return made


def test_programs_run_in_turn_and_each_round_in_another_order(bench):
    done = run(bench, "--rounds", 2, "--types", "Q4_0")
    assert done.returncode == 0, done.stderr
    assert calls(bench) == ["hearth-profiler", "llama-bench"] * 2 + ["llama-bench", "hearth-profiler"] * 2
    assert "| Q4_0 | 2.00 | 30.00 |" in done.stdout and done.stdout == (bench / "r.md").read_text()
    assert "[8/8, 0 s left] round 2, native Q4_0 prefill256@2 hearth: 300 tokens/s" in done.stderr


def test_a_comparison_resumes_where_it_was(bench):
    assert run(bench, "--rounds", 1).returncode == 0
    assert len(calls(bench)) == 8
    kept = json.loads((bench / "r.json").read_text())
    kept["records"] = [r for r in kept["records"] if (r["type"], r["program"]) != ("Q8_0", "a")]
    (bench / "r.json").write_text(json.dumps(kept))
    assert run(bench, "--rounds", 1).returncode == 0
    assert calls(bench) == ["llama-bench"] * 2
    done = run(bench, "--rounds", 1)
    assert done.returncode == 0 and calls(bench) == [] and "| Q8_0 | 2.00 |" in done.stdout


def test_program_that_fails_is_reported_and_tried_again(bench):
    (bench / "llama-bench.fails").touch()
    done = run(bench, "--rounds", 1, "--types", "Q4_0")
    assert done.returncode == 1 and "- Q4_0, a: it ended with code 1: the model is too large" in done.stdout
    (bench / "llama-bench.fails").unlink()
    calls(bench)
    assert run(bench, "--rounds", 1, "--types", "Q4_0").returncode == 0
    assert calls(bench) == ["llama-bench"] * 2


def test_program_that_was_rebuilt_needs_another_file(bench):
    assert run(bench, "--rounds", 1, "--types", "Q4_0").returncode == 0
    with (bench / "hearth-profiler").open("a") as file:
        file.write("# changed\n")
    done = run(bench, "--rounds", 1, "--types", "Q4_0")
    assert done.returncode == 2 and "was measured with another hearth@native" in done.stderr
    assert run(bench, "--rounds", 1, "--types", "Q4_0", out="other.json").returncode == 0


def ends_within(seconds, condition):
    """Whether the condition became true in time."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def is_running(pid):
    """False for a process that has ended, whether or not its parent has noticed."""
    try:
        return pathlib.Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_comparison_that_is_stopped_ends_the_program_that_runs(bench):
    pid = bench / "pid"
    script(bench / "hearth-profiler", f"""
import time
open({str(pid)!r} + '.part', 'w').write(str(os.getpid()))
os.rename({str(pid)!r} + '.part', {str(pid)!r})
time.sleep(600)""")
    tool = subprocess.Popen(command(bench), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert ends_within(60, pid.exists)
        tool.send_signal(signal.SIGTERM)
        said = tool.communicate(timeout=60)[1]
    finally:
        tool.kill()
    assert tool.returncode == 130 and "the same command goes on" in said and "Traceback" not in said
    assert ends_within(60, lambda: not is_running(pid.read_text()))


def test_table_and_chart_of_a_file(bench):
    assert run(bench, "--rounds", 1).returncode == 0
    tool = [sys.executable, str(HERE / "compare.py")]
    shown = subprocess.run([*tool, "table", str(bench / "r.json")], capture_output=True, text=True,
                           timeout=60)
    assert shown.stdout == (bench / "r.md").read_text()
    drawn = subprocess.run([*tool, "chart", str(bench / "r.json"), "--column", "decode64@2",
                            "--out", str(bench / "r.svg")],
                           capture_output=True, text=True, timeout=60)
    assert (drawn.returncode, drawn.stderr) == (0, "")
    xml.etree.ElementTree.parse(bench / "r.svg")


# Making the models.

@pytest.fixture
def makers(tmp_path):
    """A hearth-profiler that writes an F16 file of 160,000 bytes, and a llama-quantize that writes what fits
    the type."""
    script(tmp_path / "hearth-profiler",
           "open(sys.argv[sys.argv.index('--out') + 1], 'wb').write(bytes(160_000))")
    script(tmp_path / "llama-quantize", """
if os.path.exists(sys.argv[0] + '.fails'): sys.exit('no such type')
bits = {'Q8_0': 8.5, 'Q4_0': 6.5 if os.path.exists(sys.argv[0] + '.mixes') else 4.5}[sys.argv[4]]
open(sys.argv[3], 'wb').write(bytes(int(10_000 * bits)))""")
    return tmp_path


def make(makers, *types):
    said = []
    models.make_models(makers / "m", "tiny", types, makers / "hearth-profiler", makers / "llama-quantize", 2,
                       said.append)
    return said, sorted(path.name for path in (makers / "m").iterdir())


def test_models_are_made_once(makers):
    said, files = make(makers, "F16", "Q8_0")
    assert files == ["models.json", "tiny-f16.gguf", "tiny-q8_0.gguf"] and len(said) == 2
    assert models.read_sizes(makers / "m") == ("tiny", {"F16": 160_000, "Q8_0": 85_000})
    said, _ = make(makers, "F16", "Q8_0")
    assert len(said) == 1 and "are there" in said[0]
    said, files = make(makers, "F16", "Q8_0", "Q4_0")
    assert len(said) == 1 and "tiny-q4_0.gguf" in files


def test_f16_is_removed_unless_it_is_measured(makers):
    _, files = make(makers, "Q8_0")
    assert (files == ["models.json", "tiny-q8_0.gguf"]
            and models.read_sizes(makers / "m")[1] == {"Q8_0": 85_000})


def test_model_that_was_cut_is_made_again(makers):
    make(makers, "Q8_0")
    (makers / "m/tiny-q8_0.gguf").write_bytes(b"")
    said, _ = make(makers, "Q8_0")
    assert len(said) == 2 and (makers / "m/tiny-q8_0.gguf").stat().st_size == 85_000


@pytest.mark.parametrize("how, sentence", [("fails", "llama-quantize ended with code 1: no such type"),
                                           ("mixes",
                                            "has 65,000 bytes, and all of it in Q4_0 would be about 45,000")])
def test_model_that_is_not_what_was_asked_for_is_not_kept(makers, how, sentence):
    (makers / f"llama-quantize.{how}").touch()
    with pytest.raises(models.ModelError, match=sentence):
        make(makers, "F16", "Q4_0")
    assert sorted(path.name for path in (makers / "m").iterdir()) == ["models.json", "tiny-f16.gguf"]


@pytest.mark.parametrize("bytes_, fits",
                         [(45_000, True), (45_700, True), (44_300, True), (45_900, False), (44_100, False)])
def test_size_of_a_model_is_held_to_its_type(tmp_path, bytes_, fits):
    (tmp_path / "m").write_bytes(bytes(bytes_))
    if fits:
        return models.check_size(tmp_path / "m", 160_000, "Q4_0")
    with pytest.raises(models.ModelError, match="about 45,000"):
        models.check_size(tmp_path / "m", 160_000, "Q4_0")


def test_models_of_another_shape_need_another_folder(makers):
    make(makers, "Q8_0")
    with pytest.raises(models.ModelError, match="has models of the shape tiny"):
        models.make_models(makers / "m", "1b", ["Q8_0"], "h", "q", 2, print)
