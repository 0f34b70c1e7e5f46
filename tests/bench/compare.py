#!/usr/bin/env python3
"""Compares Hearth's speed with other engines' on this machine: is Hearth first, and by how much?

    compare.py models --to DIR --quantize LLAMA_QUANTIZE        makes one model in each type of weights, once
    compare.py run --models DIR --peer NAME@ISA=LLAMA_BENCH ... --out r.json
    compare.py table r.json                                     prints the result again
    compare.py chart r.json --column decode64@2 --out r.svg     where a token's time goes, as a picture

A round runs every program once for each type and column, the programs in turn, each round in another order,
so that what disturbs the machine disturbs all. `run` writes r.json after every run and goes on with it if it
was stopped, writes r.md after every round, and prints that at the end. Needs Linux and nothing but Python.
docs/speed.md says more.
"""
import argparse
import pathlib
import signal
import sys

from comparison import chart, machine, models, table
from comparison.columns import default_columns, parse_column
from comparison.programs import HEARTH, ISAS, fingerprint, measure, parse_peer, program_of
from comparison.results import OtherSetup, Results, key_of

ROOT = pathlib.Path(__file__).resolve().parents[2]


def say(line):
    print(line, file=sys.stderr, flush=True)


def argument(parse):
    """A parser for argparse, which shows only the messages of ArgumentTypeError."""
    def of(text):
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
    return of


def listed(parse):
    """A parser of comma-separated values."""
    return argument(lambda text: [parse(part) for part in text.split(",")])


def one_of(names):
    def check(text):
        if text not in names:
            raise ValueError(f"{text!r} is none of {', '.join(names)}")
        return text
    return check


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)

    models_ = commands.add_parser("models", help="make the models")
    models_.add_argument("--to", required=True, metavar="DIR")
    models_.add_argument("--quantize", required=True, metavar="PROGRAM",
                         help="llama-quantize of llama.cpp or ik_llama.cpp")
    models_.add_argument("--shape", default="1b", help="of hearth-profiler synth: a llama shape")

    run_ = commands.add_parser("run", help="measure")
    run_.add_argument("--models", required=True, metavar="DIR", help="made by compare.py models")
    run_.add_argument("--out", required=True, metavar="FILE.json", help="written, or gone on with")
    run_.add_argument(
        "--peer", action="append", default=[], type=argument(parse_peer), metavar="NAME@ISA=COMMAND",
        help="another engine's llama-bench, built for ISA (native, avx2, scalar), and options of it")
    run_.add_argument("--isa", type=listed(one_of(ISAS)), metavar="ISA,...",
                      help="default: those of the peers, or native")
    run_.add_argument("--columns", type=listed(parse_column), metavar="COLUMN,...",
                      default=default_columns(machine.describe()["cores"]),
                      help="such as decode64@2 or prefill256@2; default: decode64 with one and with all "
                           "threads, and prefill32, prefill256, prefill1024 with all")
    run_.add_argument("--rounds", type=int, default=5, metavar="N", help="default: 5")

    for command in (models_, run_):
        command.add_argument("--hearth", default=str(ROOT / "build/release/hearth-profiler"),
                             metavar="PROGRAM", help="default: build/release/hearth-profiler")
        command.add_argument("--types", type=listed(one_of(models.BITS)), metavar="TYPE,...",
                             help=f"default: {'all' if command is models_ else 'all that DIR has'} of "
                                  f"{', '.join(models.BITS)}")

    table_ = commands.add_parser("table", help="print the result again")
    chart_ = commands.add_parser("chart", help="draw the result")
    for command in (table_, chart_):
        command.add_argument("result", metavar="FILE.json")
    for command in (run_, table_):
        command.add_argument("--want", type=float, default=1.0, metavar="RATIO",
                             help="lower ratios are bold; default: 1")
    chart_.add_argument("--column", required=True, metavar="decodeN@T")
    chart_.add_argument("--isa", default="native")
    chart_.add_argument("--out", required=True, metavar="FILE.svg")
    return parser.parse_args(arguments)


def programs_of(options):
    """Hearth and the peers, by instruction set."""
    isas = options.isa or list(dict.fromkeys(peer.isa for peer in options.peer)) or ["native"]
    programs = {isa: [program_of(HEARTH, isa, options.hearth),
                      *(peer for peer in options.peer if peer.isa == isa)]
                for isa in isas}
    keys = [program.key for group in programs.values() for program in group]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice:
        raise ValueError(f"--peer {twice}: is given twice; name one of them otherwise")
    return programs


def runs_of(programs, types, columns, n_rounds):
    """Every run as the key of its record with its program and column, in order: within a round, the programs
    of a cell alternate."""
    for number in range(1, n_rounds + 1):
        for isa, group in programs.items():
            first = (number - 1) % len(group)
            for type_ in types:
                for column in columns:
                    for program in group[first:] + group[:first]:
                        yield ({"round": number, "isa": isa, "type": type_, "column": str(column),
                                "program": program.name}, program, column)


def seconds_left(remaining, records):
    """The seconds per run, from timed runs of the same column, or of any column if there are none."""
    timed = {}
    for record in records:
        timed.setdefault(record["column"], []).append(record["seconds"])
    means = {column: sum(seconds) / len(seconds) for column, seconds in timed.items()}
    anything = sum(means.values()) / len(means) if means else 0
    return sum(means.get(key["column"], anything) for key in remaining)


def in_words(seconds):
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def write_table(results, want):
    results.path.with_suffix(".md").write_text(table.render(results, want), encoding="utf-8")


def run_comparison(options):
    # 1. Find out what is compared.
    if options.rounds < 1:
        raise ValueError("--rounds: must be 1 at least")
    shape, sizes = models.read_sizes(options.models)
    types = options.types or [type_ for type_ in models.BITS if type_ in sizes]
    if not types:
        raise models.ModelError(f"{options.models}: has no models; make them with compare.py models")
    lacking = [type_ for type_ in types if not models.present(options.models, shape, sizes, type_)]
    if lacking:
        raise models.ModelError(
            f"{options.models}: lacks {', '.join(lacking)}; make them with compare.py models")
    programs = programs_of(options)
    setup = {"machine": machine.describe(), "models": {f"{shape} {type_}": sizes[type_] for type_ in types},
             "programs": {program.key: fingerprint(program) for group in programs.values()
                          for program in group}}
    results = Results.resume(options.out, setup)

    # 2. Run what is missing.
    done = results.done()
    runs = [run for run in runs_of(programs, types, options.columns, options.rounds)
            if key_of(run[0]) not in done]
    for i, (key, program, column) in enumerate(runs):
        record = {**key, **measure(program, models.file_of(options.models, shape, key["type"]), column)}
        results.add(record)
        speed = (f"{table.number(record['tokens_per_s'])} tokens/s" if "error" not in record
                 else record["error"])
        left = in_words(seconds_left([later[0] for later in runs[i + 1:]], results.records))
        say(f"[{i + 1}/{len(runs)}, {left} left] round {key['round']}, {key['isa']} {key['type']} {column} "
            f"{program.name}: {speed}")
        if i + 1 == len(runs) or runs[i + 1][0]["round"] != key["round"]:
            write_table(results, options.want)

    # 3. Print the result.
    write_table(results, options.want)
    print(table.render(results, options.want), end="")
    return 1 if any("error" in record for record in results.records) else 0


def make_the_models(options):
    types = options.types or list(models.BITS)
    models.make_models(options.to, options.shape, types, options.hearth, options.quantize,
                       machine.describe()["cores"], say)
    return 0


def print_table(options):
    print(table.render(Results.read(options.result), options.want), end="")
    return 0


def draw_chart(options):
    text = chart.draw(Results.read(options.result), options.isa, options.column)
    pathlib.Path(options.out).write_text(text, encoding="utf-8")
    return 0


def main(arguments):
    options = parse_arguments(arguments)
    commands = {"models": make_the_models, "run": run_comparison, "table": print_table, "chart": draw_chart}
    # a running program is stopped together with this one
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return commands[options.command](options)
    except (OtherSetup, models.ModelError, OSError, ValueError) as error:
        say(f"compare.py: {error}")
        return 2
    except KeyboardInterrupt:
        say("compare.py: stopped; the same command goes on where it was")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
