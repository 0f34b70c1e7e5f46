"""Fixtures of the black-box tests: one shared server with a real model, and servers of a test's own."""
import openai
import pytest

import hearthd as daemon
from fixtures import model_path, program, small, start  # noqa: F401  (pytest finds them here)


@pytest.fixture(scope="session")
def server(model_path):
    """A server shared by all tests that do not change its state."""
    shared = daemon.Hearthd("--slots", "4", "--context", "1024", "--alias", "smol", model=model_path)
    yield shared
    shared.signal()
    assert shared.wait() == 0, shared.log()


@pytest.fixture()
def client(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0,
                       timeout=daemon.PATIENCE) as sdk:
        yield sdk
