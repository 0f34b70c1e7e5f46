"""Finds hearthd.py and hub.py, which tests/api has."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "api"))
