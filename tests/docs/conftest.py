"""Fixtures of the tests of the documentation's commands."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "api"))

from fixtures import model_path, program  # noqa: E402, F401  (pytest finds them here)
