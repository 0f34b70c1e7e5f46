"""Fixtures that tests/api has."""
from fixtures import program  # noqa: F401  (pytest finds it here)
