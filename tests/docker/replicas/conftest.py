"""Finds hearthd.py and its fixtures, which tests/api has."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "api"))

from fixtures import program  # noqa: E402, F401  (pytest finds it here)
