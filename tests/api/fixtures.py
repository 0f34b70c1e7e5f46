"""Fixtures shared by tests/api and tests/clients: the program, the default model, servers of a test's own."""
import pytest

import hearthd


@pytest.fixture(scope="session", autouse=True)
def program():
    assert hearthd.BINARY.exists(), f"{hearthd.BINARY} is not built: cmake --build --preset release"


@pytest.fixture(scope="session")
def model_path():
    if not hearthd.MODEL.exists():
        pytest.skip(f"{hearthd.MODEL} is not there: server/fetch-model.sh fetches it")
    return hearthd.MODEL


def starter(model):
    started = []

    def make(*flags, **options):
        started.append(hearthd.Hearthd(*flags, model=options.pop("model", model), **options))
        return started[-1]

    yield make
    for one in started:
        one.kill()


@pytest.fixture()
def start(model_path):
    """start(*flags, env=...) -> a server of the test's own, killed at its end if it still runs."""
    yield from starter(model_path)


@pytest.fixture()
def small():
    """Like start, with the committed small model, so that no other model is needed."""
    yield from starter(hearthd.SMALL_MODEL)
