"""Our template interpreter compared with Python's jinja2: the same text for the same template and
conversation.

Drives build/<preset>/tests/jinja_tool (HEARTH_BUILD_DIR names the build folder, default build/release). An
error must be an error on both sides; the message must be the same if the template itself raised it.
"""

import json
import os
import pathlib
import subprocess

import pytest

import jinja_conversations
import jinja_reference
import jinja_snippets

ROOT = pathlib.Path(__file__).resolve().parents[3]
TEMPLATES = sorted((ROOT / "tests/data/templates").glob("*.jinja"))


class Tool:
    def __init__(self):
        build = pathlib.Path(os.environ.get("HEARTH_BUILD_DIR", ROOT / "build/release"))
        self.process = subprocess.Popen(
            [build / "tests/jinja_tool"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )

    def render(self, template, context):
        self.process.stdin.write(json.dumps({"template": template, "context": context}) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"jinja_tool died on {template!r}"
        return json.loads(answer)


@pytest.fixture(scope="module")
def tool():
    made = Tool()
    yield made
    made.process.stdin.close()
    assert made.process.wait(timeout=30) == 0


def assert_same(tool, env, template, context):
    expected = jinja_reference.render(env, template, context)
    got = tool.render(template, context)
    if "error" in expected:
        assert "error" in got, f"jinja2 refuses it ({expected['error']}), we print {got.get('output')!r}"
        if expected["raised"]:
            assert got["error"] == expected["error"]
    else:
        assert got.get("output", got) == expected["output"]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_chat_template(tool, path):
    template = path.read_text(encoding="utf-8")
    env = jinja_reference.environment()
    n_texts = 0
    for name, context in jinja_conversations.contexts():
        try:
            assert_same(tool, env, template, context)
        except AssertionError as error:
            raise AssertionError(f"{path.name} with {name}: {error}") from None
        n_texts += "output" in jinja_reference.render(env, template, context)
    assert n_texts >= 8, "most conversations fail in this template: it tests little"


def test_there_are_enough_templates():
    assert len(TEMPLATES) >= 12


def test_template_of_the_default_model(tool):
    gguf = pytest.importorskip("gguf")
    path = os.environ.get("HEARTH_TEST_MODEL", "")
    if not os.path.exists(path):
        cache = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
        path = os.path.join(cache, "hearth", "SmolLM2-135M-Instruct.Q4_1.gguf")
    if not os.path.exists(path):
        pytest.skip("the default model is not here; server/fetch-model.sh brings it")
    field = gguf.GGUFReader(path).fields["tokenizer.chat_template"]
    template = bytes(field.parts[field.data[0]]).decode("utf-8")
    env = jinja_reference.environment()
    for _, context in jinja_conversations.contexts():
        assert_same(tool, env, template, context)


@pytest.mark.parametrize("expression", jinja_snippets.EXPRESSIONS)
def test_expression(tool, expression):
    assert_same(tool, jinja_reference.environment(), "{{ " + expression + " }}", jinja_snippets.CONTEXT)


@pytest.mark.parametrize("template", jinja_snippets.STATEMENTS)
def test_statement(tool, template):
    assert_same(tool, jinja_reference.environment(), template, jinja_snippets.CONTEXT)


@pytest.mark.parametrize("template", jinja_snippets.WHITESPACE)
def test_whitespace(tool, template):
    assert_same(tool, jinja_reference.environment(), template, jinja_snippets.CONTEXT)


@pytest.mark.parametrize("template", jinja_snippets.MUTATING)
def test_change_in_place(tool, template):
    assert_same(tool, jinja_reference.environment(immutable=False), template, jinja_snippets.CONTEXT)
