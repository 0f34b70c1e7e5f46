"""Writes tests/data/templates/golden.json: what Python's jinja2 renders from the templates there and from the
snippets, for the C++ tests, which run without Python. Run it again after changing templates, conversations or
snippets:

  python tests/server/jinja/make_jinja_golden.py
"""

import json
import pathlib

import jinja_conversations
import jinja_reference
import jinja_snippets

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "data/templates"
# Uses tools only where they show; every conversation is rendered with the plain setting.
WITH_TOOLS = {"user", "system_user", "call", "call_result", "call_result_answer", "two_calls"}


def chosen_contexts():
    for name, context in jinja_conversations.contexts():
        conversation, setting = name.split("/")
        if setting == "prompt" or (setting == "tools" and conversation in WITH_TOOLS):
            yield name, context


def expected(env, template, context):
    result = jinja_reference.render(env, template, context)
    if "output" in result:
        return {"output": result["output"]}
    # The messages of raise_exception must be equal; Python's own messages differ from ours.
    return {"raised": result["error"]} if result["raised"] else {"fails": True}


def main():
    env = jinja_reference.environment()
    contexts = dict(chosen_contexts())
    templates = {
        path.stem: {name: expected(env, path.read_text(encoding="utf-8"), context)
                    for name, context in contexts.items()}
        for path in sorted(FOLDER.glob("*.jinja"))
    }
    pieces = ["{{ " + e + " }}" for e in jinja_snippets.EXPRESSIONS]
    pieces += jinja_snippets.STATEMENTS + jinja_snippets.WHITESPACE
    snippets = [[piece, expected(env, piece, jinja_snippets.CONTEXT)] for piece in pieces]
    mutable = jinja_reference.environment(immutable=False)
    snippets += [[piece, expected(mutable, piece, jinja_snippets.CONTEXT)]
                 for piece in jinja_snippets.MUTATING]
    golden = {"contexts": contexts, "templates": templates, "snippet_context": jinja_snippets.CONTEXT,
              "snippets": snippets}
    text = json.dumps(golden, ensure_ascii=False,
                      separators=(",", ":")).replace('},"', '},\n"').replace("],[", "],\n[")
    (FOLDER / "golden.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
