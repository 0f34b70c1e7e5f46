"""docs/troubleshooting.md quotes only messages that the programs still contain.

A message on that page is a code span in bold, **`like this`**; its varying parts are written <like this>. The
other parts must all occur in one source file: for C++ in its string literals, with neighboring literals
joined.
"""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "troubleshooting.md"
FOLDERS = ("config", "docker", "engine", "kernels", "profiler", "server")
MESSAGE = re.compile(r"\*\*(?:[0-9]{3} )?`([^`]+)`\*\*")
TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# Matches comments and character literals, which may contain a lone quote, and runs of adjacent string
# literals.
TOKENS = re.compile(
    r"//[^\n]*|/\*.*?\*/|(?<!\w)'(?:\\.[^']*|[^'\\\n])'|(?P<texts>(?:" + TEXT.pattern + r"\s*)+)",
    re.DOTALL)
CODE = {".cpp", ".h", ".cu", ".cuh"}


def texts_of(path):
    """The texts that a file can print, one per line."""
    source = path.read_text()
    if path.suffix not in CODE:
        return " ".join(source.split())
    runs = [match["texts"] for match in TOKENS.finditer(source) if match["texts"]]
    return "\n".join("".join(TEXT.findall(run)).replace('\\"', '"') for run in runs)


def sources():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in CODE | {".sh", ".cmake"} or path.name == "CMakeLists.txt":
                yield path
    yield ROOT / "CMakeLists.txt"


def fixed_parts(message):
    return [part.strip() for part in re.split(r"<[^<>]+>", message) if len(part.strip()) > 3]


@pytest.fixture(scope="module")
def texts():
    return [texts_of(path) for path in sources()]


@pytest.mark.parametrize("message", MESSAGE.findall(PAGE.read_text()))
def test_a_quoted_message_is_in_the_sources(message, texts):
    parts = fixed_parts(message)
    assert parts, f"`{message}` has no fixed part"
    assert any(all(part in text for part in parts) for text in texts), \
        f"docs/troubleshooting.md quotes `{message}`, but no source file contains {parts}."


def test_the_page_quotes_many_messages():
    assert len(MESSAGE.findall(PAGE.read_text())) > 60
