"""Runs the Python examples of docs/clients.md unchanged, against a server that stops after a few tokens."""
import ast
import contextlib
import importlib.util
import io
import os
import re

import pytest

import hearthd

# otherwise litellm fetches prices from the network when it is imported
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
PAGE = (hearthd.ROOT / "docs" / "clients.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
DOCUMENTED_URL = "http://127.0.0.1:8080"


def packages_of(example):
    """The top-level packages that an example imports."""
    for node in ast.walk(ast.parse(example)):
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.split(".")[0]


@pytest.fixture(scope="module")
def brief_server(model_path):
    server = hearthd.Hearthd("--alias", "local", "--max-tokens-default", "16", "--slots", "2",
                             model=model_path)
    yield server
    server.kill()


def test_the_page_has_examples():
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize("example", EXAMPLES, ids=[next(packages_of(example)) for example in EXAMPLES])
def test_an_example_runs_as_it_stands(example, brief_server):
    for package in packages_of(example):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the package {package} is not installed: tests/clients/run.sh")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example.replace(DOCUMENTED_URL, brief_server.url),  # noqa: S102
                     "docs/clients.md", "exec"), {})
    assert printed.getvalue().strip() or "print" not in example
