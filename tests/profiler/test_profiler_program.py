"""hearth-profiler for its users: what it prints, its exit codes, and one message for every mistake.

HEARTH_BUILD_DIR locates the program. Run by tests/run.sh.
"""
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ.get("HEARTH_BUILD_DIR")
MODEL = ROOT / "tests/data/arch/llama.gguf"  # random weights, trained with a context of 64, two layers
RELU = ROOT / "tests/data/relu/relu-5m-q8_0.gguf"
ISAS = ["scalar", "avx2", "avx-vnni", "avx512-vnni", "amx", "neon", "neon-dotprod", "neon-i8mm"]
pytestmark = pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")


def profiler(*arguments, **options):
    program = [str(pathlib.Path(BUILD) / "hearth-profiler"), *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, timeout=120, **options)


def bench(*arguments):
    return profiler("bench", "--prompt", 20, "--generate", 8, "--repeat", 1, "--threads", 1, *arguments)


def refused(done):
    """The message on stderr of a run that was refused."""
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    return done.stderr


def test_bench_json_has_its_keys():
    done = bench("--model", MODEL, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    result = json.loads(done.stdout)
    for key in ("prefill_tokens_per_s", "decode_tokens_per_s", "decode_bytes_per_token",
                "read_bandwidth_bytes_per_s", "quiet_read_bandwidth_bytes_per_s", "share_of_bound"):
        assert result[key] > 0, key
    assert result["threads"] == 1


def test_bench_prints_text():
    done = bench("--model", MODEL)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("CUDA: ") and "running on the CPU" in done.stdout.splitlines()[0]
    for word in ("prefill", "decode", "GB/s", "tokens/s"):
        assert word in done.stdout


def bench_of_forms(*arguments):
    return profiler("bench", "--model", RELU, "--generate", 8, "--repeat", 1, "--threads", 1, "--slots", 2,
                    *arguments)


def test_bench_of_constraints_has_a_line_for_every_form(tmp_path):
    schema = tmp_path / "small.json"
    schema.write_text('{"enum": ["yes", "no"]}')
    done = bench_of_forms("--schema", schema)
    assert done.returncode == 0, done.stderr
    for name in ("free text", "any JSON object", "flat record", "nested arrays", "regular expression",
                 "small.json"):
        assert re.search(rf"^{re.escape(name)} +[0-9.]+", done.stdout, re.MULTILINE), (name, done.stdout)
    forms = json.loads(bench_of_forms("--schema", "--json").stdout)["forms"]
    assert len(forms) == 6 and forms[1]["compile_ms"] > 0


def test_bench_of_a_schema_that_cannot_be_enforced_names_file_and_place(tmp_path):
    schema = tmp_path / "bad.json"
    schema.write_text('{"properties": {"a": {"if": true}}}')
    done = bench_of_forms("--schema", schema)
    assert done.returncode != 0
    assert "bad.json" in done.stderr and "#/properties/a/if" in done.stderr
    assert done.stdout == ""


def bench_of_drafts(*arguments):
    return profiler("bench", "--model", RELU, "--generate", 40, "--repeat", 2, "--threads", 1, *arguments)


@pytest.mark.parametrize("arguments",
                         [["--speculate", "auto", "--temperature", 0.5], ["--draft-model", RELU]])
def test_bench_of_drafts_has_a_line_for_each_text(arguments):
    done = bench_of_drafts(*arguments)
    assert done.returncode == 0, done.stderr
    for name in ("copy", "story"):
        assert re.search(rf"^{name} +[0-9.]+ tokens/s with drafts, +[0-9.]+ without", done.stdout,
                         re.MULTILINE), done.stdout
    texts = json.loads(bench_of_drafts(*arguments, "--json").stdout)["texts"]
    assert [text["text"] for text in texts] == ["copy", "story"]
    assert all(text["tokens_per_s"] > 0 and 0 <= text["accepted_tokens"] <= text["drafted_tokens"]
               for text in texts)


def test_bench_of_drafts_refuses_another_vocabulary():
    assert "vocabulary" in refused(bench_of_drafts("--draft-model", MODEL))


def test_perplexity_of_a_text(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("Some text of no great length. " * 8)
    done = profiler("perplexity", "--model", MODEL, "--file", text, "--window", 32, "--threads", 1)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # there is no terminal, so there is no progress line
    match = re.match(
        r"perplexity (\d+\.\d+) \+/- (\d+\.\d+)  \((\d+) windows of 32 tokens, (\d+) tokens scored",
        done.stdout)
    assert match, done.stdout
    assert int(match[4]) == int(match[3]) * 15


@pytest.mark.parametrize("isa", ISAS)
def test_isa_runs_or_is_refused_with_those_that_do(isa):
    done = bench("--model", MODEL, "--isa", isa)
    if done.returncode == 0:
        assert f"CPU {isa}," in done.stdout
    else:
        assert isa in refused(done) and "it can run " in done.stderr and "scalar" in done.stderr


def test_unknown_isa():
    assert "avx512-vnni" in refused(bench("--model", MODEL, "--isa", "sse2"))


def test_no_arguments():
    assert "subcommand" in refused(profiler())


def test_unknown_subcommand():
    assert "polish" in refused(profiler("polish"))
    assert "did you mean report?" in refused(profiler("reprot", "--model", MODEL))


def test_help_is_readable():
    done = profiler("--help")
    assert done.returncode == 0 and done.stderr == ""
    assert "bench" in done.stdout and "perplexity" in done.stdout
    for command, words in (("bench", ["--model", "--prompt", "--generate", "--threads", "--json", "--isa"]),
                           ("perplexity", ["--model", "--file", "--window", "--threads", "--isa"])):
        done = profiler(command, "--help")
        assert done.returncode == 0 and done.stderr == ""
        for word in words:
            assert word in done.stdout
    subcommands = re.findall(r"(?m)^  ([a-z-]+) ", profiler("--help").stdout.split("Subcommands:")[1])
    assert len(subcommands) >= 9
    for command in subcommands:
        lines = profiler(command, "--help").stdout.splitlines()
        assert max(map(len, lines)) <= 120, (command, max(lines, key=len))


@pytest.mark.skipif(not BUILD or not (pathlib.Path(BUILD) / "hearthd").exists(),
                    reason="hearthd is not built")
def test_options_that_hearthd_has_too_have_its_default_and_its_words():
    page = subprocess.run([pathlib.Path(BUILD) / "hearthd", "--help-markdown"], capture_output=True,
                          text=True).stdout
    rows = {}  # for hearthd: name -> (value, default)
    for line in page.splitlines():
        if row := re.match(r"\| `--([a-z-]+)`<br>`[A-Z_]+` \| (.*?) \| (.*?) \|", line):
            rows[row[1]] = row[2], row[3]
    assert len(rows) > 20
    seen = set()
    for command in re.findall(r"(?m)^  ([a-z-]+) ", profiler("--help").stdout.split("Subcommands:")[1]):
        help_ = profiler(command, "--help").stdout
        for entry in re.split(r"(?m)^  (?=-)", help_)[1:]:
            # CLI11 writes a default as "=0" or, in newer versions, as "[0]".
            name, before, after = re.match(r"(?:-\w, *)?--([a-z-]+)(?: [A-Z|]+(?:=(\S+)| \[(\S+)\])?)?",
                                           entry).groups()
            value = before or after
            if name not in rows or name in ("help", "version"):
                continue
            takes, default = rows[name]
            shown = {None: "not given"}.get(value, value)
            # A model has no default, and plan and report compare all modes unless an option chooses one.
            if (command, name) not in {("plan", "sparsity"), ("report", "sparsity")}:
                assert shown == default, (command, name)
            words = " ".join(entry.split())
            assert not takes.startswith("one of") or takes in words, (command, name, takes)
            if takes.startswith("a whole number"):
                low, high = map(int, re.findall(r"-?\d+", takes))
                for bad in (low - 1, high + 1):
                    assert f"expected {takes}" in profiler(command, f"--{name}", bad).stderr, (command, name)
            seen.add(name)
    assert {"model", "threads", "isa", "device", "vram-budget", "ram-budget", "sparsity", "context",
            "slots"} <= seen


def test_version():
    done = profiler("--version")
    assert done.returncode == 0 and re.fullmatch(r"hearth-profiler \d+\.\d+\.\S+\n", done.stdout)


def test_files_that_are_no_text_are_refused_by_name(tmp_path):
    (tmp_path / "empty").touch()
    for path, words in [(tmp_path, "it is a folder"), (tmp_path / "empty", "it is empty"),
                        (tmp_path / "absent", "it cannot be read")]:
        said = refused(profiler("perplexity", "--model", RELU, "--file", path))
        assert words in said and path.name in said and "give --file another file" in said
    endless = profiler("plan", "--model", RELU, "--machine", "rtx4090", "--activity", "/dev/zero")
    assert "more than 1 GiB" in refused(endless)


def test_missing_options():
    assert "--model" in refused(profiler("bench"))
    assert "--file" in refused(profiler("perplexity", "--model", MODEL))


def test_unknown_option():
    assert "--modle" in refused(profiler("bench", "--modle", MODEL))


@pytest.mark.parametrize("option", ["--prompt", "--generate", "--repeat", "--threads", "--prefill-chunk"])
@pytest.mark.parametrize("value", ["-1", "x", "99999999999999999999", "1.5"])
def test_bad_numbers(option, value):
    assert option in refused(profiler("bench", "--model", MODEL, option, value))


def emulated(*arguments):
    """bench on an emulated GPU, 6.4 MB of which hold the model except for a quarter of its neurons."""
    program = [str(pathlib.Path(BUILD) / "tests/hearth_profiler_emulated"), "bench", "--model", str(RELU),
               "--prompt", "4", "--generate", "2", "--repeat", "1", "--threads", "1", "--prefill-chunk", "4",
               "--vram-budget", "0.006", *map(str, arguments)]
    environment = {**os.environ, "CUDAEMU_VRAM_MB": "256"}
    return subprocess.run(program, capture_output=True, text=True, timeout=120, env=environment)


@pytest.mark.skipif(not BUILD or not (pathlib.Path(BUILD) / "tests/hearth_profiler_emulated").exists(),
                    reason="hearth_profiler_emulated is not built")
def test_bench_on_an_emulated_gpu():
    done = emulated("--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["device"] == "GPU" and result["backend"].startswith("CUDA ")
    for kind in ("ram", "vram", "pcie"):
        assert result["bandwidth_bytes_per_s"][kind] > 0
    plan, read = result["plan"], result["token_bytes"]
    parts = plan["device_bytes"]
    assert parts["total"] == sum(parts.values()) - parts["total"] <= plan["budget_bytes"] == int(
        0.006 * 2**30)
    assert read["device_whole"] > 0 and read["device_neurons"] > 0 and read["cold_neurons"] > 0
    assert sum(read.values()) == pytest.approx(result["decode_bytes_per_token"])
    assert 0 < result["share_of_bound"] < 1
    said = emulated().stdout
    for word in ("CUDA: emulated", "of PCIe", "plan     GPU: ", "of cold neurons"):
        assert word in said, said
    assert json.loads(emulated("--json", "--device", "cpu").stdout)["device"] == "CPU"


def kernels(*arguments, program="tests/hearth_profiler_emulated", **environment):
    return subprocess.run([str(pathlib.Path(BUILD) / program), "bench", "--kernels", *arguments],
                          capture_output=True, text=True, timeout=120, env={**os.environ, **environment})


@pytest.mark.skipif(not BUILD or not (pathlib.Path(BUILD) / "tests/hearth_profiler_emulated").exists(),
                    reason="hearth_profiler_emulated is not built")
def test_kernels_are_timed_on_an_emulated_gpu(tmp_path):
    small = ["--shape", "tiny", "--type", "q4_0", "--prompt", "2", "--repeat", "1"]
    # the folder for the machine's figures
    cache = {"XDG_CACHE_HOME": str(tmp_path), "CUDAEMU_VRAM_MB": "256"}
    done = kernels(*small, "--json", **cache)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["gpu"] == "emulated" and not result["simulated"] and result["instructions_per_s"] > 0
    assert {k["type"] for k in result["kernels"]} == {"Q4_0", None}
    for kernel in result["kernels"]:
        assert kernel["seconds"] > 0 and kernel["bound_seconds"] > 0, kernel
        assert kernel["share_of_bound"] == pytest.approx(kernel["bound_seconds"] / kernel["seconds"])
    matmul = next(k for k in result["kernels"] if k["kernel"] == "matmul" and k["tokens"] == 1)
    assert matmul["size"] == "1024 x 256" and matmul["bytes"] > 1024 * 256 * 4.5 / 8
    said = kernels(*small, **cache).stdout
    assert "emulated: " in said and "of bound" in said and "gather_bundles" in said
    assert "no NVIDIA GPU" in refused(kernels(*small, CUDAEMU_DEVICES="0"))
    assert "--type" in refused(kernels("--shape", "tiny", "--type", "mxfp4", **cache))
    assert "no shape \"ouch\"" in refused(kernels("--shape", "ouch", **cache))
    assert "--model" in refused(kernels("--model", str(MODEL)))


@pytest.mark.skipif(not BUILD or not (pathlib.Path(BUILD) / "hearth-simulator").exists(),
                    reason="hearth-simulator is not built")
def test_kernels_are_simulated():
    done = kernels("--simulate", "rtx4090", "--shape", "7b", "--type", "q4_0",
                   "--json", program="hearth-profiler")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["simulated"] and "4090" in result["gpu"]
    matmul = next(k for k in result["kernels"] if k["kernel"] == "matmul" and k["tokens"] == 1)
    # only the cost of a launch is missing
    assert matmul["bound_by"] == "memory" and 0.5 < matmul["share_of_bound"] < 1
    gather = next(k for k in result["kernels"] if k["kernel"] == "gather_bundles")
    assert gather["bound_by"] == "PCIe"


@pytest.mark.skipif(not BUILD or not (pathlib.Path(BUILD) / "tests/hearth_profiler_emulated").exists(),
                    reason="hearth_profiler_emulated is not built")
def test_activations_of_8_bits_are_not_measured_on_a_gpu():
    said = refused(emulated("--activation-bits", "8", "--device", "cuda"))
    assert "--activation-bits 8 runs on the CPU only; take --device auto or cpu." in said
    done = emulated("--activation-bits", "8", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["device"] == "CPU"


def test_an_encoder_has_no_next_token_to_measure(tmp_path):
    encoder = ROOT / "tests/data/arch/bert.gguf"
    text = tmp_path / "text.txt"
    text.write_text("a b c d e f g h " * 100)
    for ask in (["perplexity", "--file", text, "--window", "32"],
                ["bench", "--prompt", "16", "--generate", "8"],
                ["count", "--ffn-activation", "relu", "--text", text]):
        said = refused(profiler(*ask, "--model", encoder))
        assert "is an encoder, which embeds texts and gives no next token" in said, said
    assert "it is an encoder" in refused(profiler("plan", "--model", encoder))


@pytest.mark.parametrize("option", ["--vram-budget", "--ram-budget"])
@pytest.mark.parametrize("value", ["0", "-1", "x", "nan", "inf", "1e9"])
def test_bad_budgets(option, value):
    said = refused(profiler("bench", "--model", MODEL, option, value))
    assert option in said and "auto" in said and value in said


@pytest.mark.parametrize("option", ["--device", "--split"])
def test_bad_names(option):
    assert option in refused(profiler("bench", "--model", MODEL, option, "both"))


def test_trace(tmp_path):
    trace = tmp_path / "trace.json"
    assert bench("--model", MODEL, "--trace", trace, "--vram-budget", "auto",
                 "--ram-budget", "2").returncode == 0
    assert "traceEvents" in json.loads(trace.read_text())
    said = refused(bench("--model", MODEL, "--trace", tmp_path))
    assert str(tmp_path) in said and "cannot be written" in said


def test_bad_models(tmp_path):
    (tmp_path / "empty.gguf").write_bytes(b"")
    (tmp_path / "text.gguf").write_text("This is no model.\n" * 40)
    (tmp_path / "cut.gguf").write_bytes(MODEL.read_bytes()[:5000])
    for path in (tmp_path / "absent.gguf", tmp_path,
                 *(tmp_path / f"{n}.gguf" for n in ("empty", "text", "cut"))):
        said = refused(bench("--model", path))
        assert said.startswith("hearth-profiler: ") and str(path) in said
        assert said.count("\n") == 1, said


def test_context_beyond_the_model():
    said = refused(profiler("bench", "--model", MODEL, "--prompt", 60, "--generate", 5))
    assert "65 tokens" in said and "trained on 64" in said
    assert "trained on 64" in refused(profiler("perplexity", "--model", MODEL, "--file", __file__,
                                               "--window", 65))


def test_bad_texts(tmp_path):
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "short.txt").write_text("Too short.")
    for path in (tmp_path / "absent.txt", tmp_path, tmp_path / "empty.txt"):
        said = refused(profiler("perplexity", "--model", MODEL, "--file", path, "--window", 32))
        assert str(path) in said
    said = refused(profiler("perplexity", "--model", MODEL, "--file", tmp_path / "short.txt", "--window", 32))
    assert "fewer than one window of 32" in said


def test_text_of_any_bytes(tmp_path):
    (tmp_path / "bytes.txt").write_bytes(bytes(range(256)))
    done = profiler("perplexity", "--model", MODEL, "--file", tmp_path / "bytes.txt", "--window", 32)
    assert done.returncode == 0, done.stderr


def test_result_that_cannot_be_written():
    with open("/dev/full", "w") as full:
        program = [str(pathlib.Path(BUILD) / "hearth-profiler"),
                   "bench", "--model", str(MODEL), "--prompt", "4",
                   "--generate", "4", "--repeat", "1", "--threads", "1"]
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 2
    assert "could not be written" in done.stderr


def read_until(terminal, wanted, seconds=60):
    """Reads from a terminal until `wanted` appears, or until the other side has closed it."""
    seen = b""
    end = time.monotonic() + seconds
    while wanted not in seen and time.monotonic() < end:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            more = os.read(terminal, 4096)
        except OSError:  # Linux reports in this way that the other side is closed
            break
        if not more:
            break
        seen += more
    return seen


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_progress_on_a_terminal_and_a_signal_that_ends_it(number):
    terminal, other = pty.openpty()
    program = [str(pathlib.Path(BUILD) / "hearth-profiler"), "bench", "--model", str(RELU), "--prompt", "200",
               "--generate", "300", "--repeat", "1000", "--threads", "1"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=other) as process:
        os.close(other)
        try:
            seen = read_until(terminal, b" left")
            assert b"Measuring" in seen and b" %" in seen, seen
            process.send_signal(number)
            seen = read_until(terminal, b"interrupted.")
            assert b"\r\x1b[Khearth-profiler: interrupted." in seen
            assert process.wait(timeout=60) == 128 + number
            assert process.stdout.read() == b""
        finally:
            process.kill()
            os.close(terminal)
