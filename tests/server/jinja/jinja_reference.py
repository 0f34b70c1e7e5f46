"""The Python side of the template tests: jinja2 configured as the Hugging Face libraries do for chat
templates."""

import datetime
import json

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment

# The time of tests/support/frozen_clock.h.
FROZEN_NOW = datetime.datetime(2024, 7, 26, 12, 34, 56)


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks the assistant's text for training and prints it unchanged."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_print"), [], [], body).set_lineno(line)

    def _print(self, caller):
        return caller()


def _raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def _tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def environment(immutable=True):
    """immutable=False allows list.append and the like, which the libraries' sandbox forbids and ours does
    not."""
    kind = ImmutableSandboxedEnvironment if immutable else SandboxedEnvironment
    env = kind(trim_blocks=True, lstrip_blocks=True,
               extensions=[Generation, jinja2.ext.loopcontrols, jinja2.ext.do])
    env.filters["tojson"] = _tojson
    env.globals["raise_exception"] = _raise_exception
    env.globals["strftime_now"] = FROZEN_NOW.strftime
    return env


def render(env, template, context):
    """{"output": text} or {"error": text, "raised": whether raise_exception was called}."""
    try:
        return {"output": env.from_string(template).render(**context)}
    except jinja2.exceptions.TemplateError as error:
        return {"error": str(error), "raised": type(error) is jinja2.exceptions.TemplateError}
    except Exception as error:  # Python's own errors, such as TypeError
        return {"error": f"{type(error).__name__}: {error}", "raised": False}
