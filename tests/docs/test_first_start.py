"""docs/quickstart.md shows what a first start prints. The programs still print these lines, apart from
numbers, times and what depends on the machine."""
import re

import pytest

import hearthd
from chat_terminal import Terminal

PAGE = (hearthd.ROOT / "docs" / "quickstart.md").read_text()
MOST_LINES = 8  # of a start


def shown(words):
    """The lines of the first block after these words of the page."""
    found = re.search(re.escape(words) + r".*?\n\n```\n(.*?)\n```\n", PAGE, re.DOTALL)
    assert found, f"no block after {words!r}"
    return found[1].splitlines()


def pattern(line):
    """A line of the page as a regular expression: numbers and the backend's name may differ, and "..." is any
    text."""
    line = re.sub(r'backend="[^"]*"', 'backend="..."', line)
    parts = [re.sub(r"\d[\d.,:]*", lambda _: r"[\d.,:]+", re.escape(part)) for part in line.split("...")]
    return ".*".join(parts)


def start_log(model):
    """The lines without their dates, and without those about a load that takes more than two seconds."""
    server = hearthd.Hearthd(model=model, wait=False)
    hearthd.wait_until(lambda: any(" open http" in line for line in server.lines), "the address of the page")
    server.signal()
    assert server.wait() == 0
    lines = [re.sub(r"^\S+ \S+ +", "", line) for line in server.log().splitlines()]
    end = next(i for i, line in enumerate(lines) if "stopping" in line)
    return [line for line in lines[:end] if not line.startswith("info loading")]


def test_a_start_prints_the_lines_of_the_page_and_no_others(model_path):
    expected = shown("The log of a start")
    printed = start_log(model_path)
    if not any(line.startswith("info CUDA: none") for line in printed):
        pytest.skip("a GPU is used, of which the log has other lines")
    assert len(printed) <= MOST_LINES
    assert len(printed) == len(expected), "\n".join(printed)
    for line, wanted in zip(printed, expected):
        assert re.fullmatch(pattern(wanted), line), f"the page has {wanted!r}, but the start printed {line!r}"


def test_a_chat_in_the_terminal_is_as_the_page_shows_it(model_path):
    """The answer may differ: it depends on random numbers."""
    greeting, question, answer, farewell = shown("Or chat in the terminal")
    assert answer
    chat = Terminal(model_path)
    chat.wait_for(greeting)
    for line in (question, farewell):
        chat.wait_for(">>> ")
        chat.type(line.removeprefix(">>> ") + "\n")
    assert chat.wait() == 0
