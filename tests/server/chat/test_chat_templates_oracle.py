"""The chat templates of many families in conversations with tools: our interpreter compared with Python's
jinja2.

The templates in tests/data/chat_templates are small, and follow the documented format of each family in their
own words.
"""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/server/jinja"))
sys.path.insert(0, str(ROOT / "tests/server/chat"))
import jinja_reference  # noqa: E402
import tool_conversations  # noqa: E402
from test_jinja_oracle import assert_same, tool  # noqa: E402, F401  (tool is a fixture)

TEMPLATES = sorted((ROOT / "tests/data/chat_templates").glob("*.jinja"))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_chat_template_with_tools(tool, path):  # noqa: F811
    template = path.read_text(encoding="utf-8")
    env = jinja_reference.environment()
    n_texts = 0
    for name, context in tool_conversations.contexts():
        try:
            assert_same(tool, env, template, context)
        except AssertionError as error:
            raise AssertionError(f"{path.name} with {name}: {error}") from None
        n_texts += "output" in jinja_reference.render(env, template, context)
    assert n_texts >= 8, "most conversations fail in this template: it tests little"


def test_there_are_enough_templates():
    assert len(TEMPLATES) >= 60
    assert len(tool_conversations.MESSAGES) == 12
