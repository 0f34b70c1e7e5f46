"""Fixtures of the black-box tests: one shared server with a real model, and servers of a test's own."""
import openai
import pytest

import hearthd as daemon


@pytest.fixture(scope="session", autouse=True)
def program():
    assert daemon.BINARY.exists(), f"{daemon.BINARY} is not built: cmake --build --preset release"


@pytest.fixture(scope="session")
def model_path():
    if not daemon.MODEL.exists():
        pytest.skip(f"{daemon.MODEL} is not there: server/fetch-model.sh fetches it")
    return daemon.MODEL


@pytest.fixture(scope="session")
def server(model_path):
    """Shared by all tests that leave it as they found it."""
    shared = daemon.Hearthd("--slots", "4", "--context", "1024", "--alias", "smol", model=model_path)
    yield shared
    shared.signal()
    assert shared.wait() == 0, shared.log()


@pytest.fixture()
def start(model_path):
    """start(*flags, env=...) -> a server of the test's own, killed at its end if it still runs."""
    started = []

    def make(*flags, **options):
        started.append(daemon.Hearthd(*flags, model=options.pop("model", model_path), **options))
        return started[-1]

    yield make
    for one in started:
        one.kill()


@pytest.fixture()
def client(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=daemon.PATIENCE) as sdk:
        yield sdk
