"""Adds up test results and prints "N passed, N failed, N skipped" as its last line; exit 1 if anything
failed.

usage: sum_results.py [--parts PARTS.tsv] FILE.xml...

FILE.xml is a JUnit file of ctest or pytest. tests/support/parts.sh writes PARTS.tsv. Each check in it counts
as one test; exit code 77 means that the check could not run here and is skipped. A table of all parts with
their seconds stands above the sum, and the slowest tests of each file stand first.

A missing or empty file counts as one failure: a runner that died is not a pass. If the build in its folder
failed, the folder counts as one failure with the errors that tests/run.sh left in failed.txt. Above the sum
stand the skipped tests, grouped by reason, and then each failed test with its output: a log that keeps only
its end keeps these.
"""
import argparse
import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

SKIP_LINE = re.compile(r"^SKIPPED: (.*)$", re.MULTILINE)  # printed by tests/support/skip.h
NAMED = 3  # this many of the tests skipped for one reason are named
SLOWEST = 8  # so many of the slowest tests of each file are listed
END_OF_OUTPUT = 40  # lines of a failed test's output


def reason_of(case):
    """The reason why a test was skipped: the line that a C++ test printed, or the reason given to pytest."""
    line = SKIP_LINE.search(case.findtext("system-out") or "")
    if line:
        return line[1]
    message = case.find("skipped")
    return (message.get("message") or "no reason given") if message is not None else "did not run"


def output_of(case):
    """The output of a failed test, from its end: the message of pytest or of ctest and what the test
    printed."""
    texts = [node.text or node.get("message") or "" for kind in ("failure", "error")
             for node in case.findall(kind)]
    texts += [case.findtext("system-out") or ""]
    return "\n".join(line for text in texts if text for line in text.strip().splitlines()[-END_OF_OUTPUT:])


def outcomes_of_file(path):
    """Yields (outcome, name, reason) for each test of a JUnit file."""
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        yield "failed", path, str(error)
        return
    if not cases:
        yield "failed", path, "holds no test"
    for case in cases:
        name = f"{case.get('classname', '')} {case.get('name')}"
        if case.get("classname") == case.get("name"):  # written by ctest
            name = case.get("name")
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            yield "failed", name, output_of(case)
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            yield "skipped", name, reason_of(case)
        else:
            yield "passed", name, ""


def outcome_of(name, code, log):
    """(outcome, name, reason) of a check; the reason is the end of its log."""
    outcome = {0: "passed", 77: "skipped"}.get(code, "failed")
    said = pathlib.Path(log).read_text(errors="replace").strip().splitlines() if log else []
    if outcome == "failed":
        return outcome, name, "\n".join([f"exit code {code}", *said[-END_OF_OUTPUT:]])
    return outcome, name, (said or ["it says why"])[-1] if outcome == "skipped" else ""


def outcomes_of_files(paths):
    """Yields (outcome, name, reason) for each test; one failure for a folder whose build failed."""
    not_built = set()
    for path in paths:
        folder = pathlib.Path(path).parent
        if not (folder / "failed.txt").exists() or pathlib.Path(path).exists():
            yield from outcomes_of_file(path)
        elif folder not in not_built:
            not_built.add(folder)
            yield "failed", str(folder), (folder / "failed.txt").read_text(errors="replace")


def read_parts(path):
    """Rows (kind, name, seconds, code, log); the phases of a step, which are written before it, come after
    it."""
    rows, phases = [], []
    for line in pathlib.Path(path).read_text().splitlines():
        kind, name, seconds, code, log = line.split("\t")
        row = (kind, name, int(seconds), int(code), log)
        if kind == "phase":
            phases.append(row)
        else:
            rows += [row, *phases]
            phases = []
    return rows + phases


def print_slowest(paths):
    """Lists the slowest tests of each file: these are where a run's time goes."""
    for path in paths:
        try:
            cases = ElementTree.parse(path).getroot().iter("testcase")
            times = sorted(((float(case.get("time") or 0), case.get("name")) for case in cases), reverse=True)
        except (OSError, ElementTree.ParseError):
            continue  # counted as a failure
        if not times or times[0][0] == 0:
            continue
        print(f"slowest of {path}, {sum(seconds for seconds, _ in times):.0f} s together:")
        for seconds, name in times[:SLOWEST]:
            print(f"  {seconds:>6.1f} s  {name}")


def print_parts(rows):
    print(f"{'part':<50} {'seconds':>8}  result")
    for kind, name, seconds, code, _ in rows:
        result = {0: "passed", 77: "skipped"}.get(code, "FAILED")
        print(f"{'  ' * (kind == 'phase') + name:<50} {seconds:>8}  "
              f"{result if kind != 'phase' else ''}".rstrip())
    total = sum(seconds for kind, _, seconds, _, _ in rows if kind != "phase")
    print(f"{'all':<50} {total:>8}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts")
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    parts = read_parts(arguments.parts) if arguments.parts else []

    count = collections.Counter()
    skipped = collections.defaultdict(list)  # reason: names
    failed = []
    checks = [outcome_of(name, code, log) for kind, name, _, code, log in parts if kind == "check"]
    for outcome, name, reason in [*checks, *outcomes_of_files(arguments.files)]:
        count[outcome] += 1
        if outcome == "skipped":
            skipped[reason].append(name)
        elif outcome == "failed":
            failed.append((name, reason))
    if not failed:  # a step that ends with an error although its tests have passed
        failed = [(name, f"exit code {code}") for kind, name, _, code, _ in parts if kind == "step" and code]
        count["failed"] += len(failed)

    if parts:
        print_slowest(arguments.files)
    for reason, names in skipped.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        print(f"skipped: {', '.join(names[:NAMED])}{more} ({reason})")
    for name, said in failed:
        print(f"failed: {name}" + "".join(f"\n    {line}" for line in said.splitlines()))
    if parts:
        print_parts(parts)
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped", flush=True)
    return 1 if count["failed"] else 0


sys.exit(main())
