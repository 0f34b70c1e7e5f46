"""Writes the seed corpus of fuzz_jinja: the snippets of the oracle tests, several to a file, and the chat
templates.

  python tests/fuzz/make_jinja_corpus.py
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/server"))
import jinja_snippets  # noqa: E402

PER_FILE = 4


def main():
    folder = ROOT / "tests/fuzz/corpus/jinja"
    folder.mkdir(parents=True, exist_ok=True)
    pieces = ["{{ " + e + " }}" for e in jinja_snippets.EXPRESSIONS]
    pieces += jinja_snippets.STATEMENTS + jinja_snippets.MUTATING + jinja_snippets.WHITESPACE[::7]
    for i in range(0, len(pieces), PER_FILE):
        (folder / f"snippets_{i // PER_FILE:03}").write_bytes("\n".join(pieces[i : i + PER_FILE]).encode())
    for path in (ROOT / "tests/data/templates").glob("*.jinja"):
        (folder / path.stem).write_bytes(path.read_bytes())


if __name__ == "__main__":
    main()
