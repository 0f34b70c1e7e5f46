"""hearth-profiler count for its users: what it writes and prints, how it is interrupted and continues, what
it refuses, and that hearthd gathers activity while it serves.

HEARTH_BUILD_DIR locates the programs. Run by tests/run.sh.
"""
import csv
import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import time
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ.get("HEARTH_BUILD_DIR")
RELU = ROOT / "tests/data/relu/relu-5m-q8_0.gguf"
SILU = ROOT / "tests/data/arch/llama.gguf"
pytestmark = pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")


def program(*arguments):
    return [str(pathlib.Path(BUILD) / "hearth-profiler"), "count", *map(str, arguments)]


@pytest.fixture
def home(tmp_path):
    """A cache folder of the test's own."""
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"The {i * i} boats of harbour {i} came in {i % 7} days late.\n"
                            for i in range(100)))
    return path


def count(home, *arguments, **options):
    options = {"capture_output": True, "text": True, "timeout": 300, "env": home, **options}
    return subprocess.run(program("--threads", 1, *arguments), **options)


def refused(done):
    """The message on stderr of a run that was refused."""
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def read(path):
    """The activity file, read only by the description in engine/activity/activity_file.h."""
    data = pathlib.Path(path).read_bytes()
    assert hashlib.sha256(data[:-32]).digest() == data[-32:]
    at = 0

    def take(n):
        nonlocal at
        at += n
        return data[at - n:at]

    def number():
        value, shift = 0, 0
        while True:
            byte, = take(1)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    assert take(4) == b"HACT" and struct.unpack("<I", take(4)) == (1,)
    n_layers, d_model, d_ff = struct.unpack("<3I", take(12))
    found = {"shape": (n_layers, d_model, d_ff),
             "content": take(32).hex(), "activation": take(number()).decode(),
             "name": take(number()).decode(), "texts": [take(32).hex() for _ in range(number())]}
    found["sizes"] = struct.unpack(f"<{n_layers * d_ff}f", take(4 * n_layers * d_ff)) if number() else None
    for source in ("prompts", "generated", "served"):
        tokens, pairs = number(), number()
        rows = [[[number() for _ in range(d_ff)] for _ in range(3)] for _ in range(n_layers if tokens else 0)]
        found[source] = {"tokens": tokens, "pairs": pairs, "active": [r[0] for r in rows],
                         "again": [r[1] for r in rows], "values": [r[2] for r in rows]}
    assert at == len(data) - 32
    return found


def test_a_text_is_counted_reported_and_kept(home, text, tmp_path):
    done = count(home, "--model", RELU, "--text", text, "--no-prompts", "--generate", 8,
                 "--csv", tmp_path / "a.csv")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # there is no terminal, so there is no progress line
    written = pathlib.Path(re.search(r"written +(\S+)", done.stdout)[1])
    assert written.parent == tmp_path / "cache/hearth"
    found = read(written)
    assert found["shape"] == (4, 256, 1024) or found["shape"][0] == 4
    assert found["activation"] == "relu"
    told = re.search(r"counted +(\S+) prompt tokens, (\S+) generated, of (\d+) texts", done.stdout)
    assert int(told[1].replace(",", "")) == found["prompts"]["tokens"] > 1000
    assert int(told[2].replace(",", "")) == found["generated"]["tokens"]
    assert int(told[3]) == len(found["texts"]) > 2
    # The windows' hashes are those of the text's pieces.
    rest, n = text.read_bytes(), 0
    while rest:
        end = rest.rfind(b"\n", 0, 1536) + 1
        assert hashlib.sha256(rest[:end]).hexdigest() in found["texts"]
        rest, n = rest[end:], n + 1
    assert n == len(found["texts"])
    for source in ("prompts", "generated"):
        for active, again, values in zip(*(found[source][key] for key in ("active", "again", "values"))):
            assert max(active) <= found[source]["tokens"]
            assert all(b <= a for a, b in zip(active, again))
            assert all(v == 0 for a, v in zip(active, values) if a == 0)
    assert found["served"]["tokens"] == 0
    rows = [row for row in csv.reader((tmp_path / "a.csv").read_text().splitlines()) if row[0].isdigit()]
    assert len(rows) == 4 * 1024
    for layer, neuron, n in (map(int, row) for row in rows[::97]):
        assert n == found["prompts"]["active"][layer][neuron] + found["generated"]["active"][layer][neuron]
    # A second run counts nothing twice.
    again = count(home, "--model", RELU, "--text", text, "--no-prompts", "--generate", 8)
    assert again.returncode == 0 and "counted before" in again.stdout
    assert read(written) == found


def test_without_a_text_the_built_in_prompts_are_counted(home, tmp_path):
    done = count(home, "--model", RELU, "--generate", 4, "--out", tmp_path / "a", "--tokens", 500)
    assert done.returncode == 0, done.stderr
    few = read(tmp_path / "a")
    assert 500 <= few["prompts"]["tokens"] + few["generated"]["tokens"] < 1200
    done = count(home, "--model", RELU, "--generate", 4, "--out", tmp_path / "a")
    assert done.returncode == 0 and "passed over" in done.stdout
    found = read(tmp_path / "a")
    assert len(found["texts"]) >= 100
    prompts = (ROOT / "profiler/activity/prompts/prose.txt").read_text().split("\n%%\n")
    assert all(hashlib.sha256(p.rstrip("\n").encode()).hexdigest() in found["texts"] for p in prompts)
    assert not (tmp_path / "cache").exists() or not list((tmp_path / "cache").rglob("*.activity"))


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_and_resumed_is_as_if_never_interrupted(home, tmp_path, stop):
    arguments = ["--model", RELU, "--generate", 16, "--tokens", 6000]
    assert count(home, *arguments, "--out", tmp_path / "whole").returncode == 0
    n_stopped = 0
    for attempt in range(60):
        run = subprocess.Popen(program("--threads", 1, *arguments, "--out", tmp_path / "pieces"), env=home,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        before = (tmp_path / "pieces").stat().st_mtime_ns if (tmp_path / "pieces").exists() else None
        while run.poll() is None:  # until it has begun to count
            if (tmp_path / "pieces").exists() and (tmp_path / "pieces").stat().st_mtime_ns != before:
                break
            time.sleep(0.002)
        # by the clock: a little longer each time, so that it gets to its end on any machine
        time.sleep(0.05 * (attempt + 1))
        run.send_signal(stop)
        out, err = run.communicate(timeout=60)
        if run.returncode == 0:
            break
        assert run.returncode == 128 + stop, (out, err)
        if out:
            assert "interrupted" in out and "Run it again to continue." in out
            n_stopped += 1
    else:
        pytest.fail("it never came to its end")
    assert n_stopped > 0
    assert (tmp_path / "pieces").read_bytes() == (tmp_path / "whole").read_bytes()


def test_bad_texts(home, tmp_path):
    def refuse(data):
        path = tmp_path / "text"
        path.write_bytes(data)
        said = refused(count(home, "--model", RELU, "--text", path))
        assert str(path) in said
        return said

    assert "is empty" in refuse(b"")
    assert "not UTF-8 text: byte 0x00" in refuse(b"\x7fELF\2\1\1\0\0\0")
    assert "byte 0xE9 at 3" in refuse(b"caf\xe9")
    assert "cannot be read" in refused(count(home, "--model", RELU, "--text", tmp_path / "absent"))
    assert "is a folder" in refused(count(home, "--model", RELU, "--text", tmp_path))
    assert "--no-prompts leaves nothing" in refused(count(home, "--model", RELU, "--no-prompts"))


def test_damage_deep_in_a_text_loses_nothing(home, tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"All is well here, and goes on being so. " * 4000 + b"\xff")
    done = count(home, "--model", RELU, "--text", path, "--no-prompts", "--generate", 0,
                 "--out", tmp_path / "a")
    assert done.returncode == 2 and "byte 0xFF at 160,000" in done.stderr
    assert len(read(tmp_path / "a")["texts"]) >= 1


def test_a_huge_text_is_read_as_far_as_asked(home, tmp_path):
    path = tmp_path / "text"
    with open(path, "wb") as file:
        file.write(b"".join(b"Line %d of a very long text.\n" % i for i in range(3000)))
        file.truncate(8 << 30)  # zeros are no text, and must never be reached
    done = count(home, "--model", RELU, "--text", path, "--no-prompts", "--generate", 0, "--tokens", 1000,
                 "--out", tmp_path / "a")
    assert done.returncode == 0, done.stderr
    assert 1000 <= read(tmp_path / "a")["prompts"]["tokens"] < 3000


def test_only_mixtures_are_traced(home, text, tmp_path):
    done = count(home, "--model", RELU, "--text", text, "--no-prompts", "--trace", tmp_path / "t")
    assert done.returncode == 2 and "no experts to trace" in done.stderr


def test_models_without_sparse_neurons_are_reported(home, text):
    said = refused(count(home, "--model", SILU, "--text", text))
    assert str(SILU) in said and "silu, has no zeros" in said
    said = refused(count(home, "--model", RELU, "--text", text, "--sparsity", "dense"))
    assert "computes all neurons" in said


def test_places_that_cannot_be_written(home, text, tmp_path):
    assert "a file cannot be made beside it" in refused(
        count(home, "--model", RELU, "--text", text, "--out", tmp_path / "none/a.activity"))
    assert "it is a folder" in refused(count(home, "--model", RELU, "--text", text, "--out", tmp_path))
    before = text.read_bytes()
    assert "not an activity file" in refused(count(home, "--model", RELU, "--text", text, "--out", text))
    assert text.read_bytes() == before
    no_home = {key: value for key, value in home.items() if key not in ("HOME", "XDG_CACHE_HOME")}
    said = refused(count(no_home, "--model", RELU, "--text", text))
    assert "no folder to keep the activity in" in said and "--out" in said


def test_a_full_disk_leaves_what_was_counted_before(home, text, tmp_path):
    out = tmp_path / "a.activity"
    done = count(home, "--model", RELU, "--text", text, "--no-prompts", "--tokens", 100, "--generate", 0,
                 "--out", out)
    assert done.returncode == 0
    before = out.read_bytes()

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, len(before) // 2))

    said = refused(count(home, "--model", RELU, "--text", text, "--no-prompts", "--out", out,
                         preexec_fn=small_files))
    assert str(out) in said and "is unchanged" in said
    assert out.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("a.activity")] == ["a.activity"]


def test_damaged_and_foreign_files_in_the_cache_are_begun_anew(home, text, tmp_path):
    arguments = ("--model", RELU, "--text", text, "--no-prompts", "--generate", 0)
    written = pathlib.Path(re.search(r"written +(\S+)", count(home, *arguments).stdout)[1])
    found = read(written)
    written.write_bytes(written.read_bytes()[:-1])
    done = count(home, *arguments)
    assert done.returncode == 0
    assert "cut short" in done.stderr and "counting starts over" in done.stderr
    assert read(written) == found
    assert pathlib.Path(f"{written}.old").exists()


@pytest.fixture
def counted(home, tmp_path):
    """Counts texts of some lines each into a file of that name."""
    def run(name, *texts):
        files = []
        for number in texts:
            files.append(tmp_path / f"text-{number}.txt")
            files[-1].write_text(
                "".join(f"Ship {number} had {i * number} sails on day {i}.\n" for i in range(8)))
        done = count(home, "--model", RELU, "--no-prompts", "--generate", 4, "--out", tmp_path / name,
                     "--text", *files)
        assert done.returncode == 0, done.stderr
        return tmp_path / name

    return run


def test_files_counted_elsewhere_are_merged(home, counted, tmp_path):
    one, two, both = counted("one", 1), counted("two", 2), counted("both", 1, 2)
    before = one.read_bytes(), two.read_bytes()
    done = count(home, "--model", RELU, "--merge", one, two, "--out", tmp_path / "sum",
                 "--csv", tmp_path / "sum.csv")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert re.search(r"merged +2 files\n", done.stdout) and "hottest" in done.stdout
    assert (tmp_path / "sum").read_bytes() == both.read_bytes()  # equals what one run would have counted
    assert (one.read_bytes(), two.read_bytes()) == before
    assert (tmp_path / "sum.csv").read_text().count("\n") > 4 * 1024
    # Texts that both files contain count once.
    done = count(home, "--model", RELU, "--merge", one, "--out", both)
    assert done.returncode == 0
    assert both.read_bytes() == (tmp_path / "sum").read_bytes()
    # Without --out, it writes the model's own file, where hearthd finds it.
    done = count(home, "--model", RELU, "--merge", two)
    kept, = (tmp_path / "cache/hearth").glob("*.activity")
    assert done.returncode == 0 and kept.read_bytes() == two.read_bytes()


def test_powerinfers_counts_are_imported(home, counted, tmp_path):
    folder = ROOT / "tests/data/relu/activation"
    done = count(home, "--model", RELU, "--import", folder, "--csv", tmp_path / "counts.csv")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert (re.search(r"imported +4 layers from ", done.stdout)
            and "PowerInfer's files do not state it" in done.stdout)
    kept, = (tmp_path / "cache/hearth").glob("*.activity")  # where hearthd finds it
    rows = [line for line in (tmp_path / "counts.csv").read_text().splitlines() if line[0].isdigit()]
    expected = [line for line in (ROOT / "tests/data/relu/activity.csv").read_text().splitlines()
                if line[0].isdigit()]
    assert rows == expected
    # Importing again adds nothing.
    before = kept.read_bytes()
    assert count(home, "--model", RELU, "--import", folder).returncode == 0
    assert kept.read_bytes() == before
    # Hearth's own counts are not mixed with imported ones.
    one = counted("one", 1)
    before = one.read_bytes()
    assert "says more than PowerInfer's" in refused(
        count(home, "--model", RELU, "--import", folder, "--out", one))
    assert one.read_bytes() == before
    assert "it holds no activation counts" in refused(count(home, "--model", RELU, "--import", tmp_path))
    both = count(home, "--model", RELU, "--import", folder, "--merge", one)
    assert both.returncode == 2 and "--merge excludes --import" in both.stderr


def test_counts_that_must_not_be_merged_are_refused_entirely(home, counted, tmp_path):
    one, two, other = counted("one", 1), counted("two", 1, 2), counted("other", 1, 3)
    before = one.read_bytes()

    def refuse(*files, model=RELU):
        said = refused(count(home, "--model", model, "--merge", *files, "--out", one))
        assert one.read_bytes() == before
        assert list(tmp_path.glob("one.*")) == []
        return said

    damaged = tmp_path / "damaged"
    damaged.write_bytes(two.read_bytes()[:-1])
    said = refuse(two, damaged)
    assert str(damaged) in said and "cut short" in said
    damaged.write_bytes(b"")
    assert str(damaged) in refuse(damaged)
    assert "not an activity file" in refuse(RELU)
    absent = refuse(tmp_path / "absent")
    assert str(tmp_path / "absent") in absent
    assert str(tmp_path) in refuse(tmp_path)
    assert "added twice" in refuse(two, two)
    assert "added twice" in refuse(one)
    said = refuse(two, other)  # they share text 1, and each has a text that the other lacks
    assert str(other) in said and "would be counted twice" in said
    said = refused(count(home, "--model", ROOT / "tests/data/arch/relu-llama.gguf", "--merge", one))
    assert str(one) in said and "another model" in said
    assert "excludes" in count(home, "--model", RELU, "--merge", two, "--tokens", 5).stderr


def test_bench_reports_the_cost_of_counting(home):
    bench = [str(pathlib.Path(BUILD) / "hearth-profiler"), "bench", "--prompt", "8", "--generate", "16",
             "--repeat", "1", "--threads", "1", "--activity", "--device", "cpu", "--model"]
    done = subprocess.run([*bench, RELU], capture_output=True, text=True, timeout=120, env=home)
    assert done.returncode == 0, done.stderr
    assert re.search(r"counting +[+-]\S+ % of a step's time", done.stdout)
    said = refused(subprocess.run([*bench, SILU], capture_output=True, text=True, timeout=120, env=home))
    assert "computes all neurons" in said


def listening(daemon, log):
    """The port of a server that is ready."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        found = re.search(r"listening on http://[^ ]*:(\d+)", log.read_text())
        if found and re.search(r"\bready\b", log.read_text()):
            return int(found[1])
        assert daemon.poll() is None, log.read_text()
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def complete(port):
    body = json.dumps({"prompt": "Once upon a time", "max_tokens": 64, "temperature": 0,
                       "ignore_eos": True}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body,
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        answer = json.load(answer)
    assert answer["usage"]["completion_tokens"] == 64
    return answer


@pytest.fixture
def serve(home, tmp_path):
    """Serves n requests with or without counting activity; returns the log and the answers."""
    model = tmp_path / "m.gguf"
    shutil.copy(ROOT / "tests/data/relu/relu-5m-q4_0.powerinfer.gguf", model)

    def run(n_requests, *arguments, env=home):
        log = tmp_path / "log"
        with open(log, "w") as err:
            daemon = subprocess.Popen(
                [str(pathlib.Path(BUILD) / "hearthd"), "--model", str(model), "--port", "0",
                 "--threads", "1", "--context", "256", "--device", "cpu", *map(str, arguments)],
                env=env, stdin=subprocess.DEVNULL, stdout=err, stderr=err)
        try:
            port = listening(daemon, log)
            answers = [complete(port) for _ in range(n_requests)]
        finally:
            daemon.send_signal(signal.SIGTERM)
            code = daemon.wait(timeout=120)
        assert code == 0, log.read_text()
        return log.read_text(), answers

    return run


def test_hearthd_counts_while_it_serves_and_lays_out_by_it(serve, tmp_path):
    log, answers = serve(2, "--profile", "online")
    file, = (tmp_path / "cache/hearth").glob("*.activity")
    served = read(file)["served"]
    # One in eight of some 126 decoded tokens is counted.
    assert 8 <= served["tokens"] <= 32, log
    assert served["pairs"] > 0
    assert re.search(r"counted_tokens\W+%d\b" % served["tokens"], log), log
    log, again = serve(1, "--profile", "online")
    assert "activity of 4 layers from " in log and str(file) in log
    assert read(file)["served"]["tokens"] > served["tokens"]
    # Neurons are in another order, so sums are rounded differently, and the fingerprint differs.
    assert again[0]["system_fingerprint"] != answers[0]["system_fingerprint"]


def test_hearthd_counts_a_mixtures_experts_too(serve, tmp_path):
    made = subprocess.run([str(pathlib.Path(BUILD) / "hearth-profiler"), "synth",
                           "--shape", "tiny-moe", "--force", "--out",
                           tmp_path / "m.gguf"], timeout=120)
    assert made.returncode == 0
    log, answers = serve(1, "--profile", "online")
    file, = (tmp_path / "cache/hearth").glob("*.activity")
    assert struct.unpack_from("<I", file.read_bytes(), 4) == (2,)  # experts
    assert re.search(r"counted_tokens\W+[1-9]", log), log
    _, again = serve(1, "--profile", "online")  # counts of experts move no neurons
    assert again[0]["choices"] == answers[0]["choices"]


def test_hearthd_counts_nothing_by_default(serve, tmp_path):
    log, _ = serve(1)
    assert "counted_tokens" not in log
    assert not list((tmp_path / "cache").rglob("*.activity"))


def test_hearthd_serves_where_nothing_can_be_kept(serve, home):
    no_home = {key: value for key, value in home.items() if key not in ("HOME", "XDG_CACHE_HOME")}
    log, _ = serve(1, "--profile", "online", env=no_home)
    assert "there is no cache folder to keep it in" in log
    log, _ = serve(1, "--profile", "online", "--ffn-activation", "relu", "--sparsity", "exact",
                   env={**home, "XDG_CACHE_HOME": "/proc/none"})
    assert "there is no cache folder to keep it in" in log


def test_a_mixtures_experts_are_counted_planned_and_shown(home, text, tmp_path):
    model = tmp_path / "moe.gguf"
    profiler = str(pathlib.Path(BUILD) / "hearth-profiler")

    def run(*arguments):
        return subprocess.run([profiler, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                              env=home)

    assert run("synth", "--shape", "tiny-moe", "--out", model).returncode == 0
    counted, table, page = tmp_path / "moe.activity", tmp_path / "moe.csv", tmp_path / "moe.html"
    trace = tmp_path / "moe.trace"
    done = run("count", "--model", model, "--out", counted, "--csv", table, "--tokens", 2500,
               "--trace", trace)
    assert done.returncode == 0, done.stderr
    assert re.search(r"traced +\S+moe.trace: 2,[5-9]\d\d tokens of \d+ sequences", done.stdout), done.stdout
    assert trace.read_bytes()[:8] == b"HTRC\1\0\0\0"
    for word in ("used again, %", "hottest 1/4, %", "reuse", "caught", "of each layer's 16", "read, a layer"):
        assert word in done.stdout, done.stdout
    # As planted, and a bit more, because texts repeat tokens.
    reuse = float(done.stdout.split("reuse")[1].split("%")[0])
    assert 45 < reuse < 62
    assert "layer,expert,count" in table.read_text()
    planned = run("plan", "--model", model, "--machine", "rtx4090", "--activity", counted)
    assert planned.returncode == 0 and "as counted" in planned.stdout, planned.stderr
    refused = run("plan", "--model", model, "--machine", "rtx4090", "--activity", table)
    assert refused.returncode == 2 and "counts experts of a mixture" in refused.stderr
    done = run("report", "--model", model, "--activity", counted, "--machine", "rtx4090", "--out", page)
    assert done.returncode == 0, done.stderr
    shown = page.read_text()
    for title in ("Which experts are chosen", "How unevenly",
                  "Tokens that follow one another", "Memory"):
        assert f"<h2>{title}</h2>" in shown


@pytest.mark.parametrize("command, words", [
    (["calibrate", "--text", "TEXT"], "thresholds are found for neurons of whole FFNs only"),
    (["train-predictors", "--text", "TEXT", "--out", "OUT"],
     "whose routers already decide what a token computes"),
    (["perplexity", "--file", "TEXT", "--window", "32", "--activity", "OUT"], "take hearth-profiler count"),
    (["count", "--import", "FOLDER"], "leave --import out"),
    (["count", "--trace", "FOLDER"], "give --trace a file in it"),
])
def test_impossible_requests_for_mixtures_are_reported(home, text, tmp_path, command, words):
    model = tmp_path / "moe.gguf"
    profiler = str(pathlib.Path(BUILD) / "hearth-profiler")
    made = subprocess.run([profiler, "synth", "--shape", "tiny-moe-relu", "--out", model], timeout=120,
                          env=home)
    assert made.returncode == 0
    names = {"TEXT": text, "OUT": tmp_path / "out", "FOLDER": tmp_path}
    done = subprocess.run([profiler, command[0], "--model", model,
                           *(str(names.get(a, a)) for a in command[1:])],
                          capture_output=True, text=True, timeout=120, env=home)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr.splitlines()[-1]  # a note about loading may come before it
