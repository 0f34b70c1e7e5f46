"""Fixtures of the tests with real clients. A client that is not installed is skipped; tests/clients/run.sh
installs all."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "api"))

import hearthd  # noqa: E402
from fixtures import model_path, program, start  # noqa: E402, F401  (pytest finds them here)


@pytest.fixture(scope="session")
def server(model_path):
    """One server for all clients. Agents' prompts are long, so it has all of the model's context."""
    shared = hearthd.Hearthd("--slots", "4", "--context", "2048", "--alias", "smol", model=model_path)
    yield shared
    shared.signal()
    assert shared.wait() == 0, shared.log()


@pytest.fixture(scope="session")
def base_url(server):
    """The variables that users of OpenAI's clients set, and nothing else."""
    return server.url + "/v1"
