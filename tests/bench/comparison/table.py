"""The Markdown report on whether Hearth is first, and by how much. See render()."""
from comparison.columns import parse_column
from comparison.programs import HEARTH
from comparison.summary import cells_of, memory_speed, spread

# The maximum number of processors that other programs may use, as a median over the runs. If the threads of a
# program spin while they wait for each other, and one of them has to wait for a processor, the program loses
# far more than this share. Ratios of such runs do not compare the programs.
QUIET_CPUS = 0.1


def number(value):
    return f"{value:,.0f}" if value >= 999.5 else f"{value:.3g}"


def _speed(found):
    if found is None:
        return ""
    return f"{number(found.median)} ({number(found.least)} to {number(found.most)})"


def _row(cells):
    return "| " + " | ".join(cells) + " |"


def _grid(head, rows):
    return [_row(head), "|" + "---|" * len(head), *map(_row, rows), ""]


def _in_order(values):
    return list(dict.fromkeys(values))


def _ratio(cell, want):
    if cell is None or cell.ratio is None:
        return ""
    return f"**{cell.ratio:.2f}**" if cell.ratio < want else f"{cell.ratio:.2f}"


def _verdict(cells, want):
    rated = [cell for cell in cells if cell.ratio is not None]
    if not rated:
        return "There is nothing to compare: no column has a speed of Hearth and one of another engine."
    first = sum(cell.ratio >= 1 for cell in rated)
    lowest = min(rated, key=lambda cell: cell.ratio)
    text = (f"Hearth is first in {first} of {len(rated)} comparisons. The lowest ratio is {lowest.ratio:.2f} "
            f"({lowest.isa}, {lowest.type}, {lowest.column}).")
    below = [f"{c.isa} {c.type} {c.column} {c.ratio:.2f}" for c in rated if c.ratio < want]
    return text + (f" Below {want:g}: {', '.join(below)}." if below else f" None is below {want:g}.")


def _ratios(isa, cells, want):
    columns, types = _in_order(c.column for c in cells), _in_order(c.type for c in cells)
    by_place = {(c.type, c.column): c for c in cells}
    rows = [[type_, *(_ratio(by_place.get((type_, column)), want) for column in columns)] for type_ in types]
    return [f"## {isa}: Hearth's median divided by the best other's", "", *_grid(["type", *columns], rows)]


def _column(isa, column, cells, want):
    """One table: a row for each type, a column for each program."""
    names = sorted(_in_order(name for c in cells for name in [*c.speeds, *c.errors]),
                   key=lambda name: name != HEARTH)
    decodes = parse_column(column).kind == "decode"
    head = ["type", *names, "ratio (within rounds)"] + [f"{name}, of memory" for name in names if decodes]
    rows = []
    for c in cells:
        shares = [c.share(name) for name in names] if decodes else []
        within = f"{_ratio(c, want)} ({c.ratios.least:.2f} to {c.ratios.most:.2f})" if c.ratios else ""
        rows.append([c.type, *(_speed(c.speeds.get(name)) or "failed" * (name in c.errors) for name in names),
                     within, *("" if share is None else f"{100 * share:.0f} %" for share in shares)])
    failed = [f"- {c.type}, {name}: {error}" for c in cells for name, error in c.errors.items()]
    return [f"### {isa}, {column}, tokens/s", "", *_grid(head, rows), *failed, *([""] if failed else [])]


def _range(counts):
    return " to ".join(map(str, sorted({min(counts), max(counts)})))


def _circumstances(setup, records):
    machine = setup["machine"]
    rounds = {}
    for record in records:
        place = (record["isa"], record["type"], record["column"], record["program"])
        rounds[place] = rounds.get(place, 0) + 1
    lines = [f"Machine: {machine['cpu']}, {machine['cores']} cores, {' '.join(machine['flags'])}. Speeds are "
             f"medians of {_range(rounds.values())} rounds, in brackets the lowest and the highest."]
    others = spread([record["other_cpus"] for record in records])
    lines.append(f"Other programs took {others.median:.2f} processors in the median of all runs, and "
                 f"{others.most:.2f} at most.")
    if others.median > QUIET_CPUS:
        lines.append("**The machine was not quiet, so these speeds and ratios say little. Measure again when "
                     "nothing else runs.**")
    for n_threads, found in memory_speed(records).items():
        lines.append(f"{n_threads} thread{'s' * (n_threads > 1)} of eight streams read "
                     f"{number(found.median / 1e9)} GB/s of memory ({number(found.least / 1e9)} to "
                     f"{number(found.most / 1e9)}).")
    return [*lines, ""]


def _programs(setup, records):
    builds = {f"{r['program']}@{r['isa']}": r["build"] for r in records if "build" in r}
    rows = [[key, f"`{facts['command']}`", builds.get(key, "")] for key, facts in setup["programs"].items()]
    return ["## Programs", "", *_grid(["program", "command", "build"], rows)]


def render(results, want=1.0):
    """Ratios below `want` are bold. REQUIRES: at least one record."""
    records, lines = results.records, ["# Hearth beside other engines", ""]
    cells = cells_of(records)
    lines += [_verdict(cells, want), "", *_circumstances(results.setup, records)]
    for isa in _in_order(c.isa for c in cells):
        of_isa = [c for c in cells if c.isa == isa]
        lines += _ratios(isa, of_isa, want)
        for column in _in_order(c.column for c in of_isa):
            lines += _column(isa, column, [c for c in of_isa if c.column == column], want)
    return "\n".join([*lines, *_programs(results.setup, records)]).rstrip() + "\n"
