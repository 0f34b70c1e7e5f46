"""Medians, ratios and shares, from the records of a comparison (results.py). No text: table.py and chart.py
show them."""
import dataclasses
import statistics

from comparison.columns import parse_column
from comparison.programs import HEARTH


@dataclasses.dataclass(frozen=True)
class Spread:
    median: float
    least: float
    most: float


def spread(values):
    return Spread(statistics.median(values), min(values), max(values)) if values else None


@dataclasses.dataclass(frozen=True)
class Cell:
    """The results for one column, type and instruction set."""
    isa: str
    type: str
    column: str
    speeds: dict  # program: Spread of its tokens per second; programs that only failed are missing
    errors: dict  # program: its last error, if it has no speed
    best_other: str | None  # the other program with the highest median
    ratio: float | None  # Hearth's median divided by the best other's
    ratios: Spread | None  # the ratio within each round
    bytes_per_token: float | None  # what decoding a token reads
    read_bytes_per_s: float | None  # the memory's speed: the median of Hearth's runs in this cell

    def share(self, program):
        """The share of the memory's speed at which a program reads the model. None for prompts, and if a
        figure is missing."""
        if (parse_column(self.column).kind != "decode" or self.bytes_per_token is None
            or program not in self.speeds):
            return None
        return self.speeds[program].median * self.bytes_per_token / self.read_bytes_per_s


def _cell(isa, type_, column, records):
    good = [record for record in records if "error" not in record]
    speeds = {name: spread([r["tokens_per_s"] for r in good if r["program"] == name])
              for name in dict.fromkeys(r["program"] for r in good)}
    errors = {r["program"]: r["error"] for r in records if "error" in r and r["program"] not in speeds}
    others = [name for name in speeds if name != HEARTH]
    best = max(others, key=lambda name: speeds[name].median, default=None)
    ratio = ratios = None
    if best is not None and HEARTH in speeds:
        ratio = speeds[HEARTH].median / speeds[best].median
        by_round = {name: {r["round"]: r["tokens_per_s"] for r in good if r["program"] == name}
                    for name in (HEARTH, best)}
        ratios = spread([speed / by_round[best][n]
                         for n, speed in by_round[HEARTH].items() if n in by_round[best]])
    own = [r for r in good if r["program"] == HEARTH]
    return Cell(isa, type_, column, speeds, errors, best, ratio, ratios,
                statistics.median(r["bytes_per_token"] for r in own) if own else None,
                statistics.median(r["read_bytes_per_s"] for r in own) if own else None)


def cells_of(records):
    """All cells, in the order in which they first appear in the records."""
    groups = {}
    for record in sorted(records, key=lambda r: r["round"]):
        groups.setdefault((record["isa"], record["type"], record["column"]), []).append(record)
    return [_cell(*place, group) for place, group in groups.items()]


def memory_speed(records):
    """Threads: Spread of the bytes per second that they read, measured together with Hearth's runs."""
    found = {}
    for record in records:
        if "read_bytes_per_s" in record:
            found.setdefault(parse_column(record["column"]).n_threads, []).append(record["read_bytes_per_s"])
    return {n_threads: spread(speeds) for n_threads, speeds in sorted(found.items())}
