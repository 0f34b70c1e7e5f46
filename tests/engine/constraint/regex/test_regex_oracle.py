"""Regular expressions compared with Python's re, on random patterns and texts: both agree on every text, and
every member of the grammar matches in Python.
"""
import pathlib
import random
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "support"))
import grammar_tool

N_SHORT, N_FULL = 400, 6000
MAX_TEXT = 24  # characters: backtracking ends quickly on such short texts
MAX_UNBOUNDED = 2  # repeats in one group
ALPHABET = "abcx01_- .é日\n\\"

pytestmark = pytest.mark.skipif(not grammar_tool.TOOL.exists(), reason=f"{grammar_tool.TOOL} is not built")


@pytest.fixture(scope="module")
def tool():
    with grammar_tool.running() as process:
        yield process


def random_class(rng):
    items = [rng.choice(["a", "b-x", "0-9", "\\d", "\\w", "_", "é", "\\n", "\\]", ".", "\\x61", "\\u65e5",
                         " ", "\\-"])
             for _ in range(rng.randrange(1, 4))]
    return "[" + rng.choice(["", "^"]) + "".join(items) + "]"


def random_atom(rng, depth):
    if depth > 0 and rng.random() < 0.35:
        return (rng.choice(["(", "(?:", f"(?P<n{rng.randrange(10 ** 9)}>"]) + random_pattern(rng, depth - 1)
                + ")")
    return rng.choice(["a", "b", "c", "x", "0", "é", "日", "_", "\\.", "\\\\", "\\n",
                       "\\d", "\\D", "\\w", "\\W", "\\S", "[ ]", "-",
                       random_class(rng), random_class(rng), "."])


def n_unbounded(items):
    return sum(item.count(mark) for item in items for mark in ("*", "+", "{1,}"))


def random_pattern(rng, depth=3):
    branches = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        items = []
        for _ in range(rng.randrange(0, 4)):
            atom = random_atom(rng, depth)
            # Python's matcher backtracks: repeats of anything that can be matched in several ways would take
            # it forever, and so would many unbounded repeats in a row.
            several = any(mark in atom[1:] for mark in "*+|,?")
            unbounded = [] if several or n_unbounded(items) >= MAX_UNBOUNDED else ["*", "+", "{1,}"]
            quantifier = rng.choice(
                ["", "", "", "?", "{2}"] + ([] if several else ["{0,2}", "{1,3}"]) + unbounded)
            items.append(atom + quantifier + (rng.choice(["", "?"]) if quantifier else ""))
        branches.append("".join(items))
    pattern = "|".join(branches)
    return pattern



def text_near(rng, member):
    text = list(member)
    for _ in range(rng.randrange(0, 3)):
        at = rng.randrange(0, len(text) + 1)
        text[at:at + rng.randrange(0, 2)] = rng.choice(["", rng.choice(ALPHABET)])
    return "".join(text)


def check(tool, seed):
    rng = random.Random(seed)
    pattern = random_pattern(rng)
    if rng.random() < 0.2:
        pattern = f"^(?:{pattern})$"
    expected = re.compile(pattern, re.ASCII)
    answer = tool.ask(regex=pattern, seed=seed, members=8)
    assert "error" not in answer, (pattern, answer)
    members = [member for member in answer["members"] if len(member) <= MAX_TEXT]
    texts = ["", *members]
    texts += [text_near(rng, rng.choice(texts)) for _ in range(10)]
    texts += ["".join(rng.choice(ALPHABET) for _ in range(rng.randrange(1, 6))) for _ in range(5)]
    for member in members:
        assert expected.fullmatch(member), f"seed {seed}: {member!r} is no match of {pattern!r}"
    for text, matched in zip(texts, tool.ask(regex=pattern, match=texts)["matches"]):
        assert matched == bool(expected.fullmatch(text)), f"seed {seed}: {text!r} and {pattern!r}: {matched}"
    return len(texts)


def test_random_patterns(tool):
    assert sum(check(tool, seed) for seed in range(N_SHORT)) > 15 * N_SHORT


@pytest.mark.nightly
def test_more_random_patterns(tool):
    for seed in range(N_SHORT, N_SHORT + N_FULL):
        check(tool, seed)


@pytest.mark.parametrize("pattern", ["a|^b$|c*", "(^|,)x(,|$)", "^a", "b$", "^$", "^(a|b$)", "x|^", "a?b{2}"])
def test_searches(tool, pattern):
    """A schema's pattern is searched for anywhere in the text."""
    rng = random.Random(1)
    texts = ["".join(rng.choice("abx,") for _ in range(rng.randrange(0, 6))) for _ in range(300)]
    written = ['"' + text + '"' for text in texts]
    answer = tool.ask(schema='{"type": "string", "pattern": "' + pattern + '"}', match=written)
    for text, matched in zip(texts, answer["matches"]):
        assert matched == bool(re.search(pattern, text)), (pattern, text)
