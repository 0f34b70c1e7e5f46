"""Adds up test results and prints "N passed, N failed, N skipped" as its last line; exit 1 if anything failed.

usage: sum_results.py RESULT...   FILE.xml: a JUnit file of ctest or pytest; NAME=CODE: the exit code of a check,
where 77 says that it could not run here and is skipped.

A missing or empty file counts as one failure: a runner that died is not a pass. Above the sum stand the skipped tests,
those with one reason together, and then each failed test with what it said: a log that keeps only its end keeps these.
"""
import collections
import re
import sys
import xml.etree.ElementTree as ElementTree

SKIP_LINE = re.compile(r"^SKIPPED: (.*)$", re.MULTILINE)  # printed by tests/support/skip.h
NAMED = 3  # so many tests that were skipped for one reason are named
END_OF_OUTPUT = 40  # lines of a failed test's output


def reason_of(case):
    """Why a test was skipped: what a C++ test printed, or what pytest was told."""
    line = SKIP_LINE.search(case.findtext("system-out") or "")
    if line:
        return line[1]
    message = case.find("skipped")
    return (message.get("message") or "no reason given") if message is not None else "did not run"


def output_of(case):
    """What a failed test said, from the end: the message of pytest or of ctest and what the test printed."""
    texts = [node.text or node.get("message") or "" for kind in ("failure", "error") for node in case.findall(kind)]
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
        if case.get("classname") == case.get("name"):  # ctest's
            name = case.get("name")
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            yield "failed", name, output_of(case)
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            yield "skipped", name, reason_of(case)
        else:
            yield "passed", name, ""


def outcomes(argument):
    check = re.fullmatch(r"([^=]+)=(\d+)", argument)
    if not check:
        return outcomes_of_file(argument)
    outcome = {"0": "passed", "77": "skipped"}.get(check[2], "failed")
    return [(outcome, check[1], {"passed": "", "skipped": "it says why"}.get(outcome, f"exit code {check[2]}"))]


def main():
    count = collections.Counter()
    skipped = collections.defaultdict(list)  # reason: names
    failed = []
    for argument in sys.argv[1:]:
        for outcome, name, reason in outcomes(argument):
            count[outcome] += 1
            if outcome == "skipped":
                skipped[reason].append(name)
            elif outcome == "failed":
                failed.append((name, reason))
    for reason, names in skipped.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        print(f"skipped: {', '.join(names[:NAMED])}{more} ({reason})")
    for name, said in failed:
        print(f"failed: {name}" + "".join(f"\n    {line}" for line in said.splitlines()))
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped", flush=True)
    return 1 if count["failed"] else 0


sys.exit(main())
