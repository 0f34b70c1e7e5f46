"""Adds up JUnit files of ctest and pytest and prints "N passed, N failed[, N skipped]"; exit 1 if anything failed.

usage: sum_results.py FILE.xml...   A missing or empty file counts as one failure: a runner that died is not a pass.
"""
import sys
import xml.etree.ElementTree as ElementTree


def count(path):
    """(passed, failed, skipped) of one file."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 0, 1, 0
    passed = failed = skipped = 0
    for case in root.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            failed += 1
            print(f"failed: {case.get('classname', '')} {case.get('name')}")
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            skipped += 1
            print(f"skipped: {case.get('classname', '')} {case.get('name')}")
        else:
            passed += 1
    return (passed, failed, skipped) if passed + failed + skipped else (0, 1, 0)


def main():
    passed, failed, skipped = (sum(column) for column in zip(*(count(path) for path in sys.argv[1:])))
    sys.stdout.flush()
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""), flush=True)
    sys.exit(1 if failed else 0)


main()
