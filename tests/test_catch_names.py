"""Catch2 2 aborts instead of reporting a failure if the name of the test case or section has its first ": "
after column 76, to which it indents the next line. The program's other results are then lost."""
import pathlib
import re

TESTS = pathlib.Path(__file__).resolve().parent
LITERAL = r'"((?:[^"\\]|\\.)*)"'
NAME = re.compile(
    rf"\b(?:TEST_CASE|TEST_CASE_METHOD|SECTION|DYNAMIC_SECTION)\((?:\w+,)?\s*((?:{LITERAL}\s*)+)")


def names_in(text):
    return ["".join(re.findall(LITERAL, match[1])) for match in NAME.finditer(text)]


def test_catch_can_report_every_name():
    names = [(path, name) for path in TESTS.rglob("*.cpp") for name in names_in(path.read_text())]
    assert len(names) > 1000
    assert [entry for entry in names if entry[1].find(": ") >= 77] == []


def test_no_name_is_taken_for_an_option():
    """ctest passes a name as an argument: Catch would read one that begins with "-" as an option, and run
    nothing."""
    assert [name for path in TESTS.rglob("*.cpp")
            for name in names_in(path.read_text()) if name.startswith("-")] == []


def test_names_are_found():
    assert names_in('TEST_CASE("a", "[tag]") {\n  SECTION(\n      "b "\n      "c") {') == ["a", "b c"]
    assert names_in('TEST_CASE_METHOD(Fixture, "d")') == ["d"]
