"""The compared programs: how each is called for a column, and how its speed is read from its output.

`hearth-profiler bench` measures Hearth, and llama-bench, which both llama.cpp and ik_llama.cpp provide,
measures the others. All get the same file, run on the CPU, compute all neurons, and have the model in the
page cache. Used by compare.py.
"""
import dataclasses
import hashlib
import json
import pathlib
import shlex
import shutil
import statistics
import subprocess
import time

from comparison.machine import OtherPrograms

HEARTH = "hearth"
ISAS = {"native": "auto", "avx2": "avx2", "scalar": "scalar"}  # the tool's name: hearth-profiler's --isa
TIME_LIMIT_S = 1800  # per run; a column takes seconds to minutes


class ProgramError(Exception):
    """A program did not run, or its output lacks what it should contain. The message is a sentence without
    the program's name."""


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    isa: str
    command: tuple  # the program's path, then the user's options

    @property
    def is_hearth(self):
        return self.name == HEARTH

    @property
    def key(self):
        return f"{self.name}@{self.isa}"


def program_of(name, isa, command):
    """Throws ValueError with a sentence if there is no such program or instruction set."""
    if isa not in ISAS:
        raise ValueError(f"{isa!r} is no instruction set of this comparison; there are {', '.join(ISAS)}")
    words = shlex.split(command)
    path = shutil.which(words[0]) if words else None
    if path is None:
        raise ValueError(f"{command!r}: there is no such program, or it may not be executed")
    return Program(name, isa, (str(pathlib.Path(path).resolve()), *words[1:]))


def parse_peer(text):
    """Parses `NAME@ISA=COMMAND`. Throws ValueError with a message for the command line."""
    name_isa, equals, command = text.partition("=")
    name, at, isa = name_isa.rpartition("@")
    if not (equals and at and name):
        raise ValueError(f"{text!r}: write NAME@ISA=COMMAND, such as llama.cpp@native=bin/llama-bench")
    if name == HEARTH:
        raise ValueError(f"{text!r}: the name {HEARTH} is taken")
    return program_of(name, isa, command)


def fingerprint(program):
    """Identifies a build of a program: its command, and the hash of its file, without the libraries that it
    loads."""
    digest = hashlib.sha256(pathlib.Path(program.command[0]).read_bytes()).hexdigest()
    return {"command": shlex.join(program.command), "sha256": digest}


def arguments_of(program, model, column):
    """The command line that measures a column."""
    decodes = column.kind == "decode"
    path, *options = program.command
    if program.is_hearth:
        # bench always reads a prompt and then decodes; the part that is not measured is one token.
        n_prompt, n_generate = (1, column.n_tokens) if decodes else (column.n_tokens, 1)
        call = [path, "bench", "--device", "cpu", "--sparsity", "dense", "--isa", ISAS[program.isa],
                "--model", model, "--json"]
    else:
        n_prompt, n_generate = (0, column.n_tokens) if decodes else (column.n_tokens, 0)
        call = [path, "-ngl", "0", "-m", model, "-o", "json"]
    return [*map(str, call), "-p", str(n_prompt), "-n", str(n_generate), "-t", str(column.n_threads),
            "-r", str(column.repeats), *options]


def _json_from(output, opening):
    begin = output.find(opening)
    if begin < 0:
        raise ProgramError(f"it printed no JSON; its output begins with {output[:80]!r}")
    try:
        return json.loads(output[begin:])
    except json.JSONDecodeError as error:
        raise ProgramError(f"it printed damaged JSON: {error}") from error


def parse_hearth(output, column):
    """The fields of a record, from `hearth-profiler bench --json`."""
    found = _json_from(output, "{")
    try:
        return {"tokens_per_s": float(found[f"{column.kind}_tokens_per_s"]),
                "bytes_per_token": float(found["decode_bytes_per_token"]),
                "read_bytes_per_s": float(found["read_bandwidth_bytes_per_s"]),
                "build": str(found["backend"])}
    except (KeyError, TypeError, ValueError) as error:
        raise ProgramError(f"its JSON is not that of hearth-profiler bench: {error!r}") from error


def parse_llama_bench(output, column):
    """The fields of a record, from `llama-bench -o json`: a list of tests that must contain only this
    column's."""
    tests = _json_from(output, "[")
    wanted = (0, column.n_tokens) if column.kind == "decode" else (column.n_tokens, 0)
    try:
        found = [test for test in tests if (test["n_prompt"], test["n_gen"]) == wanted]
        if len(found) != 1 or len(tests) != 1:
            raise ProgramError(f"it measured {len(tests)} tests, and one of {column} was asked for; leave "
                               "-p, -n and -pg out of the command's options")
        return {"tokens_per_s": float(statistics.median(found[0]["samples_ts"])),
                "build": str(found[0]["build_commit"])}
    except (KeyError, TypeError, ValueError, statistics.StatisticsError) as error:
        raise ProgramError(f"its JSON is not that of llama-bench: {error!r}") from error


def run(arguments, time_limit_s=TIME_LIMIT_S):
    """The program's standard output. Throws ProgramError."""
    try:
        done = subprocess.run(arguments, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace",
                              timeout=time_limit_s)
    except subprocess.TimeoutExpired:
        raise ProgramError(f"it was ended after {time_limit_s} s") from None
    except OSError as error:
        raise ProgramError(f"it could not be started: {error.strerror}") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise ProgramError(f"it ended with code {done.returncode}: {said[-1] if said else 'it said nothing'}")
    return done.stdout


def measure(program, model, column):
    """One run: the fields of a record (results.py), or its `error`."""
    others, begin = OtherPrograms(), time.monotonic()
    try:
        output = run(arguments_of(program, model, column))
        found = (parse_hearth if program.is_hearth else parse_llama_bench)(output, column)
    except ProgramError as error:
        found = {"error": str(error)}
    return {**found, "seconds": round(time.monotonic() - begin, 2), "other_cpus": others.cpus()}
